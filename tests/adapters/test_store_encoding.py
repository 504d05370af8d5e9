"""What is written to disk: every value exact, ids short and exact, words of the format frozen."""

import hashlib
import math
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.adapters.stores.sql import compression, encoding, log_rows
from causeline.adapters.stores.sql.statements import FIRST_FORMAT, migrations, queries
from causeline.errors import Corrupt, Invalid
from causeline.run.ledger import CALL_STATES, MOVES

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
LEAF = st.none() | st.booleans() | st.integers(-(2**90), 2**90) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20)


@settings(max_examples=150)
@given(JSON)
def test_json_is_read_as_it_was_written(value):
    assert repr(encoding.load(encoding.dump(value))) == repr(value)
    assert repr(encoding.load(encoding.dump_small(value))) == repr(value)


def test_integers_of_more_digits_than_python_converts_are_read_as_they_were_written():
    long = -(10**5000 + 7)
    value = {"\ud83d \U0001f9ff": [long, 1.0, -0.0, True, None, "1"], "": ({"deep": 2**20000},)}
    again = encoding.load(encoding.dump_small(value))
    assert again == {**value, "": [{"deep": 2**20000}]}
    assert [type(one) for one in again["\ud83d \U0001f9ff"]] == [int, float, float, bool, type(None), str]
    assert math.copysign(1, again["\ud83d \U0001f9ff"][2]) == -1
    with pytest.raises(Invalid):
        encoding.dump([long, math.nan])


@pytest.mark.parametrize(
    "value, place",
    [
        (math.nan, "$"),
        ({"a": [1, math.inf]}, "$.a[1]"),
        ([None, {"k": -math.inf}], "$[1].k"),
        ({1: 2}, "$"),
        ({"a": {None: 1}}, "$.a"),
        (date(2026, 1, 1), "$"),
        ({"a": b"x"}, "$.a"),
        ({"a": {1, 2}}, "$.a"),
        ({"n": 2**80, "d": date(2026, 1, 1)}, "$.d"),
        ({"n": 2**80, "d": [Path()]}, "$.d[0]"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(value, place):
    with pytest.raises(Invalid) as refusal:
        encoding.dump(value)
    assert str(refusal.value).startswith(f"{place} ")


def test_text_of_a_kind_of_its_own_is_not_taken_for_text():
    class Name(str):
        __slots__ = ()

    for value in (Name("x"), {"k": [Name("x")]}):
        with pytest.raises(Invalid):
            encoding.dump(value)


def test_tuples_come_back_as_lists():
    assert encoding.load(encoding.dump((1, (None, 2**70)))) == [1, [None, 2**70]]


@pytest.mark.parametrize("data", [b"", b"{", b'"\xff"', b" [1", b"\x01", b"\x01\x00\x00", b"\x02[]"])
def test_damaged_columns_are_corrupt(data):
    with pytest.raises(Corrupt):
        encoding.load(data)


@settings(max_examples=60)
@given(st.binary(min_size=1, max_size=400).map(lambda data: b"[" + data), st.integers(1, 300))
def test_squeezed_bytes_expand_to_what_they_were(data, times):
    whole = data * times
    assert compression.expand(compression.squeeze(whole)) == whole


def test_rows_of_events_get_much_shorter():
    events = [
        {"type": "tool_call_start", "tool_call_id": f"call_{place}", "name": "lookup", "client": False, "ts": "2026-11-30T10:00:00.123Z"}
        for place in range(6)
    ]
    assert len(encoding.dump_small(events)) < len(encoding.dump(events)) / 4


def test_the_dictionary_never_changes():
    """Rows that are stored were squeezed with it. A better one is a second one, with a mark of its own."""
    assert hashlib.sha256(compression._DICTIONARY_1).hexdigest() == "77dcee39e332f8ad59bb78ef8d11842f954dba1af5c634587459a0912f4bcd67"
    assert compression._MARK == b"\x01"
    assert (
        compression.expand(bytes.fromhex("01232ad1a1e6697314530d758d0d420c814682909ea191f150331500"))
        == b'[{"type":"step_started","node":"call_model","step":7,"ts":"2026-11-30T10:00:00.123Z"}]' * 3
    )


def test_codes_of_call_states_never_change():
    """Rows that are stored hold them."""
    assert dict(encoding.STATE_CODES) == {
        "pending": 0, "awaiting": 1, "started": 2, "succeeded": 3, "failed": 4, "denied": 5, "unknown": 6, "superseded": 7,
    }  # fmt: skip
    assert set(encoding.STATE_CODES) == set(CALL_STATES)
    for target in CALL_STATES:
        origins = {encoding.STATES[code] for code in log_rows.ORIGINS[encoding.STATE_CODES[target]]}
        assert origins == {state for state in CALL_STATES if target in MOVES[state]}


@given(st.binary(min_size=12, max_size=12))
def test_ids_are_packed_into_their_bytes(data):
    assert encoding.pack("ck_", "ck_" + data.hex()) == data
    assert encoding.unpack_checkpoint(data) == "ck_" + data.hex()
    assert log_rows.names(data * 3) == ["cw_" + data.hex()] * 2
    assert log_rows.ids(data * 3) == [data] * 2


@pytest.mark.parametrize(
    "name", ["", "ck_", "ck_" + "A" * 24, "ck_" + "0" * 23, "ck_" + "0" * 26, "cw_" + "0" * 24, "ck_ " + "0" * 23, "ck_" + "é" * 24]
)
def test_what_is_no_id_is_not_packed(name):
    assert encoding.pack("ck_", name) is None
    with pytest.raises(Invalid, match="checkpoint id"):
        encoding.pack_checkpoint(name)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_migrations_are_numbered_without_gaps(dialect):
    assert [step.version for step in migrations(dialect)] == list(range(FIRST_FORMAT, FIRST_FORMAT + len(migrations(dialect))))
    assert all(step.statements for step in migrations(dialect))


def test_parameters_are_written_as_the_dialect_wants_them():
    assert "$" not in "".join(queries("sqlite").values())
    assert queries("sqlite")["run_no"] == "SELECT no FROM run WHERE owner = ?1 AND id = ?2"
    assert queries("postgres")["run_no"] == "SELECT no FROM run WHERE owner = $1 AND id = $2"
