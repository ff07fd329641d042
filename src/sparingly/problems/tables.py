"""Your own data as rounds: a CSV or Parquet file or a data frame, and which of its columns are what.

Mistakes in the data are found here, before anything runs. Each gets an error or a warning that names the column.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparingly.errors import InvalidInput, MissingExtra
from sparingly.problems.real import Logged, Table, labelled, warn, whiten
from sparingly.validation import shown

if TYPE_CHECKING:
    import pandas

Floats = NDArray[np.float64]
Columns = Mapping[str, str | Sequence[str]]

SINGLE = ("context", "label", "action", "reward", "propensity")  # one column each
SEVERAL = {"features": ("x_", "feature_"), "rewards": ("reward_",)}  # and how their names begin if no map is given
KINDS = (
    "an action's reward and propensity (a log), rewards, one column for each action, or a label (a classification); "
    "and a context or features"
)
LEAST_ROWS = 2
MOST_ACTIONS = 1_000
MOST_CONTEXTS = 10_000


def from_table(data: Any, columns: Columns | None = None, rescale: bool = False) -> Table | Logged:
    """Rounds from a file (.csv, .tsv, .parquet) or a pandas data frame.

    Parameters:
    - `data`: the path of a file, or a data frame.
    - `columns`: what is what. {"context": "segment", "rewards": ["small", "large"]} or {"features": [...], "label":
      "class"} make a `Table`; {"action": …, "reward": …, "propensity": …} with a context or features make a `Logged`.
      Without it, columns are known by just these names; `x_…` are features and `reward_…` are rewards.
    - `rescale`: whether to map rewards linearly to [0, 1].

    Returns: a `Table` if all rewards are known, a `Logged` if there are propensities.

    >>> import pandas
    >>> rows = pandas.DataFrame({"who": ["a", "b"] * 60, "small": [0, 1] * 60, "large": [1, 1] * 60})
    >>> from_table(rows, {"context": "who", "rewards": ["small", "large"]})
    Table(data frame: 120 rows, 2 actions)
    """
    frame, name = _frame(data)
    parts = _parts(frame, columns)
    _check_parts(parts)
    if len(frame) < LEAST_ROWS:
        raise InvalidInput(f"{name} has {len(frame)} rows; at least {LEAST_ROWS} are needed, and hundreds to be useful")
    if {"action", "reward", "propensity"} & set(parts):
        return _log(frame, name, parts, rescale)
    if "label" in parts:
        codes, names = _codes(frame, parts["label"][0])
        _repeat(frame, parts["label"][0], names, "actions", MOST_ACTIONS)
        return labelled(name, _features(frame, parts), [names[code] for code in codes])
    if "rewards" not in parts:
        raise InvalidInput(f"{name}: tell which columns are {KINDS}. It has {_listed(frame)}")
    rewards = _rescaled(np.stack([_numbers(frame, c) for c in parts["rewards"]], axis=1), rescale)
    return Table(name, tuple(parts["rewards"]), rewards=rewards, **_known(frame, parts))


def _log(frame: pandas.DataFrame, name: str, parts: dict[str, list[str]], rescale: bool) -> Logged:
    missing = [part for part in ("action", "reward", "propensity") if part not in parts]
    if missing:
        raise InvalidInput(
            f"{name}: a log needs action, reward and propensity; {', '.join(missing)} is not among the columns "
            f"{_listed(frame)}. Without propensities nothing can be said about actions that were not taken"
        )
    taken, names = _codes(frame, parts["action"][0])
    _repeat(frame, parts["action"][0], names, "actions", MOST_ACTIONS)
    if len(names) < 2:
        raise InvalidInput(f"column {parts['action'][0]!r} is constant: the log has one action only, {names[0]!r}")
    reward = _rescaled(_numbers(frame, parts["reward"][0]), rescale)
    propensity = _numbers(frame, parts["propensity"][0])
    return Logged(name, names, taken=taken, reward=reward, propensity=propensity, **_known(frame, parts))


def _known(frame: pandas.DataFrame, parts: dict[str, list[str]]) -> dict[str, Any]:
    """What is known before acting: a context, features, or nothing, which is one context for all."""
    if "features" in parts:
        return {"shared": whiten(_features(frame, parts))}
    if "context" in parts:
        codes, names = _codes(frame, parts["context"][0])
        _repeat(frame, parts["context"][0], names, "contexts", MOST_CONTEXTS)
        return {"contexts": codes, "named": names}
    return {"contexts": np.zeros(len(frame), dtype=np.int64)}


def _features(frame: pandas.DataFrame, parts: dict[str, list[str]]) -> Floats:
    if "features" not in parts:
        raise InvalidInput(f"a classification needs `features`; the columns are {_listed(frame)}")
    values = np.stack([_numbers(frame, column) for column in parts["features"]], axis=1)
    same = [c for c, spread in zip(parts["features"], np.ptp(values, axis=0), strict=True) if spread == 0.0]
    if len(same) == len(parts["features"]):
        raise InvalidInput(f"every feature is constant: {', '.join(same)}")
    if same:
        warn(f"constant, and left out: {', '.join(same)}")
    return values


def _repeat(frame: pandas.DataFrame, column: str, names: tuple[str, ...], what: str, most: int) -> None:
    """Actions and contexts must come again and again to be learned about."""
    if len(names) > most:
        raise InvalidInput(
            f"column {column!r} has {len(names):,} different values; as {what}, at most {most:,} can be told apart. "
            "Group them first; a number can be a feature"
        )
    if len(names) > 0.5 * len(frame):
        warn(f"column {column!r} has {len(names)} values in {len(frame)} rows; nothing repeats enough")


def _numbers(frame: pandas.DataFrame, column: str) -> Floats:
    """A column of finite numbers."""
    values = frame[column]
    if values.dtype.kind in "mM":
        raise InvalidInput(
            f"column {column!r} has dates or times; make numbers of them, say hours or days, that mean something"
        )
    try:
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        row, value = next((i, v) for i, v in enumerate(values) if not _is_number(v))
        raise InvalidInput(
            f"column {column!r} must be numbers, but has {shown(value)} in row {row}; a text can be a context"
        ) from None
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise InvalidInput(
            f"column {column!r} has {wrong.size} values that are missing or not finite, the first in row {wrong[0]}; "
            "drop those rows or fill them"
        )
    return numbers


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _codes(frame: pandas.DataFrame, column: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """A column of names or whole numbers as 0, 1, …, with the names."""
    missing = np.flatnonzero(frame[column].isna().to_numpy())
    if missing.size:
        raise InvalidInput(f"column {column!r} has {missing.size} missing values, the first in row {missing[0]}")
    try:
        codes, names = frame[column].factorize(sort=True)
    except TypeError:  # lists and the like cannot be told apart
        raise InvalidInput(
            f"column {column!r} must have names or numbers, not {shown(frame[column].iloc[0])}"
        ) from None
    return np.asarray(codes, dtype=np.int64), tuple(str(name) for name in names)


def _rescaled(rewards: Floats, wanted: bool) -> Floats:
    if not wanted:
        return rewards
    if np.ptp(rewards) == 0.0:
        raise InvalidInput(f"every reward is {rewards.flat[0]:g}: there is nothing to rescale, and nothing to learn")
    scaled: Floats = (rewards - rewards.min()) / np.ptp(rewards)
    return scaled


def _check_parts(parts: Mapping[str, Sequence[str]]) -> None:
    """No column may be two things: a feature that is the reward would tell what was not asked for."""
    used: dict[str, str] = {}
    for part, names in parts.items():
        for name in names:
            if name in used:
                both = "twice" if used[name] == part else f"as {used[name]} and as {part}"
                raise InvalidInput(f"column {name!r} is given {both}; a column can have one part only")
            used[name] = part
    for first, second in (("context", "features"), ("label", "rewards"), ("label", "action"), ("rewards", "action")):
        if first in parts and second in parts:
            raise InvalidInput(
                f"there is {first} ({parts[first][0]}) and {second} ({parts[second][0]}): say with `columns` "
                "(--columns) which one is meant"
            )


def _parts(frame: pandas.DataFrame, columns: Columns | None) -> dict[str, list[str]]:
    """The columns of each part, all of which exist."""
    if columns is None:
        parts = {part: [part] for part in SINGLE if part in frame.columns}
        for part, starts in SEVERAL.items():
            found = [str(c) for c in frame.columns if str(c).startswith(starts)]
            parts |= {part: found} if found else {}
        return parts
    parts = {}
    for part, given in columns.items():
        if part not in (*SINGLE, *SEVERAL):
            raise InvalidInput(f"columns has no part {part!r}; there are {', '.join((*SINGLE, *SEVERAL))}")
        parts[part] = [given] if isinstance(given, str) else list(given)
        missing = [c for c in parts[part] if c not in frame.columns]
        if missing:
            raise InvalidInput(f"there is no column {missing[0]!r} (for {part}); the columns are {_listed(frame)}")
        if part in SINGLE and len(parts[part]) != 1:
            raise InvalidInput(f"{part} is one column, not {len(parts[part])}")
    return parts


def _listed(frame: pandas.DataFrame) -> str:
    names = [str(c) for c in frame.columns]
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _frame(data: Any) -> tuple[pandas.DataFrame, str]:
    try:
        import pandas
    except ImportError:
        raise MissingExtra("reading tables (package pandas)", "lab") from None
    if isinstance(data, pandas.DataFrame):
        return _each_once(data), "data frame"
    path = Path(data)
    readers: dict[str, Any] = {
        ".csv": _read_text,
        ".tsv": lambda p: _read_text(p, "\t"),
        ".parquet": pandas.read_parquet,
    }
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}")
    if path.suffix not in readers:
        raise InvalidInput(f"{path} must end in {', '.join(readers)}, not {path.suffix!r}")
    try:
        return _each_once(readers[path.suffix](path)), path.stem
    except InvalidInput:
        raise
    except Exception as error:  # each reader has kinds of its own; all mean that the file is damaged
        raise InvalidInput(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def _each_once(frame: pandas.DataFrame) -> pandas.DataFrame:
    """A frame whose columns have names of their own."""
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InvalidInput(f"two columns are called {str(twice[0])!r}; give one of them another name")
    return frame


def _read_text(path: Path, separator: str = ",") -> pandas.DataFrame:
    """A file with a header and rows of the same length; only what is empty is missing, as NA may be a name."""
    import pandas

    with path.open(encoding="utf-8-sig", newline="") as file:
        heads = next(csv.reader(file, delimiter=separator, skipinitialspace=True), [])
    if len(heads) == 1 and ";" in heads[0]:
        raise InvalidInput(f"{path} has semicolons between its columns; save it with commas, or with tabs as .tsv")
    twice = [head for head in heads if heads.count(head) > 1]
    if twice:  # pandas would call the second one x.1
        raise InvalidInput(f"two columns are called {twice[0]!r}; give one of them another name")
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # rows longer than the header
        try:
            return pandas.read_csv(
                path, sep=separator, index_col=False, skipinitialspace=True, keep_default_na=False, na_values=[""]
            )
        except pandas.errors.ParserWarning:
            raise InvalidInput(f"{path} has rows with more values than its {len(heads)} columns") from None
