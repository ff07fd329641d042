"""LinTS: Thompson sampling for linear rewards (Agrawal & Goyal, 2013).

In each round θ is drawn from N(θ̂, (scale·l)²/d·V⁻¹), and the row with the largest ⟨x, θ⟩ is played; l is OFUL's.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparingly.linear.oful import OFUL, radius


@dataclass(frozen=True)
class LinTS(OFUL, radius=radius):
    """Thompson sampling for linear rewards: parameters and intervals are those of OFUL, which the rules see.

    The belief's deviation is scale·l/sqrt(d), about that of a posterior: OFUL's ellipsoid is the set that holds θ
    nearly always, and a draw from the belief lies about sqrt(d) deviations from its middle. The budget is as safe as
    with OFUL; bounds on regret are not proved for it together with a rule.

    >>> LinTS(dim=4).scale
    1.0
    """

    summary = "Thompson sampling for linear rewards."

    draws = True
