"""Saved agents: one JSON file with a version and a checksum, written at once or not at all.

A file is believed only if everything in it fits together: the checksum, the shapes, and the ledger's sums.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from sparingly import budgets
from sparingly.agent import Agent
from sparingly.errors import InvalidInput, MigrationWarning, SparinglyError, UnreadableFile
from sparingly.family import as_integers
from sparingly.learners import LEARNERS
from sparingly.rules import RULES, BalancedMatching
from sparingly.rules.balanced import PARTS
from sparingly.rules.pacing import PACE, fresh_pace

FORMAT = "sparingly agent"
VERSION = 4  # 2: before rules had `explore`; 3: episodes with `notes`
SCHEDULES = (
    budgets.Linear, budgets.Polynomial, budgets.Fixed, budgets.Late, budgets.Periodic, budgets.Sequence,
    budgets.ByClock,
)  # fmt: skip
REPLACED = "AdaptiveMatching"  # a rule of 0.1.0
EXPLORING = {rule.__name__ for rule in RULES if "explore" in {f.name for f in dataclasses.fields(rule) if f.init}}
NAMED = ("actions", "contexts", "rewards")  # what people call things; left out of the file where they have no names
TYPES: tuple[type, ...] = (*LEARNERS, *RULES, *SCHEDULES)


def save(agent: Agent, path: str | os.PathLike[str]) -> None:
    """Write an agent to `path`, replacing what was there only when the new file is complete on disk."""
    _write(Path(path), dumps(agent))


def dumps(agent: Agent, check: bool = True, awaited: bool = True) -> str:
    """An agent as text, from which `loads` makes it again; without `check`, shorter, and nobody has tried.

    Without `awaited`, what the answers to come will need is kept by somebody else: see `Agent.set_aside`.
    """
    body: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "learner": _describe(agent.learner),
        "rule": _describe(agent.rule),
        "schedule": None if agent.schedule is None else _describe(agent.schedule),
        "scheduled": agent._scheduled,
        "memory": agent._family.parts(),
        "awaited": [[number, ticket] for number, ticket in agent._awaited.items()] if awaited else None,
    }
    body |= {name: given for name in NAMED if (given := getattr(agent, name)) is not None}
    plain = _encode(body)
    if not check:
        return json.dumps(plain | {"checksum": _checksum(plain)}, separators=(",", ":"), allow_nan=False)
    try:
        text = json.dumps(plain | {"checksum": _checksum(plain)}, indent=1, allow_nan=False)
        own = (type(agent.learner), type(agent.rule), type(agent.schedule))
        again = _rebuild(_decode(json.loads(text)), {t.__name__: t for t in (*TYPES, *own)})
    except (TypeError, ValueError, KeyError, AttributeError, SparinglyError) as error:
        raise InvalidInput(f"this agent cannot be saved, because it could not be read back: {error}") from None
    if again.learner != agent.learner or again.rule != agent.rule:
        raise InvalidInput("this agent cannot be saved: a parameter of its learner or rule does not survive JSON")
    return text


def _write(target: Path, text: str) -> None:
    """Replace a file at once: the new one is complete on disk before it takes the old one's place."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~umask)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str], types: tuple[type, ...]) -> Agent:
    """Read an agent back, or say why the file cannot be believed."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path} is damaged: it is not a text file") from None
    return loads(text, types, str(path))


def loads(text: str, types: tuple[type, ...] = (), name: str = "the text") -> Agent:
    """Make an agent from the text of `dumps`, or say why `name` cannot be believed."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"{name} is damaged or truncated: {error}") from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise UnreadableFile(f"{name} is not a saved agent of sparingly")
    version = plain.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise UnreadableFile(f"{name} has version {version!r}, this sparingly reads up to {VERSION}: upgrade sparingly")
    if plain.pop("checksum", None) != _checksum(plain):
        raise UnreadableFile(f"{name} is damaged: its content does not match its checksum")
    try:
        body, known = _migrated(_decode(plain)), {t.__name__: t for t in (*TYPES, *types)}
        replaced = body["rule"]["type"] == REPLACED and REPLACED not in known
        agent = _rebuild(_balanced(body) if replaced else body, known)
    except UnreadableFile as error:
        raise UnreadableFile(f"{name} cannot be read: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, SparinglyError) as error:
        raise UnreadableFile(f"{name} is inconsistent: {type(error).__name__}: {error}") from None
    if replaced:
        old = f"{REPLACED}(share={plain['rule']['share']!r})"
        told = f"{old} is no more: the agent in {name} goes on with {agent.rule!r}. Save it, and it loads without this"
        warnings.warn(told, MigrationWarning, stacklevel=4)
    return agent


def _migrated(body: dict[str, Any]) -> dict[str, Any]:
    """What an earlier version has written, as this one writes it."""
    if body["version"] < 3 and body["rule"]["type"] in EXPLORING:  # rules used to explore in every round
        body["rule"] = {"explore": "always"} | body["rule"]
    if body["version"] < 4 and "notes" in body["memory"]:  # of a cell: its squares, and what a rule has noted
        body["memory"]["squares"] = body["memory"].pop("notes")[:, 0]
    return body


def _balanced(body: dict[str, Any]) -> dict[str, Any]:
    """An agent with AdaptiveMatching, as one with BalancedMatching: docs/paper.md shows that this is safe.

    The reserve is rounded down to the parts in which it is counted, lest it promise more than the share has kept.
    """
    reserve, pace = math.floor(body["rule"]["share"] * PARTS) / PARTS, np.zeros(1, dtype=PACE)
    fresh_pace(pace)
    rule = _describe(BalancedMatching(reserve=reserve, explore="always"))
    memory = body["memory"] | {"pace": as_integers(pace), "scores": np.zeros(0)}
    return body | {"rule": rule, "memory": memory}


def _describe(part: Any) -> dict[str, Any]:
    """A learner, a rule or a schedule as its name and parameters."""
    if isinstance(part, budgets.Sequence):
        return {"type": "Sequence", "values": part.values}
    if not dataclasses.is_dataclass(part):
        name = type(part).__name__
        raise InvalidInput(f"{name} cannot be saved: make it a dataclass, so that its parameters are known")
    return {"type": type(part).__name__} | {f.name: getattr(part, f.name) for f in dataclasses.fields(part) if f.init}


def _restore_part(data: dict[str, Any], types: dict[str, type]) -> Any:
    parameters = dict(data)
    name = parameters.pop("type")
    if name not in types:
        raise UnreadableFile(f"it uses {name!r}, which is not part of sparingly; pass types=[{name}] to Agent.load")
    return types[name](**parameters)


def _rebuild(body: dict[str, Any], types: dict[str, type]) -> Agent:
    named = {name: body[name] for name in NAMED if name in body}
    agent = Agent(_restore_part(body["learner"], types), _restore_part(body["rule"], types), 0.0, seed=0, **named)
    if body["schedule"] is not None:
        agent.schedule = _restore_part(body["schedule"], types)
    kept = body["awaited"]
    awaited = None if kept is None else {_hashable(number): _hashable(ticket) for number, ticket in kept}
    agent._restore(body["memory"], awaited, int(body["scheduled"]))
    return agent


def _hashable(value: Any) -> Any:
    """An id or a ticket as it was before it became JSON: a list was a tuple."""
    return tuple(value) if isinstance(value, list) else value


def _encode(value: Any) -> Any:
    """Arrays and infinities as plain JSON; exact, since Python writes floats so that they read back equal."""
    if isinstance(value, dict):
        return {str(k): _encode(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(v) for v in value]
    if isinstance(value, np.ndarray):
        return {"array": str(value.dtype), "shape": list(value.shape), "data": _encode(value.ravel().tolist())}
    if isinstance(value, np.generic):
        return _encode(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"array", "shape", "data"}:
        return np.array(_decode(value["data"]), dtype=np.dtype(value["array"])).reshape(value["shape"])
    if value.keys() == {"float"}:
        return float(value["float"])
    return {k: _decode(v) for k, v in value.items()}


def _checksum(plain: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
