"""Whatever shape Python gives to parameters, a model can fill it in."""

import dataclasses
import functools
from typing import Annotated, Literal, NamedTuple, NotRequired, Optional, Required, TypedDict, Unpack

import pytest
from pydantic import Field

from causeline.tools.execute import execute
from causeline.tools.function import tool
from causeline.tools.tool import InvalidTool, ToolContext

CONTEXT = ToolContext(call_id="call_1")


@dataclasses.dataclass
class Window:
    p0: int
    last: int = 9


class Span(NamedTuple):
    p0: int
    unit: str = "day"


class Leaf(TypedDict):
    p0: int
    note: NotRequired[Annotated[str, "What it is"]]


class Tree(Leaf, total=False):
    """A tree."""

    kids: list["Tree"]


class Options(TypedDict, total=False):
    depth: Required[Annotated[int, "How deep"]]
    name: str


@pytest.mark.parametrize(
    "kind, given, arrives",
    [
        (Window, {"p0": 1}, Window(1)),
        (Window | None, None, None),
        (list[Window], [{"p0": 2, "last": 3}], [Window(2, 3)]),
        (Span, {"p0": 1}, Span(1)),
        (Span, [1, "week"], Span(1, "week")),
        (dict[str, Span], {"a": {"p0": 4, "unit": "s"}}, {"a": Span(4, "s")}),
        (Leaf, {"p0": 1, "note": "n"}, {"p0": 1, "note": "n"}),
        (Optional[Tree], {"p0": 1, "kids": [{"p0": 2}]}, {"p0": 1, "kids": [{"p0": 2}]}),  # noqa: UP045 - as people write it
    ],
)
@pytest.mark.parametrize("open_ended", [False, True])
async def test_records_of_every_kind_are_parameters(kind, given, arrives, open_ended):
    seen = []

    async def closed(value):
        seen.append(value)

    async def opened(value, **_more):
        seen.append(value)

    function = opened if open_ended else closed
    function.__annotations__["value"] = kind
    executed = await execute(tool(function), {"value": given}, CONTEXT)
    assert executed.ok, executed.text
    assert seen == [arrives]


@pytest.mark.parametrize("kind, given", [(Window, {}), (Span, {}), (Span, ["x"]), (Leaf, {"note": "n"}), (Tree, {"kids": []})])
async def test_records_are_checked(kind, given):
    async def take(value):
        raise AssertionError("it ran")

    take.__annotations__["value"] = kind
    executed = await execute(tool(take), {"value": given}, CONTEXT)
    assert executed.text.startswith("Invalid arguments for take: $.value")


async def test_a_default_of_none_may_be_given():
    @tool
    async def find(query: str, limit: int = None, low: Annotated[int, Field(ge=1), "At least"] = None, kind: Literal["a"] = "z"):  # noqa: RUF013 - as people write it
        return [query, limit, low, kind]

    properties = find.parameters["properties"]
    assert properties["limit"]["default"] is None
    assert properties["low"]["description"] == "At least"
    assert "default" not in properties["kind"], "a default that would be refused is not shown"
    assert (await execute(find, {"query": "q", "limit": None, "low": None}, CONTEXT)).result == ["q", None, None, "z"]
    assert "$.low" in (await execute(find, {"query": "q", "low": 0}, CONTEXT)).text


def test_words_in_an_annotation_describe_the_parameter():
    class Doc:
        documentation = "From an object"

    @tool
    def take(
        a: Annotated[str, "The city"],
        b: Annotated[int, Doc()],
        c: Annotated[str, "Words", Field(description="Field")],
        d: Annotated[str, "x"] | None,
    ):
        return [a, b, c, d]

    described = [each.get("description") for each in take.parameters["properties"].values()]
    assert described == ["The city", "From an object", "Field", None]
    assert take.parameters["properties"]["d"]["anyOf"][0] == {"type": "string", "description": "x"}


async def test_further_keywords_are_checked():
    @tool
    async def count(**options: int):
        return options

    @tool
    async def walk(**options: Unpack[Options]):
        return options

    assert count.parameters["additionalProperties"] == {"type": "integer"}
    assert (await execute(count, {"a": 1}, CONTEXT)).result == {"a": 1}
    assert "$.a" in (await execute(count, {"a": "one"}, CONTEXT)).text
    assert walk.parameters["required"] == ["depth"]
    assert walk.parameters["properties"]["depth"] == {"type": "integer", "description": "How deep"}
    assert (await execute(walk, {"depth": 1}, CONTEXT)).result == {"depth": 1}
    for wrong in ({"name": "n"}, {"depth": 1, "other": 2}):
        assert not (await execute(walk, wrong, CONTEXT)).ok


def test_what_yields_is_refused():
    def parts():
        yield 1

    async def parts_async():
        yield 1

    class Parts:
        def __call__(self):
            yield 1

    for function in (parts, parts_async, Parts(), functools.partial(parts), classmethod(parts)):
        with pytest.raises(InvalidTool, match="it yields"):
            tool(function)
