"""What a candidate loses in a world: (best − it)/(best − asking never), in expected reward, paired over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas
from scipy import stats

from benchmarks.worlds.candidates import ZERO

LEVEL = 0.95
ALARM = 0.05  # the chance of one false loss or more in a world, by Holm's method


def half_width(values: np.ndarray) -> float:
    """Half of Student's interval of the mean."""
    quantile = float(stats.t.ppf(0.5 + LEVEL / 2.0, len(values) - 1))
    return quantile * float(values.std(ddof=1)) / math.sqrt(len(values))


def p_value(differences: np.ndarray) -> float:
    """Of a two-sided paired t-test; differences that are all equal are certain.

    >>> p_value(np.zeros(4)), p_value(np.ones(4)), round(p_value(np.array([1.0, 2.0, 3.0])), 3)
    (1.0, 0.0, 0.074)
    """
    spread, mean = float(differences.std(ddof=1)), float(differences.mean())
    if spread <= 1e-12 * max(abs(mean), 1e-300):
        return 1.0 if mean == 0.0 else 0.0
    return 2.0 * float(stats.t.sf(abs(mean) / spread * math.sqrt(len(differences)), len(differences) - 1))


def holm(ps: Sequence[float], alarm: float = ALARM) -> list[bool]:
    """Which of several tests are significant together.

    >>> holm([0.04, 0.001, 0.02]), holm([0.04, 0.001, 0.03])
    ([True, True, True], [False, True, False])
    """
    found = [False] * len(ps)
    for place, index in enumerate(np.argsort(ps, kind="stable").tolist()):
        if ps[index] > alarm / (len(ps) - place):
            break
        found[index] = True
    return found


def of_world(regrets: pandas.DataFrame) -> pandas.DataFrame:
    """A row for each candidate of a world, from its regrets: a row for each seed, a column for each candidate.

    Where even asking never is not significantly worse than the best, there is nothing to lose, and losses are NaN. The
    interval is that of the difference in regret; what there is to gain, by which it is divided, is taken as it is.
    """
    means = regrets.mean()
    best = str(means.idxmin())
    others = [name for name in regrets.columns if name != best]
    ps = {name: p_value((regrets[name] - regrets[best]).to_numpy()) for name in others}
    found = dict(zip(others, holm(list(ps.values())), strict=True))
    gain = means[ZERO] - means[best] if found.get(ZERO, False) else math.nan
    rows = []
    for name in regrets.columns:
        difference = (regrets[name] - regrets[best]).to_numpy()
        rows.append(
            {
                "candidate": name,
                "regret": means[name],
                "regret_half": half_width(regrets[name].to_numpy()),
                "loss": difference.mean() / gain,
                "half": half_width(difference) / gain,
                "p": ps.get(name, 1.0),
                "significant": found.get(name, False) and not math.isnan(gain),
                "best": name == best,
            }
        )
    return pandas.DataFrame(rows)


def of_all(runs: pandas.DataFrame) -> pandas.DataFrame:
    """The losses in all worlds of the runs, in their order."""
    parts = []
    for world, part in runs.groupby("world", sort=False):
        table = of_world(part.pivot(index="seed", columns="candidate", values="regret"))
        sums = part.groupby("candidate")[["asks", "budget", "reward"]].mean()
        counts = part.groupby("candidate").agg(over=("over", "max"), refused=("refused", "sum"), seeds=("seed", "size"))
        parts.append(table.join(sums, on="candidate").join(counts, on="candidate").assign(world=world))
    return pandas.concat(parts, ignore_index=True)
