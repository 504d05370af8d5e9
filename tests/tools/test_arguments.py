"""A tool never runs on arguments that did not parse or do not fit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeline.tools.arguments import prepare
from causeline.tools.execute import execute
from causeline.tools.function import tool
from causeline.tools.tool import ToolContext

CONTEXT = ToolContext(call_id="c", idempotency_key="k")
ran = []


@tool
async def write(path: str = "", content: str = "", count: int = 0):
    ran.append((path, content, count))
    return "written"


@pytest.fixture(autouse=True)
def _forget():
    ran.clear()


@pytest.mark.parametrize(
    "raw",
    [
        '{"{"a":1',
        "garbage",
        "[1, 2]",
        '"text"',
        "{",
        '{"path": ',
        "null",
        "3",
        '{"other": 1',
        "{}}",
        "{path: a, {path: a, ",
        '{"path": "a"} then more',
        '{"path": "a"}{"path": "a"}',
        '{"path": "C:\\dir",}',
        "{'count': 1 2}",
        "\ud800",
        "{" * 3000,
    ],
)
async def test_text_that_is_no_object_of_the_tools_own_words_runs_nothing(raw):
    executed = await execute(write, raw, CONTEXT)
    assert not executed.ok
    assert ran == []
    assert executed.raw == raw
    assert executed.text.startswith("Invalid arguments for write: $")
    assert len(executed.text) < 600


@pytest.mark.parametrize(
    "raw, arguments",
    [
        ('{"path": "a"', {"path": "a"}),
        ("{'path': 'a', 'count': 3,}", {"path": "a", "count": 3}),
        ('```json\n{"path": "a"}\n```', {"path": "a"}),
        ('{path: "a"}', {"path": "a"}),
        (' {"path": "a"} ', {"path": "a"}),
        ('"{\\"path\\": \\"a\\"}"', {"path": "a"}),
        ("", {}),
        ("{'path': None, }", None),
        ('{"path": "a" "count": 3}', {"path": "a", "count": 3}),
        ('{"path": "line one\\nline \\u00e9", }', {"path": "line one\nline \u00e9"}),
        ('{"path": "line one\nline two"', {"path": "line one\nline two"}),
        ('{"path": "it\'s", }', {"path": "it's"}),
        ('{"path": "", }', {"path": ""}),
        ('{"path": "ends with a line\\n", }', None),
        ('{"path": "say \\"hi\\"" ', {"path": 'say "hi"'}),
    ],
)
def test_syntax_is_repaired_and_the_schema_decides(raw, arguments):
    assert prepare(write, raw).arguments == arguments


def test_the_model_is_told_where_its_text_breaks_off():
    assert prepare(write, '{"path": "a", "count": 12').findings == (
        '$: expected one JSON object, got "{\\"path\\": \\"a\\", \\"count\\": 12" (Expecting \',\' delimiter at character 25)',
    )
    assert prepare(write, "[1]").findings == ('$: expected one JSON object, got "[1]"',)


def test_repaired_arguments_are_validated_again():
    prepared = prepare(write, "{'count': 'three'}")
    assert prepared.arguments is None
    assert prepared.raw == "{'count': 'three'}"
    assert "$.count" in prepared.findings[0]


@pytest.mark.parametrize(
    "raw",
    ['{"path": "a", "content": "hello wor', "{'path': 'a', 'content': 'hello wor", '{"path": "a", "count": 12', '{"content": "f() {}'],
)
def test_text_cut_short_in_a_value_is_not_completed(raw):
    assert prepare(write, raw).arguments is None


def test_raw_text_is_kept_when_it_was_repaired_and_not_when_it_parsed():
    assert prepare(write, '{"path": "a"').raw == '{"path": "a"'
    assert prepare(write, '{"path": "a"}').raw is None
    assert prepare(write, {"path": "a"}).raw is None


@pytest.mark.parametrize(
    "arguments, finding",
    [
        ({"count": "x"}, '$.count: "x" is not of type "integer"'),
        ({"count": 3.7}, '$.count: 3.7 is not of type "integer"'),
        ({"count": True}, '$.count: true is not of type "integer"'),
        ({"path": {"a": 1}}, '$.path: {"a":1} is not of type "string"'),
        ({"path": None}, '$.path: null is not of type "string"'),
    ],
)
def test_findings_name_the_field(arguments, finding):
    assert prepare(write, arguments).findings == (finding,)


def test_unexpected_and_missing_fields_are_named():
    @tool
    async def need(query: str): ...

    assert prepare(need, {"z": 1}).findings == (
        "$: Additional properties are not allowed ('z' was unexpected)",
        '$: "query" is a required property',
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud83d", (1,), object()])
def test_what_the_log_cannot_hold_is_no_argument(value):
    @tool
    async def take(a=None): ...

    prepared = prepare(take, {"a": value})
    assert prepared.arguments is None
    assert prepared.findings[0].startswith("$.a: ")


def test_numbers_of_any_size_pass_unchanged():
    assert prepare(write, f'{{"count": {2**80}}}').arguments == {"count": 2**80}


def test_a_long_value_is_not_echoed_whole():
    prepared = prepare(write, {"count": "x" * 100_000})
    assert len(prepared.findings[0]) < 350


@st.composite
def broken_texts(draw):
    """An object, and what a careless model may write for it."""
    meant = draw(st.fixed_dictionaries({}, optional={"path": st.text(), "content": st.text("ab \n\"\\'{}[],:"), "count": st.integers()}))

    styles = set()

    def member(key, value):
        text = json.dumps(value, ensure_ascii=draw(st.booleans()))
        if isinstance(value, str):
            inner = text[1:-1]
            style = draw(st.sampled_from(["proper", "single quotes", "real line breaks", "not escaped"]))
            styles.add(style)
            if style == "single quotes":
                text = "'" + inner.replace('\\"', '"').replace("'", "\\'") + "'"
            elif style == "real line breaks" and "\\\\" not in inner:
                text = text.replace("\\n", "\n")
            elif style == "not escaped":
                text = text.replace('\\"', '"')
        return draw(st.sampled_from([f'"{key}"', f"'{key}'", key])) + draw(st.sampled_from([": ", ":", " = "])) + text

    text = draw(st.sampled_from([", ", " ", ",,"])).join(member(key, value) for key, value in meant.items())
    text = draw(st.sampled_from(["{", ""])) + text + draw(st.sampled_from(["}", "", ", }", "}}", "]"]))
    text = draw(st.sampled_from(["{}", "```json\n{}\n```", "Here: {}", "{} // done"])).replace("{}", text)
    end = None if "not escaped" in styles else draw(st.sampled_from([None, -1, -2, len(text) // 2]))  # the two together are anybody's guess
    return meant, text[:end]


@given(broken_texts())
def test_what_is_made_of_broken_text_is_what_was_meant_or_nothing(case):
    meant, text = case
    made = prepare(write, text).arguments
    assert made is None or made.items() <= meant.items()  # a text that ends between two fields looks whole


@given(st.text())
def test_no_text_makes_prepare_raise(raw):
    prepared = prepare(write, raw)
    assert (prepared.arguments is None) == bool(prepared.findings)


@given(
    st.dictionaries(
        st.text(max_size=5), st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)
    )
)
def test_prepare_is_the_same_for_an_object_and_its_text(value):
    @tool(parameters={"type": "object"})
    async def anything(**rest): ...

    by_object, by_text = prepare(anything, value), prepare(anything, json.dumps(value))
    if by_object.arguments is not None:
        assert by_text.arguments == by_object.arguments
