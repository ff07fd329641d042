r"""The formulas of learners and rules, in LaTeX: for each, words and a formula, in the order of its page.

n is the number of answers about a cell, $n^q$ that of asks, t the round, M the number of cells, C what an ask about
every cell costs together, B the budget so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Formulas = Sequence[tuple[str, str]]

_PLANS = (
    "It plans backwards from the last step, with a bonus for rewards and one for transitions:",
    r"Q_h(s,a) = \bar r + b^r + b^p + \mathbb{E}\,V_{h+1}, \qquad V_h = \min\left(\max_a Q_h,\ H-h+1\right)",
)
_REWARD = (
    "The bonus for rewards shrinks with the answers, and that for transitions with the visits, asked about or not:",
    r"b^r = \sqrt{2\,\text{Var}\,L/(n^q \vee 1)} + \frac{5L}{n^q \vee 1}",
)

FORMULAS: Mapping[str, Formulas] = {
    "UCB1": (
        (
            "It plays the action with the largest index, the mean of its answers plus a bonus:",
            r"\text{index}_t(a) = \bar r(a) + \text{scale}\cdot\sqrt{3\log(Mt)/(2\,(n(a) \vee 1))}",
        ),
    ),
    "MOSS": (
        (
            "The bonus is 0 for actions that have had more than their share of the rounds, t/A:",
            r"\text{index}_t(a) = \bar r(a) + \text{scale}\cdot"
            r"\sqrt{\frac{1+\alpha}{2}\cdot\frac{\max\left(0,\ \log\frac{t}{A\,n(a)}\right)}{n(a)}}",
        ),
    ),
    "KLUCB": (
        (
            "It plays the action with the largest mean that its answers do not rule out:",
            r"\text{index}_t(a) = \max\left\{q \ge \bar r(a) :"
            r" n(a)\,\text{kl}(\bar r(a), q) \le \text{scale}^2\,(\log t + c\log\log t)\right\}",
        ),
        (
            "The distance between two coins:",
            r"\text{kl}(p, q) = p\log\frac{p}{q} + (1-p)\log\frac{1-p}{1-q}",
        ),
    ),
    "BettingUCB": (
        (
            "It plays the action with the largest mean that its answers do not rule out, at all times at once:",
            r"\text{index}(a) = \max\left\{q \ge \bar r(a) :"
            r" n(a)\,\text{kl}(\bar r(a), q) \le \text{scale}^2\,\log\frac{2 M \sqrt{n(a)}}{\delta}\right\}",
        ),
        (
            "The true mean is ever ruled out with a probability of at most δ: the capital of a bet seldom grows,",
            r"\int \prod_i \left(\frac{q}{m}\right)^{R_i}\left(\frac{1-q}{1-m}\right)^{1-R_i} dB(q)"
            r" \ge \frac{e^{n\,\text{kl}(\bar r, m)}}{2\sqrt{n}}",
        ),
    ),
    "Thompson": (
        (
            "It draws a mean for each action from its posterior, and plays the action with the largest:",
            r"\mu(a) \sim \text{Beta}\left(a + n\,\bar r(a),\ b + n\,(1 - \bar r(a))\right)",
        ),
        (
            "With noise σ, the posterior is normal. The prior is one answer of ½:",
            r"\mu(a) \sim \mathcal{N}\left(\frac{n\,\bar r(a) + \frac{1}{2}}{n+1},\ \frac{\sigma^2}{n+1}\right)",
        ),
    ),
    "EpsilonGreedy": (
        (
            "With probability 1 − ε it plays the action with the best mean, otherwise any action:",
            r"a_t = \text{argmax}_a\ \bar r(a) \quad\text{with probability } 1 - \varepsilon",
        ),
    ),
    "OFUL": (
        (
            "It fits a ridge regression to the answers, and adds a bonus for directions with few answers:",
            r"V = \lambda I + \sum_i x_i x_i^{\top}, \qquad \hat\theta = V^{-1}\sum_i x_i r_i, \qquad"
            r" \text{index}_t(x) = \langle x, \hat\theta\rangle + \text{scale}\cdot l_t\,{\lVert x\rVert}_{V^{-1}}",
        ),
        (
            "The radius of the ellipsoid, by the determinant:",
            r"l_t = \max\left(1,\ \sigma\sqrt{\log\frac{\det V}{\lambda^d} + 2\log\frac{1}{\delta}}"
            r" + \sqrt{\lambda}\,D\right)",
        ),
    ),
    "Logistic": (
        (
            "The probability of a yes, with the penalty λ/8 on the square of θ:",
            r"P(1 \mid x) = \mu(\langle x, \theta\rangle), \qquad \mu(u) = \frac{1}{1 + e^{-u}}",
        ),
        (
            "A bonus for directions in which the likelihood is flat:",
            r"\text{index}_t(x) = \langle x, \hat\theta\rangle + \text{scale}\cdot l_t\,{\lVert x\rVert}_{V^{-1}},"
            r" \qquad V = \lambda I + \sum_i 4\mu'(\langle x_i, \hat\theta\rangle)\, x_i x_i^{\top}",
        ),
        (
            "The radius:",
            r"l_t = \max\left(1,\ 2\sqrt{\log\frac{\det V}{\lambda^d} + 2\log\frac{1}{\delta}}"
            r" + \sqrt{\lambda}\,D\right)",
        ),
    ),
    "LinTS": (
        (
            "It draws θ from what is believed of it, and plays the row with the largest ⟨x, θ⟩. V, θ̂ and l are OFUL's:",
            r"\theta \sim \mathcal{N}\left(\hat\theta,\ \frac{(\text{scale}\cdot l_t)^2}{d}\,V^{-1}\right)",
        ),
    ),
    "Softmax": (
        (
            "The probability of each class, with the penalty λ/2 on the squares of the weights:",
            r"P(k \mid x) = \frac{e^{\langle z, w_k\rangle}}{\sum_j e^{\langle z, w_j\rangle}},"
            r" \qquad z = \frac{\sqrt{d}}{L}\,x",
        ),
        (
            "One width for all classes. A round is worth an ask while the two best scores are less than that apart:",
            r"\text{width}_t(x) = 2\cdot\text{scale}\cdot{\lVert z\rVert}_{V^{-1}}, \qquad"
            r" V = \lambda I + \sum_i z_i z_i^{\top}",
        ),
    ),
    "UCBVI": (
        _PLANS,
        _REWARD,
        (
            "",
            r"b^p = \sqrt{2H^2L/(n \vee 1)} + \frac{5HL}{n \vee 1}, \qquad"
            r" L = \log\frac{12\,S^2AH\,t^2(t+1)}{\delta}",
        ),
    ),
    "ULCVI": (
        _PLANS,
        _REWARD,
        (
            "It also bounds the values from below. The bonus for transitions depends on the distance of the two "
            "bounds, and on the variance of the next value:",
            r"b^p = \sqrt{2\,\text{Var}(\bar V)\,L/(n \vee 1)} + \frac{44H^2SL}{n \vee 1}"
            r" + \frac{\mathbb{E}[\bar V - \underline{V}]}{16H}",
        ),
    ),
    "StationaryUCBVI": (
        (
            "It plans for k steps to go, with one model for all steps. G is the most that k steps can return:",
            r"Q_k(s,a) = \min\left(G_k,\ \bar r + b^r + \mathbb{E}\,V_{k-1} + b^p\right), \qquad V_k = \max_a Q_k",
        ),
        (
            "The bonus for transitions; R is how far apart returns can lie:",
            r"b^p = \max\left(\text{scale}\cdot\sqrt{8\,\text{Var}(V_{k-1})\,L/n},"
            r"\ \text{slack}\cdot\frac{28\,R\,L}{3\,n}\right)",
        ),
    ),
    "BalancedMatching": (
        (
            "A share of the budget is a reserve, which guarantees every cell its asks, whatever an adversary does:",
            r"\text{ask if}\quad (n^q+1)\,C \le M(B), \qquad"
            r" M(B) = \min\left(\rho B,\ \max\left(B - \frac{C}{\rho},\ 0\right)\right)",
        ),
        (
            "Beyond that the free part pays, in the rounds that are worth most, as long as it lasts:",
            r"\sum_a c(a)\,\max\left(n^q(a) - \frac{M(B)}{C},\ 0\right) + c \le B - M(B)",
        ),
    ),
    "ExactMatching": (
        (
            "With arms and in episodes: ask if the budget could still bring every cell to this precision.",
            r"(n^q + 1)\,C \le B",
        ),
        (
            "With features: ask if the rest of the budget could pay for all further asks of this width. N(ε) is the "
            "greatest number of asks of width ε that can follow:",
            r"N({\lVert x\rVert}_{V^{-1}}) \le B - \text{spent}, \qquad N(\varepsilon) = \max\left\{n :"
            r" n\log(1+\varepsilon^2) \le d\log\frac{\text{tr}\,V + nL^2}{d} - \log\det V\right\}",
        ),
    ),
    "PaperMatching": (
        (
            "With arms (CBM-UCB):",
            r"\sqrt{6\log(Mt)/(n^q \vee 1)} \ge 4\sqrt{6\log(Mt)\,C/B}"
            r" \;\Leftrightarrow\; n^q \vee 1 \le \frac{B}{16\,C}",
        ),
        (
            "With features (CBM-OFUL):",
            r"\min\left({\lVert x\rVert}_{V^{-1}},\ 1\right) \ge \frac{v_B}{\sqrt{B}}, \qquad"
            r" v_B = \sqrt{2d\log\left(1+\frac{BL^2}{d\lambda}\right)}",
        ),
        (
            "In episodes (CBM-UCBVI, CBM-ULCVI):",
            r"\text{CI}^R \ge L\left(6\sqrt{|L_R|/B} + \frac{4SAH(\log(1+B)+1)}{B}\right)",
        ),
    ),
    "Matching": (
        (
            "The general form, for an optimistic learner whose regret grows like αT^β:",
            r"\text{CI}_t \ge \alpha_t\,B(t)^{\beta-1}, \qquad \alpha_t = \alpha\sqrt{\log(Mt)}",
        ),
    ),
    "Greedy": (
        ("Ask whenever the budget can pay:", r"\text{spent} + c \le B(t)"),
        (
            "In the other rounds a past policy acts, drawn uniformly. On random contexts the regret is that of the "
            "learner at B rounds, stretched to T:",
            r"R(T) \approx \frac{T}{B}\,R_{\text{learner}}(B)",
        ),
    ),
    "Always": (("Ask until the ledger refuses:", r"\text{spent} + c \le B(t)"),),
    "Never": (("It never asks, and learns nothing:", r"n^q = 0"),),
}
