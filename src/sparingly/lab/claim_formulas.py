r"""What the claims say as formulas, in LaTeX, for the report.

A claim's own statement has the same in one line of plain text, for the terminal. R(T) is the regret after T rounds,
B(t) the budget, n^q the number of asks about a cell.
"""

from __future__ import annotations

from collections.abc import Mapping

_MATCHING_EPISODES = (
    r"\text{CI}^R \ge L\left(6\sqrt{|L_R|/B} + \frac{4SAH(\log(1+B)+1)}{B}\right)",
    r"\sum_{t=1}^{T}\left(\sqrt{|L_R| H^2/B(t)} + \frac{SAH^2(\log(1+B(t))+1)}{B(t)}\right)",
)
_WITHIN = r"\text{spent}(t) \le B(t) \quad\text{for all } t"
_TRAP = r"R_{\text{greedy}}(T) \ge \frac{T}{4}, \qquad R_{\text{matching}}(T) = \tilde{O}(\sqrt{T})"

FORMULAS: Mapping[str, str] = {
    # Lower bounds
    "lower/unit-costs": r"\max_\nu R_\nu(T) \ge \frac{1}{140}\min\left(T\sqrt{A/B},\ T\right)",
    "lower/arm-costs": (r"\max_\nu R_\nu(T) \ge \frac{1}{140}\min\left(T\sqrt{\sum_a c(a)/(B(1+\log A))},\ T\right)"),
    "lower/varying-budget": (
        r"\max_\nu R_\nu(T) \ge \frac{1}{140(1+\log T)}"
        r"\sum_{t=1}^{T}\min\left(\sqrt{\sum_a c(a)/(B(t)(1+\log A))},\ 1\right)"
    ),
    "lower/linear": r"\max_\theta R_\theta(T) \ge \frac{dT}{80\sqrt{B}}",
    "lower/varying-linear": (r"\max_\theta R_\theta(T) \ge \frac{1}{80(1+\log T)}\sum_{t=1}^{T}\frac{d}{\sqrt{B(t)}}"),
    # The greedy reduction
    "greedy/moss": (r"R(T) \le \alpha\sqrt{T} + \sum_{t=1}^{T}\frac{\alpha}{\sqrt{B(t)}}, \qquad \alpha = 113\sqrt{A}"),
    "greedy/oful": (
        r"R(T) \le \alpha\left(\sqrt{T} + \sum_{t=1}^{T}\frac{1}{\sqrt{B(t)}}\right)"
        r" + C\left(1 + \sum_{t=1}^{T}\frac{1}{B(t)}\right), \qquad \alpha = 2\,l_T v_T,\quad C = 2\delta T"
    ),
    "greedy/adversarial-contexts": _TRAP,
    "greedy/adversarial-budget": _TRAP,
    "greedy/adversarial-linear": _TRAP,
    "greedy/past-policies": r"\mathbb{E}\,R(T) = \frac{T}{B}\,\mathbb{E}\,R(B)",
    # Arms
    "ucb/regret": (
        r"R(T) \le \sqrt{24AT\log(AT)} + A\sqrt{6\log(AT)}"
        r" + 4\sqrt{6\log(AT)\sum_a c(a)}\ \sum_{t=1}^{T}\mathbb{E}\sqrt{1/B(t)} + 2"
    ),
    "ucb/budget": _WITHIN,
    "ucb/rate": r"B(t) = \varepsilon t \;\Rightarrow\; R(T) = \tilde{O}(\sqrt{T})",
    "ucb/arms": r"R(T) = \tilde{\Theta}(\sqrt{A})",
    "ucb/cells": r"R(T) = \tilde{\Theta}(\sqrt{SA})",
    "ucb/costs": r"R(T) = \tilde{\Theta}\left(\sqrt{\textstyle\sum_a c(a)}\right)",
    # Features
    "oful/regret": (
        r"\Pr\left(\forall T:\ R(T) \le 2\,l_T v_T\left(\sum_{t=1}^{T}\frac{1}{\sqrt{B(t)}} + \sqrt{T}\right)\right)"
        r" \ge 1 - \delta"
    ),
    "oful/budget": _WITHIN,
    "oful/rate": r"B(t) = \varepsilon t \;\Rightarrow\; R(T) = \tilde{O}(\sqrt{T})",
    "oful/dimension": r"R(T) = \tilde{\Theta}(d)",
    # Episodes
    "ucbvi/regret": (r"R(T) \le 36L\left(\sqrt{SAH^4T} + " + _MATCHING_EPISODES[1] + r"\right) + 306\,H^3S^2AL^2"),
    "ulcvi/regret": (r"R(T) \le 45L^2\left(\sqrt{SAH^3T} + " + _MATCHING_EPISODES[1] + r"\right) + 2904\,H^3S^2AL^2"),
    "ucbvi/rate": r"B(t) = t \;\Rightarrow\; R(T) = \tilde{O}(\sqrt{T})",
    "ulcvi/rate": r"B(t) = t \;\Rightarrow\; R(T) = \tilde{O}(\sqrt{T})",
    "ucbvi/budget": _WITHIN,
    "ulcvi/budget": _WITHIN,
    "ucbvi/horizon": r"R(T) = \tilde{\Theta}(H^2)",
    "ucbvi/rewarding": r"n^q = \Theta\left(\sqrt{B/|L_R|}\right)",
    "ulcvi/horizon": r"\frac{\sum b^p_{\text{UCBVI}}}{\sum b^p_{\text{ULCVI}}} = \Theta(\sqrt{H})",
    "episodic/sparsity": r"B(t) = \frac{|L_R|}{SAH}\,t \;\Rightarrow\; R(T) = \tilde{O}(\sqrt{T})",
    "episodic/adversarial-states": _TRAP,
    # Budget profiles
    "profiles/linear": (
        r"B(t) = \varepsilon t \;\Rightarrow\; R(T) = \tilde{\Theta}\left(\sqrt{AT/\varepsilon}\right)"
    ),
    "profiles/polynomial": r"B(t) = t^c \;\Rightarrow\; R(T) = \tilde{\Theta}\left(\sqrt{A}\,T^{1-c/2}\right)",
    "profiles/fixed": r"B(t) = B_0 \;\Rightarrow\; R(T) = \tilde{\Theta}\left(\frac{\sqrt{A}\,T}{\sqrt{B_0}}\right)",
    "profiles/late": r"B(t) = B_0\,\mathbf{1}[t > T - B_0] \;\Rightarrow\; R(T) = \Omega(T)",
    "profiles/periodic": (
        r"B(t) = B_0\left\lceil\frac{t}{N}\right\rceil \;\Rightarrow\;"
        r" R(T) = \tilde{\Theta}\left(\sqrt{ATN/B_0}\right)"
    ),
    # Remarks and lemmas
    "remarks/rule-of-thumb": (
        r"R(T) \le \alpha T^{\beta}: \quad \text{ask if } \text{CI}_t \ge \alpha_t\,B(t)^{\beta-1}"
    ),
    "lemmas/information": (
        r"\text{KL}(\mathbb{P}_\nu, \mathbb{P}_{\nu'}) = \sum_a \mathbb{E}_\nu[n^q(a)]\;\text{KL}(\nu_a, \nu'_a)"
    ),
    "lemmas/counting": (
        r"\sum_i\frac{1}{\sqrt{n_i \vee 1}} \le M + 2\sqrt{Mn}, \qquad"
        r" \sum_i\frac{1}{n_i \vee 1} \le M(2+\log n), \qquad"
        r" \sum_i \min(\lVert x_i\rVert^2, 1) \le 2d\log\left(1+\frac{nL^2}{d\lambda}\right)"
    ),
    "lemmas/total-variance": (r"\mathbb{E}\sum_{h=1}^{H}\text{Var}\,V_{h+1} = \text{Var}\sum_{h=1}^{H} r_h \le H^2"),
    # Constants along real runs
    "constants/arms": (
        r"a_t = \text{argmax}_a\ \bar r_a + \sqrt{3\log(Mt)/(2(n_a \vee 1))}, \qquad \text{ask if}\quad"
        r" \sqrt{6\log(Mt)/(n \vee 1)} \ge 4\sqrt{6\log(Mt)\,C/B(t)}"
    ),
    "constants/features": (
        r"l = \max\left(1,\ \sigma\sqrt{2d\log\frac{1+tL^2/\lambda}{\delta}} + \sqrt{\lambda}\,D\right), \qquad"
        r" \text{ask if}\quad \min(\lVert x\rVert, 1) \ge \frac{v_B}{\sqrt{B}}, \quad"
        r" v_B = \sqrt{2d\log\left(1+\frac{BL^2}{d\lambda}\right)}"
    ),
    "constants/ucbvi": (
        r"b^r = \sqrt{2\,\text{Var}\,L/n} + \frac{5L}{n}, \qquad"
        r" b^p = \sqrt{2H^2L/n} + \frac{5HL}{n}, \qquad \text{ask if}\quad " + _MATCHING_EPISODES[0]
    ),
    "constants/ulcvi": (
        r"b^p = \sqrt{2\,\text{Var}(\bar V)\,L/n} + \frac{44H^2SL}{n}"
        r" + \frac{\mathbb{E}[\bar V - \underline{V}]}{16H}"
    ),
    "constants/ledger": r"\text{ask if it is wanted and}\quad \text{spent} + c \le B(t)",
    # Corrections
    "corrections/e1": r"\text{CI} \ge 4\sqrt{6\log(At)\,C/B} \;\Leftrightarrow\; n \vee 1 \le \frac{B}{16C}",
    "corrections/e2": r"n \le \frac{B}{C} + c(a) \ \text{overspends;} \qquad (n+1)\,C \le B \ \text{does not}",
    "corrections/e3": r"b^r = \sqrt{3\log(At)/(2(n \vee 1))}",
    "corrections/e4": r"\text{ask if}\quad \min(\lVert x\rVert, 1) \ge \frac{v_B}{\sqrt{B}}",
    "corrections/e5": r"V_h(s) = \min\left(V_h(s),\ H - h + 1\right)",
    "corrections/e6": r"\text{ask if}\quad " + _MATCHING_EPISODES[0],
    "corrections/e7": (
        r"\text{ask if}\quad"
        r" \text{CI}^R \ge L\left(6\sqrt{|L_R|/B} + \frac{12SAH(\log(1+B)+1)}{B}\right)"
    ),
    "corrections/e8": r"b^p = \sqrt{2H^2L/(n \vee 1)} + \frac{5HL}{n \vee 1}",
    "corrections/e9": r"L_R = \{(s, a) : \text{Var}\,R(s, a) > 0\}",
    "corrections/e10": r"\bar r = \frac{1}{n^q}\sum_{i=1}^{n^q} r_i",
    "corrections/e11": r"B = T^{\beta} \;\Rightarrow\; R(T) = \Theta\left(\sqrt{A}\,T^{1-\beta/2}\right)",
    # Our own rules
    "ours/exact-arms": r"\text{ask if}\quad (n+1)\,C \le B(t)",
    "ours/exact-linear": r"\text{ask if}\quad N(\lVert x\rVert) \le B(t) - \text{spent}",
    "ours/exact-spends": _WITHIN,
    "ours/oful-costs": (
        r"\text{declined only if}\quad"
        r" \log(1+\lVert x\rVert^2) \le \frac{c\,d}{B}\,\log\left(1+\frac{B}{c_{\min}\,d}\right)"
    ),
}
