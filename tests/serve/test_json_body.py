"""The quick way to read a body gives what the careful one gives, or nothing at all."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparingly.serve import json_body
from sparingly.serve.contract import AgentBody, DecisionBody
from sparingly.serve.http_errors import HttpError, Unprocessable

TEXTS = st.text(alphabet='a:,[]{}" \\\u00e9', max_size=6)
NUMBERS = st.lists(st.lists(st.floats(-3, 3), min_size=1, max_size=2), min_size=1, max_size=2)
SCALARS = st.one_of(st.integers(-5, 5), st.booleans(), st.none(), TEXTS)
VALUES = st.one_of(SCALARS, st.lists(st.one_of(SCALARS, st.lists(SCALARS, max_size=2)), max_size=3), NUMBERS)
KEYS = st.sampled_from(["event_id", "context", "features", "payload", "defer", "other", ":"])
SPACE = st.sampled_from(["", " ", "\n"])


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """One flat object; keys may stand there twice."""
    pairs = draw(st.lists(st.tuples(KEYS, VALUES, SPACE), max_size=4))
    inside = ",".join(
        f"{space}{json.dumps(key)}{space}:{space}{json.dumps(value, ensure_ascii=False)}" for key, value, space in pairs
    )
    return f"{{{inside}}}".encode()


def careful(body: bytes) -> DecisionBody | None:
    """What the careful reader makes of it; None if it is refused."""
    try:
        return msgspec.convert(json_body.parse(body), DecisionBody, strict=True)
    except (HttpError, msgspec.ValidationError):
        return None


@given(bodies())
@example(b'{"event_id": "a", "event_id": "a"}')
@example(b'{"features": [[1.0]], "event_id": "a", "features": [[1.0]]}')
@example(b'{"payload": [":", ":"], "payload": 1}')
@example(b'{"payload": ["x", ":y"], "event_id" : "a", "payload": ["x", ":y"]}')
def test_the_quick_way_is_as_careful(body: bytes) -> None:
    quick = json_body._decode_flat(body, DecisionBody)
    assert quick is None or quick == careful(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"event_id": "request-1"}',
        b'{"event_id": "request-1", "context": "x", "payload": ["text", 1]}',
        b'{"event_id": "request-1", "features": [[0.5, 1.0], [0.0, -1.0]]}',
    ],
)
def test_what_people_send_goes_the_quick_way(body: bytes) -> None:
    assert json_body._decode_flat(body, DecisionBody) == careful(body) is not None


@pytest.mark.parametrize(
    ("body", "place", "names"),
    [
        ({"learner": {"type": "UCB1x"}}, "$.learner.type", "UCB1, MOSS, OFUL"),
        ({"learner": {"type": "UCB1", "ties": "last"}}, "$.learner.ties", "first, random"),
        ({"learner": {"type": "UCB1"}, "rule": {"type": "Exact"}}, "$.rule.type", "ExactMatching"),
        (
            {"learner": {"type": "UCB1"}, "budget": {"growth": {"by": "day"}}},
            "$.budget.growth.by",
            "grants, clock",
        ),
    ],
)
def test_a_name_that_is_none_of_a_few_is_told_which_there_are(body, place, names):
    with pytest.raises(Unprocessable) as caught:
        json_body.decode(json.dumps(body).encode(), AgentBody)
    assert place in str(caught.value)
    message, _, listed = str(caught.value).partition("; it is one of ")
    assert set(names.split(", ")) <= set(listed.split(", ")), message
