"""What tools return becomes exact JSON, the same in every process."""

import dataclasses
import datetime as dt
import enum
import math
import subprocess
import sys
import uuid
from collections import OrderedDict, UserString, deque
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from causeline.causal import canonical
from causeline.models.transcript import result_text
from causeline.tools.result_json import NotPlain, plain, visible_text


class Level(enum.IntEnum):
    LOW = 1


class Word(str):
    __slots__ = ()


@dataclasses.dataclass
class Row:
    name: str
    tags: tuple
    inner: object = None


class Model(BaseModel):
    when: dt.date
    ratio: float = math.nan


class Pair(NamedTuple):
    left: int
    right: int


class Array:
    """Like an array: it prints a few of its members, and gives all of them as a list."""

    def __init__(self, members, kind="i"):
        self.members = members
        self.dtype = type("dtype", (), {"kind": kind})

    def __len__(self):
        return len(self.members)

    def tolist(self):
        return self.members[0] if len(self.members) == 1 else [int(each) for each in self.members]

    def astype(self, kind):
        return Array([f"day {each}" for each in self.members]) if kind is str else self

    def __str__(self):
        return f"[{self.members[0]} ...]"


class Frame:
    """Holds many values, prints a few, and has no list to give."""

    def __len__(self):
        return 2_000

    def __str__(self):
        return "[0 1 ... 1999]"


UTC = dt.UTC


@pytest.mark.parametrize(
    "value, expected",
    [
        (None, None),
        (True, True),
        (2**80, 2**80),
        (1.5, 1.5),
        ("a\x00b", "a\x00b"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ("\ud83d!", "\\ud83d!"),
        ({"\ud83d": "\udc00"}, {"\\ud83d": "\\udc00"}),
        (Level.LOW, 1),
        (Word("w"), "w"),
        ((1, (2,)), [1, [2]]),
        (deque([1]), [1]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}),
        (OrderedDict(b=1), {"b": 1}),
        (Pair(1, 2), {"left": 1, "right": 2}),
        (Row("r", (1,), Row("s", ())), {"name": "r", "tags": [1], "inner": {"name": "s", "tags": [], "inner": None}}),
        (Model(when=dt.date(2026, 1, 2)), {"when": "2026-01-02", "ratio": "NaN"}),
        (dt.datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
        (dt.time(3, 4), "03:04:00"),
        (dt.timedelta(minutes=1.5), 90.0),
        (Decimal("1.10"), "1.10"),
        (Fraction(1, 2), 0.5),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (b"text", "text"),
        (b"\xff\x00", {"base64": "/wA="}),
        ({}.values(), []),
        (ValueError("why"), "why"),
        (UserString("text"), "text"),
        (Array(list(range(2_000))), list(range(2_000))),
        ({"rows": (Array([7]), Array([8], "m"))}, {"rows": [7, "day 8"]}),
    ],
)
def test_values_with_a_json_form(value, expected):
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    canonical(found)


@pytest.mark.parametrize("value", [object(), lambda: 1, (n for n in ()), int, sys, {"a": [object()]}, {(1, 2): 3}, Frame(), 1j])
def test_values_without_one_are_refused_by_name(value):
    with pytest.raises(NotPlain):
        plain(value)


def test_keys_that_become_one_are_refused():
    with pytest.raises(NotPlain, match="'1'"):
        plain({1: "a", "1": "b"})


@pytest.mark.parametrize(
    "make", [lambda inner: [inner], lambda inner: {"a": inner}, lambda inner: (inner,), lambda inner: Row("r", (), inner)]
)
def test_too_deep_and_endless_values_are_refused(make):
    value = 0
    for _ in range(20_000):
        value = make(value)
    with pytest.raises(NotPlain, match="nested"):
        plain(value)
    endless = []
    endless.append(endless)
    with pytest.raises(NotPlain, match="nested"):
        plain(endless)


def test_deep_frozensets_are_refused():
    value = frozenset()
    for _ in range(200):
        value = frozenset({value})
    with pytest.raises(NotPlain, match="nested"):
        plain(value)


def test_sets_are_in_the_same_order_in_every_process():
    code = "from causeline.tools.result_json import plain; print(plain({str(n) for n in range(50)}))"
    outputs = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_text_for_the_model_is_json_and_never_python():
    assert result_text({"a": None, "b": True}) == '{"a":null,"b":true}'
    assert result_text("as it is") == "as it is"
    assert result_text(None) == "null"


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.datetimes()
    | st.decimals(allow_nan=False)
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(st.characters()), inner)
        | st.tuples(inner)
        | st.sets(leaves.filter(lambda leaf: repr(leaf) != "nan"))
    ),
    max_leaves=10,
)


@given(values)
def test_every_plain_value_can_enter_the_log_and_stays_as_it_is(value):
    try:
        found = plain(value)
    except NotPlain:
        return
    canonical(found)
    assert plain(found) == found


@given(st.text(st.characters(categories=["Cs", "L"])))
def test_visible_text_can_be_written_and_changes_only_surrogates(text):
    shown = visible_text(text)
    shown.encode()
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert shown == text
