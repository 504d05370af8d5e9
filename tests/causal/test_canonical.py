import copy
import datetime as dt
import decimal
import enum
import struct
import uuid
from collections import namedtuple
from dataclasses import dataclass

import orjson
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.causal import InvalidValue, canonical
from causeline.causal.canonical import float_text
from causeline.causal.json_text import decode
from tests.causal.values import any_value, floats, in_domain, integers, written_slowly


@given(in_domain)
@settings(max_examples=150, deadline=None)
def test_equals_the_reference_implementation_inside_its_domain(value):
    assert canonical(value) == rfc8785.dumps(value)


@given(any_value)
@settings(max_examples=150, deadline=None)
def test_equals_a_slow_exact_writer_everywhere(value):
    assert canonical(value).decode() == written_slowly(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=300, deadline=None)
def test_every_float_alone_and_among_others_is_written_as_the_reference_does(number):
    text = rfc8785.dumps(number).decode()
    assert float_text(number) == text
    assert canonical([number, "x", {"a": number}]) == f'[{text},"x",{{"a":{text}}}]'.encode()


@given(any_value)
@settings(max_examples=100, deadline=None)
def test_reading_back_gives_the_same_bytes_and_exact_integers(value):
    data = canonical(value)
    assert canonical(decode(data)) == data


@given(integers)
@settings(deadline=None)
def test_integers_come_back_as_they_were(number):
    back = decode(canonical({"n": [number]}))["n"][0]
    assert back == number
    assert type(back) is int


def test_equal_bytes_mean_equal_values():
    texts = {canonical(value) for value in ([1], [True], ["1"], [None], [[]], [{}], [0], [False], [""], 1, {"a": 1}, {"a": "1"})}
    assert len(texts) == 12


@pytest.mark.parametrize(
    "bits, text",
    [
        # RFC 8785, appendix B
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555556", "333333333.3333334"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_of_the_standard(bits, text):
    number = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert canonical(number) == text.encode()
    assert canonical({"k": [number]}) == f'{{"k":[{text}]}}'.encode()


def test_keys_are_ordered_by_utf_16_units():
    # RFC 8785, section 3.2.3: U+1F600 (a surrogate pair) comes before U+FB33
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    assert list(decode(canonical(value))) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert canonical([{"z": value}]) == b'[{"z":' + canonical(value) + b"}]"


def test_one_number_has_one_text():
    assert canonical(1) == canonical(1.0) == b"1"
    assert canonical(-0.0) == b"0"
    assert canonical(10**20) == canonical(1e20)
    assert canonical(10**21) != canonical(1e21)


@pytest.mark.parametrize("digits", [400, 4_299, 4_301, 20_000])
def test_integers_of_any_size_are_exact(digits):
    text = "7" + "0123456789" * (digits // 10) + "3"
    number = 0
    for at in range(0, len(text), 500):
        part = text[at : at + 500]
        number = number * 10 ** len(part) + int(part)
    assert canonical([number, -number]).decode() == f"[{text},-{text}]"
    assert decode(canonical(number)) == number


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Ratio(float):
    pass


class Table(dict):
    pass


class Row(list):
    pass


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Point:
    x: int


Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - the untyped sort is the one to refuse


@pytest.mark.parametrize(
    "foreign",
    [
        Text("a"),
        Number(1),
        Ratio(1.5),
        Ratio(1.0),
        Table(),
        Table(a=1),
        Row(),
        Row([1]),
        Colour.RED,
        Level.LOW,
        Point(1),
        Pair(1, 2),
        (1, 2),
        (),
        {1},
        b"a",
        bytearray(b"a"),
        dt.date(2020, 1, 1),
        dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        dt.time(1),
        uuid.UUID(int=1),
        decimal.Decimal(1),
        1j,
        object(),
        str,
        orjson.Fragment(b"1"),
        float("nan"),
        float("inf"),
        float("-inf"),
        "\ud800",
        "a\udfffb",
    ],
    ids=lambda value: f"{type(value).__name__}-{value!a}".split(" at 0x")[0][:40],
)
def test_foreign_values_are_refused_with_their_place(foreign):
    deep = {"a": [0, 0, 0, {"b": foreign}]}
    for value, path in [(foreign, "$"), ([foreign], "$[0]"), (deep, "$.a[3].b"), ([1.0, [2**70, foreign]], "$[1][1]")]:
        with pytest.raises(InvalidValue) as caught:
            canonical(value)
        assert caught.value.path == path
        assert caught.value.code == "invalid_value"


@pytest.mark.parametrize(
    "value, path",
    [
        ({1: 2}, "$"),
        ({"a": {None: 1}}, "$.a"),
        ({"a": {Text("k"): 1}}, "$.a"),
        ({"a": {Text("k"): 1.0}}, "$.a"),
        ({"a": {"\ud800": 1}}, "$.a['\\ud800']"),
        ({"two words": [float("nan")]}, "$['two words'][0]"),
        ({"k" * 200: float("nan")}, "$['" + "k" * 77 + "...']"),
    ],
)
def test_keys_are_checked_and_shown(value, path):
    with pytest.raises(InvalidValue) as caught:
        canonical(value)
    assert caught.value.path == path
    str(caught.value).encode()


def nested(depth, leaf=None):
    value = [] if leaf is None else leaf
    for level in range(depth - (leaf is None)):
        value = [value] if level % 2 else {"k": value}
    return value


def test_nesting_is_bounded_with_a_path():
    assert canonical(nested(128))
    assert canonical(nested(128, leaf=1.0))
    for depth in (129, 10_000):
        with pytest.raises(InvalidValue, match="deeper than 128") as caught:
            canonical(nested(depth))
        assert caught.value.path.count("k") + caught.value.path.count("[") == 128
    with pytest.raises(InvalidValue):
        canonical([[1]], depth=1)
    assert canonical([1], depth=1) == b"[1]"
    assert canonical("scalar", depth=0) == b'"scalar"'


def test_a_container_that_holds_itself_is_refused_at_once():
    twice = []
    twice += [twice, twice]
    table = {}
    table["self"] = [table, table]
    for value in (twice, table):
        with pytest.raises(InvalidValue, match="deeper"):
            canonical(value)


def test_the_callers_value_is_left_alone():
    inner = [1.0, {"deep": -0.0}]
    value = {"a": inner, "b": inner, "\U0001f600": 2**70, "\uffee": [5e-324]}
    before = copy.deepcopy(value)
    assert canonical(value).decode() == written_slowly(value)
    assert repr(value) == repr(before)


@given(st.lists(floats, max_size=4), st.integers(1, 5))
@settings(deadline=None)
def test_containers_that_are_shared_are_written_wherever_they_stand(numbers, levels):
    value = {"x": numbers}
    for _ in range(levels):
        value = {"l": value, "r": [value, numbers]}
    assert canonical(value).decode() == written_slowly(value)


def test_large_texts_pass_through():
    text = "prose with 3.14 and \x00 " * 500_000
    assert decode(canonical({"result": text}))["result"] == text
