"""What a tool promises of its arguments and its results: `strict` and `output`."""

import dataclasses
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

import causeline
from causeline.adapters.models.chat_request import wire_tool
from causeline.errors import Invalid
from causeline.models import ScriptedModel
from causeline.tools import InvalidTool, Toolbox, ToolContext, ToolError, ToolResult, schema_tool
from causeline.tools.execute import execute
from causeline.tools.function import tool
from causeline.tools.json_schema import Schema
from causeline.tools.output_schema import InvalidOutput
from causeline.tools.strict import strict_schema, without_nulls

CONTEXT = ToolContext(call_id="c")


class Hit(BaseModel):
    title: str
    score: float = 0.0


@dataclasses.dataclass
class Place:
    city: str
    zip: str | None = None


@pytest.mark.parametrize(
    "output, fits, fails, place",
    [
        (Hit, {"title": "a", "score": 1.0}, {"title": 1, "score": 1.0}, "$.title"),
        (list[Hit], [{"title": "a", "score": 0.5}], [{"score": 1.0}], "$[0]"),
        (Place, Place("Bonn"), {"zip": None}, "$"),
        (int, 3, "3", "$"),
        ({"type": "array", "items": {"type": "string"}}, ("a", "b"), ["a", 1], "$[1]"),
        (Literal["yes", "no"], "yes", "maybe", "$"),
        (dict[str, int] | None, None, {"a": "b"}, "$"),
    ],
)
async def test_a_result_that_does_not_fit_is_a_failure_that_says_where(output, fits, fails, place):
    values = [fits, fails]

    @tool(output=output)
    async def look() -> Any:
        return values.pop(0)

    assert (await execute(look, {}, CONTEXT)).ok
    executed = await execute(look, {}, CONTEXT)
    assert not executed.ok
    assert executed.text.startswith(f"look ran, but what it returned cannot be used: it does not fit the output schema: {place}")


async def test_only_a_success_is_checked():
    @tool(output=int)
    async def look(how: str):
        if how == "error":
            raise ToolError("no")
        return ToolResult("not found", ok=False) if how == "failure" else ToolResult(3 if how == "right" else "three")

    said = {how: (await execute(look, {"how": how}, CONTEXT)) for how in ("error", "failure", "right", "wrong")}
    assert [said[how].ok for how in said] == [False, False, True, False]
    assert (said["error"].text, said["failure"].text, said["right"].result) == ("no", "not found", 3)


def test_an_output_that_is_none_is_found_when_the_agent_is_built():
    async def run(_arguments, _context):
        return None

    assert schema_tool("a", "", {}, run, output=int).output_schema == {"type": "integer"}
    for wrong in (object(), {"type": "strin"}, 3):
        with pytest.raises(Invalid) as found:
            Toolbox([schema_tool("a", "", {}, run, output=wrong)])
        assert isinstance(found.value, InvalidOutput | InvalidTool)


@tool(strict=True)
async def find(
    query: str,
    limit: Annotated[int, Field(ge=1, description="How many")] = 5,
    kind: Literal["a", "b"] = "a",
    near: Place | None = None,
    inside: Place = Place("Bonn"),  # noqa: B008 - what people write
):
    return [query, limit, kind, near, inside]


async def test_a_strict_tool_asks_for_every_field_and_takes_null_for_left_out():
    shown = find.parameters
    assert shown["required"] == ["query", "limit", "kind", "near", "inside"]
    assert shown["additionalProperties"] is False
    assert shown["properties"]["limit"] == {"type": ["integer", "null"], "minimum": 1, "description": "How many"}
    assert shown["properties"]["kind"]["enum"] == ["a", "b", None]
    assert shown["$defs"]["Place"]["required"] == ["city", "zip"]
    given = {"query": "q", "limit": None, "kind": None, "near": {"city": "Köln", "zip": None}, "inside": None}
    place = {"city": "Bonn", "zip": None}
    assert Schema(shown).findings(given) == []
    assert (await execute(find, given, CONTEXT)).result == ["q", 5, "a", {"city": "Köln", "zip": None}, place]
    assert (await execute(find, {"query": "q"}, CONTEXT)).result == ["q", 5, "a", None, place]
    assert "$" in (await execute(find, {"query": None}, CONTEXT)).text
    assert not (await execute(find, {"query": "q", "limit": 0}, CONTEXT)).ok


async def test_a_tool_that_is_not_strict_takes_no_null_for_left_out():
    assert "$.limit" in (await execute(dataclasses.replace(find, strict=False), {"query": "q", "limit": None}, CONTEXT)).text


def test_the_provider_is_told():
    sent = wire_tool(find.spec())["function"]
    assert (sent["strict"], sent["parameters"]) == (True, find.parameters)
    assert "strict" not in wire_tool(dataclasses.replace(find, strict=False).spec())["function"]


def test_what_has_no_strict_form_is_refused_when_the_agent_is_built():
    def takes_any(value: Any):
        return value

    def takes_more(**more: int):
        return more

    for function, place in ((takes_any, r"\$\.value: anything at all"), (takes_more, r"\$: takes fields without a name")):
        with pytest.raises(InvalidTool, match=place):
            causeline.Agent(ScriptedModel([]), tools=[tool(function, strict=True)])


FIELDS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([int, str, int | None, list[int], Place]), min_size=1)


@given(FIELDS, st.data())
def test_left_out_and_null_are_the_same_to_a_strict_schema(fields, data):
    async def function(**_given):
        return None

    import inspect

    optional = data.draw(st.sets(st.sampled_from(sorted(fields))))
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=7 if name in optional else inspect.Parameter.empty)
        for name, kind in fields.items()
    ]
    function.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    made = tool(function)
    values = {int: 1, str: "s", int | None: 2, list[int]: [1], Place: {"city": "c", "zip": None}}
    whole = {name: values[kind] for name, kind in fields.items()}
    dropped = data.draw(st.sets(st.sampled_from(sorted(optional)))) if optional else set()
    nulls = {name: None if name in dropped else value for name, value in whole.items()}
    schema, findings = strict_schema(made.parameters)
    assert findings == []
    assert Schema(schema).findings(nulls) == []
    left = without_nulls(made.body.schema, nulls)
    assert made.body.findings(left) == []
    assert all(name in left for name in whole if name not in dropped)
    assert all(left.get(name) is None for name in dropped)


async def test_a_tool_finds_the_callers_object_and_the_agents_memory():
    @tool
    async def note(word: str, here: ToolContext) -> str:
        await here.memory.put(("words",), word, {"word": word})
        found = await here.memory.search(("words",), word)
        return f"{here.deps['who']} has {[item.key for item in found]}"

    calls = [{"calls": [{"id": "c", "name": "note", "arguments": {"word": "causeline"}}]}, {"text": "done"}]
    agent = causeline.Agent(ScriptedModel(calls), tools=[note], memory={"namespace": ["words"]}, remember=False)
    async with causeline.open("memory://") as runtime:
        run = await runtime.start(agent, "go", deps={"who": "Ann"})
        assert (await run.result()).status == "succeeded"
        assert [row.call.result for row in await runtime.calls(run.id)] == ["Ann has ['causeline']"]
