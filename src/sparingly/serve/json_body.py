"""Decodes request bodies strictly: ambiguous JSON, and JSON that cannot be stored without loss, is refused.

The JSON standard does not say what a repeated key, NaN, 1e999 or a lone surrogate means. Here each is an error that
explains itself.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn, TypeVar

import msgspec

from sparingly.serve.contract import DEEPEST
from sparingly.serve.http_errors import BadRequest, Unprocessable

T = TypeVar("T")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        # `add` returns None, so the search continues.
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise BadRequest(f"the key {twice[:80]!r} occurs twice in one object")
    return result


def _constant(word: str) -> NoReturn:
    raise BadRequest(f"{word} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BadRequest(f"the number {text[:40]} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > 400:
        raise BadRequest(f"a whole number has {len(text):,} digits; at most 400 are read")
    return int(text)


# Calling a hook for every number is slow, so the careful decoder runs only if a number may be too large.
_careful = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_whole, strict=True
)
_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, strict=True)
_large = re.compile(r"[0-9][eE]|(?<![0-9])[0-9]{300}")
_large_bytes = re.compile(_large.pattern.encode())


def parse(body: bytes) -> Any:
    """Parse a JSON document in UTF-8."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8: byte {error.start} is not valid there") from None
    if not text.strip():
        raise BadRequest("the body is empty; JSON was expected")
    try:
        value = (_careful if _large.search(text) else _decoder).decode(text)
    except json.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error.msg}, line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _too_deep() from None
    if text.count("[") + text.count("{") > DEEPEST:
        _check_depth(value, 0)
    if "\\u" in text:
        _check_characters(value)
    return value


def _too_deep() -> BadRequest:
    return BadRequest(f"the body is nested more than {DEEPEST} levels deep")


def _check_depth(value: Any, level: int) -> None:
    if not isinstance(value, dict | list):
        return
    if level >= DEEPEST:
        raise _too_deep()
    for item in value.values() if isinstance(value, dict) else value:
        _check_depth(item, level + 1)


def _check_characters(value: Any) -> None:
    """Refuse lone surrogates: JSON can escape them, but UTF-8 cannot encode them."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_characters(key)
            _check_characters(item)
    elif isinstance(value, list):
        for item in value:
            _check_characters(item)
    elif isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise BadRequest("a string has one half of a surrogate pair (\\ud800 … \\udfff) without the other")


_key = re.compile(rb'"([^"]*)"\s*:')
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def _without_numbers(body: bytes) -> bytes:
    """Cut out a list of numbers, if there is one: it cannot hold a key, and searching it is slow."""
    start, end = body.find(b"["), body.rfind(b"]")
    return body if start < 0 or body.find(b'"', start, end) >= 0 else body[:start] + body[end:]


def _decode_flat(body: bytes, kind: type[T]) -> T | None:
    """Decode a body that is one flat object without escapes or repeated keys; returns None for all others.

    This is the fast path: msgspec is as strict as `parse` except about repeated keys, and many times faster.
    """
    if b"\\" in body or body.find(b"{", body.find(b"{") + 1) >= 0:
        return None
    keys = _key.findall(_without_numbers(body))
    if len(keys) > 1 and len(set(keys)) < len(keys):
        return None
    if b"payload" in keys and (body.count(b"[") >= DEEPEST or _large_bytes.search(body)):
        return None  # the types limit all other numbers and lists
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind, strict=True)
    try:
        value: T = decoder.decode(body)
        return value
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def decode(body: bytes, kind: type[T]) -> T:
    """Decode a body as this type. Raises BadRequest if it is not JSON, Unprocessable if it does not fit the type."""
    plain = _decode_flat(body, kind)
    if plain is not None:
        return plain
    value = parse(body)
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise Unprocessable(f"{error}{choices(str(error), kind)}") from None


_place = re.compile(r"^Invalid (?:enum )?value .* - at `\$\.([A-Za-z_.]+)`$", re.DOTALL)


def choices(message: str, kind: Any) -> str:
    """What might stand where a value is none of a few, for the end of the message; empty if that is not known."""
    found = _place.match(message)
    if found is None:
        return ""
    *fields, last = found[1].split(".")
    options: list[Any] = [msgspec.inspect.type_info(kind)]
    for field in fields:
        options = [inner for option in options for inner in _field_types(option, field)]
    names = [str(option.tag) for option in options if getattr(option, "tag_field", None) == last]
    for inner in [inner for option in options for inner in _field_types(option, last)]:
        names += [str(value) for value in getattr(inner, "values", ())]
    return f"; it is one of {', '.join(dict.fromkeys(names))}" if names else ""


def _field_types(kind: Any, name: str) -> list[Any]:
    """The types that a field of a struct may have."""
    inner = next((f.type for f in getattr(kind, "fields", ()) if f.encode_name == name), None)
    while isinstance(inner, msgspec.inspect.Metadata):
        inner = inner.type
    return [] if inner is None else list(getattr(inner, "types", (inner,)))
