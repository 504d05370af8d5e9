"""Conditions on edges: what holds when, and where a fault is."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.graph.documents.edges import MAX_LENGTH, EdgeError, compile_test


def holds(text: str, **state: Any) -> bool:
    return compile_test(text)(state)


@pytest.mark.parametrize(
    "text, state, expected",
    [
        # presence
        ("k!=", {"k": "tool"}, True),
        ("k!=", {"k": ""}, False),
        ("k!=", {}, False),
        ("k!=", {"k": None}, False),
        ("k!=", {"k": 0}, True),
        ("k!=", {"k": []}, True),
        ("k!=", {"k": False}, True),
        ("k=", {"k": ""}, True),
        ("k=", {}, True),
        ("k=", {"k": 0}, False),
        ('k=""', {}, True),
        # text
        ("k=Done", {"k": " done. "}, True),
        ("k=done!", {"k": "DONE"}, True),
        ("k=done", {"k": "undone"}, False),
        ("k=done", {}, False),
        ("k!=done", {}, True),
        ("k!=done", {"k": "done"}, False),
        ("k=in progress", {"k": "In Progress"}, True),
        ("k = in   progress and j=1", {"k": "in progress", "j": 1}, True),
        ("k=true", {"k": True}, True),
        ("k=1", {"k": True}, False),
        ("k=non-stop/day", {"k": "non-stop/day"}, True),
        # any of, none of
        ("k=a,b", {"k": "b"}, True),
        ("k=a, b ,c d", {"k": "c d"}, True),
        ("k=a,b", {"k": "c"}, False),
        ("k!=a,b", {"k": "c"}, True),
        ("k!=a,b", {"k": "a"}, False),
        ('k="a,b"', {"k": "a,b"}, True),
        ('k="a,b"', {"k": "a"}, False),
        ('k="it\'s"', {"k": "it's"}, True),
        ('k="say \\"no\\""', {"k": 'say "no"'}, True),
        # numbers
        ("k=1", {"k": 1.0}, True),
        ("k=1.0", {"k": "1"}, True),
        ("k!=1", {"k": 1.0}, False),
        ("k>3", {"k": 3.5}, True),
        ("k>3", {"k": 3}, False),
        ("k>=3", {"k": "3"}, True),
        ("k<=-2.5e1", {"k": -25}, True),
        ("k<3", {"k": "many"}, False),
        ("k<3", {}, False),
        ("k<3", {"k": True}, False),
        ("k<3", {"k": float("nan")}, False),
        ("k<3", {"k": 10**400}, False),
        # paths
        ("user.role=admin", {"user": {"role": "admin"}}, True),
        ("user.role=admin", {"user.role": "admin", "user": {"role": "guest"}}, True),
        ("user.role=admin", {"user": "admin"}, False),
        ("rows.1.id=7", {"rows": [{"id": 6}, {"id": 7}]}, True),
        ("rows.5.id=", {"rows": []}, True),
        ("rows.-1.id=7", {"rows": [{"id": 7}]}, False),
        ('"a.b"=1', {"a": {"b": 1}}, False),
        ('"a.b"=1', {"a.b": 1}, True),
        ("word.0=w", {"word": "w"}, False),
        # and, or, not
        ("a=1 and b=2 or c=3", {"c": 3}, True),
        ("a=1 and (b=2 or c=3)", {"c": 3}, False),
        ("a=1 and (b=2 or c=3)", {"a": 1, "c": 3}, True),
        ("not a=1", {"a": 2}, True),
        ("not not a=1", {"a": 1}, True),
        ("not a=1 and b=2", {"b": 2}, True),
        ("not (a=1 and b=2)", {"a": 1, "b": 2}, False),
        ("A=1 AND b= OR c=1", {"A": 1}, True),
        ("a= or b=", {"a": "x"}, True),
        ("(((a=1)))", {"a": 1}, True),
        ("and=1 and not=2", {"and": 1, "not": 2}, True),
        ("android=1", {"android": 1}, True),
        ("_tool_call_name!=", {"_tool_call_name": "lookup"}, True),
        ("umlaut=süß", {"umlaut": "SÜß"}, True),
    ],
)
def test_what_holds(text: str, state: dict[str, Any], expected: bool) -> None:
    assert compile_test(text)(state) is expected


@pytest.mark.parametrize(
    "text, position, word",
    [
        ("", 0, "status=done"),
        ("   ", 3, "status=done"),
        ("status", 6, "expected one of"),
        ("status done", 7, "expected one of"),
        ("=done", 0, "name of a channel"),
        ("a=1 and", 7, "status=done"),
        ("a=1 or or b=2", 7, "name of a channel"),
        ("a=1 b=2", 5, "`and` or `or`"),
        ("a=1)", 3, "unexpected"),
        ("(a=1", 4, "`)` is missing"),
        ("a=(1)", 2, "expected a value"),
        ("a=1,", 4, "expected a value"),
        ("a=,1", 2, "expected a value"),
        ("a==1", 2, "expected a value"),
        ("a>b", 1, "one number"),
        ("a>1,2", 1, "one number"),
        ("a>", 1, "one number"),
        ("a ! b", 2, "expected one of"),
        ('a="open', 2, "never closed"),
        ("not", 3, "status=done"),
        ("(" * 40 + "a=1" + ")" * 40, 33, "deeper"),
        ("not " * 40 + "a=1", 132, "deeper"),
        ("a=1 and " * 1000 + "a=1", MAX_LENGTH, "longer"),
    ],
)
def test_a_typo_is_an_error_with_its_position(text: str, position: int, word: str) -> None:
    with pytest.raises(EdgeError) as caught:
        compile_test(text)
    assert (caught.value.position, word in str(caught.value)) == (position, True), str(caught.value)


def test_alternatives_may_mix_numbers_and_words() -> None:
    assert [holds("k=1,none", k=value) for value in (1, "None", 2)] == [True, True, False]


@settings(max_examples=200, deadline=None)
@given(
    st.text(alphabet="ab=!<>,()'\"and or not.1 \\é", max_size=30),
    st.dictionaries(st.sampled_from(["a", "b", "and"]), st.integers() | st.text(max_size=2)),
)
def test_any_text_compiles_to_a_truth_or_says_where_it_fails(text: str, state: dict[str, Any]) -> None:
    try:
        test = compile_test(text)
    except EdgeError as error:
        position = error.position
    else:
        position = 0 if test(state) in (True, False) else -1
    assert 0 <= position <= len(text)


@pytest.mark.parametrize(
    "condition, value, expected",
    [
        ("n=12345678901234567891", 12345678901234567891, True),
        ("n=12345678901234567891", 12345678901234567890, False),
        ("n>12345678901234567890", 12345678901234567891, True),
        ("n>12345678901234567890", "12345678901234567891", True),
        ("n>1", 10**400, True),
        ("n<1", 10**400, False),
        ("n=3", "3.0", True),
        ("n>=3.0", 3, True),
        ("n>1", float("nan"), False),
    ],
)
def test_whole_numbers_are_compared_exactly_at_any_size(condition: str, value: object, expected: bool) -> None:
    assert holds(condition, n=value) is expected


def test_nan_is_no_number_to_compare_with() -> None:
    with pytest.raises(EdgeError, match="needs one number on its right"):
        compile_test("n > nan")
