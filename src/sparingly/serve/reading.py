"""Reads the bodies of requests, strictly: what could be meant in two ways, or stored only by half, is refused.

JSON leaves open what a repeated key, NaN, 1e999 or half a surrogate pair means. Here each is an error with a reason.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn, TypeVar

import msgspec

from sparingly.serve.contract import DEEPEST
from sparingly.serve.problems import Malformed, Unfit

T = TypeVar("T")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        # `add` returns None, which is what carries the search on.
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Malformed(f"the key {twice[:80]!r} stands twice in one object")
    return result


def _constant(word: str) -> NoReturn:
    raise Malformed(f"{word} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Malformed(f"the number {text[:40]} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > 400:
        raise Malformed(f"a whole number has {len(text):,} digits; at most 400 are read")
    return int(text)


# Calls for each number cost more than all else: they are made only where a number may be too large.
_careful = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_whole, strict=True
)
_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, strict=True)
_large = re.compile(r"[0-9][eE]|(?<![0-9])[0-9]{300}")
_large_bytes = re.compile(_large.pattern.encode())


def parse(body: bytes) -> Any:
    """The value of a JSON document in UTF-8."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"the body is not UTF-8: byte {error.start} does not belong there") from None
    if not text.strip():
        raise Malformed("the body is empty; JSON was expected")
    try:
        value = (_careful if _large.search(text) else _decoder).decode(text)
    except json.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: {error.msg}, line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _too_deep() from None
    if text.count("[") + text.count("{") > DEEPEST:
        _check_depth(value, 0)
    if "\\u" in text:
        _check_characters(value)
    return value


def _too_deep() -> Malformed:
    return Malformed(f"the body is nested more than {DEEPEST} levels deep")


def _check_depth(value: Any, level: int) -> None:
    if not isinstance(value, dict | list):
        return
    if level >= DEEPEST:
        raise _too_deep()
    for item in value.values() if isinstance(value, dict) else value:
        _check_depth(item, level + 1)


def _check_characters(value: Any) -> None:
    """A lone surrogate is no character: it can be written in JSON, but not in UTF-8."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_characters(key)
            _check_characters(item)
    elif isinstance(value, list):
        for item in value:
            _check_characters(item)
    elif isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise Malformed("a string has one half of a surrogate pair (\\ud800 … \\udfff) without the other")


_key = re.compile(rb'"([^"]*)"\s*:')
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def _without_numbers(body: bytes) -> bytes:
    """The body without its list of numbers, if it has one: no key can be in there, and to look takes its time."""
    start, end = body.find(b"["), body.rfind(b"]")
    return body if start < 0 or body.find(b'"', start, end) >= 0 else body[:start] + body[end:]


def _plainly(body: bytes, kind: type[T]) -> T | None:
    """A body that is one flat object without escapes and without a key twice, decoded at once; None for all others.

    msgspec is as strict as `parse` in all but repeated keys, and many times as fast.
    """
    if b"\\" in body or body.find(b"{", body.find(b"{") + 1) >= 0:
        return None
    keys = _key.findall(_without_numbers(body))
    if len(keys) > 1 and len(set(keys)) < len(keys):
        return None
    if b"payload" in keys and (body.count(b"[") >= DEEPEST or _large_bytes.search(body)):
        return None  # all other numbers and lists have limits of their own
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind, strict=True)
    try:
        value: T = decoder.decode(body)
        return value
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def read(body: bytes, kind: type[T]) -> T:
    """A body as its type, or the reason why it is none."""
    plain = _plainly(body, kind)
    if plain is not None:
        return plain
    value = parse(body)
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise Unfit(str(error)) from None
