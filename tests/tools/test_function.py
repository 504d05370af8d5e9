"""A function's signature is the tool: its schema, its arguments, its name and its text."""

import asyncio
import dataclasses
import enum
import functools
import threading
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from causeline.errors import Misuse
from causeline.tools.execute import execute
from causeline.tools.function import as_tool, tool
from causeline.tools.tool import InvalidTool, Origin, ToolContext

CONTEXT = ToolContext(call_id="call_1", idempotency_key="ik_1", run_id="run_1", session_id="ses_1")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


@tool
async def search(
    query: str,
    limit: Annotated[int, Field(ge=1, le=9, description="How many")] = 5,
    *,
    since: datetime | None = None,
    sort: Literal["new", "old"] = "new",
    color: Color = Color.RED,
    at: Point | None = None,
):
    """Search the glossary.

    Says what it found.
    """
    return {"query": query, "limit": limit, "since": since, "sort": sort, "color": color, "at": at}


def test_schema_has_types_defaults_bounds_and_descriptions():
    properties = search.parameters["properties"]
    assert search.parameters["required"] == ["query"]
    assert search.parameters["additionalProperties"] is False
    assert properties["query"] == {"type": "string"}
    assert properties["limit"] == {"type": "integer", "minimum": 1, "maximum": 9, "default": 5, "description": "How many"}
    assert properties["sort"] == {"type": "string", "enum": ["new", "old"], "default": "new"}
    assert properties["since"]["default"] is None
    assert search.parameters["$defs"]["Color"]["enum"] == ["red", "blue"]


def test_name_and_description_come_from_the_function():
    assert (search.name, search.description) == ("search", "Search the glossary.\n\nSays what it found.")


async def test_arguments_arrive_as_the_annotated_types():
    seen = []

    @tool
    async def take(when: datetime, price: Decimal, where: Path, tags: set[str], color: Color, at: Point):
        seen.append((when, price, where, tags, color, at))

    arguments = {"when": "2026-11-30T10:00:00Z", "price": "1.50", "where": "a/b", "tags": ["x", "y"], "color": "blue", "at": {"x": 1}}
    assert (await execute(take, arguments, CONTEXT)).ok
    assert seen == [(datetime(2026, 11, 30, 10, tzinfo=UTC), Decimal("1.50"), Path("a/b"), {"x", "y"}, Color.BLUE, Point(x=1))]


async def test_what_was_not_given_is_left_to_the_functions_own_default():
    sentinel = object()

    @tool
    async def take(a: int = 1, b: object = sentinel, c: int = Field(default=7, description="C")):
        return [a, b is sentinel, c]

    assert (await execute(take, {}, CONTEXT)).result == [1, True, 7]
    assert "default" not in take.parameters["properties"]["b"]


async def test_any_parameter_name_will_do():
    @tool
    async def take(schema: int, model_config: int, self: int, _hidden: int, json: int = 1, copy: int = 2):
        return [schema, model_config, self, _hidden, json, copy]

    arguments = {"schema": 1, "model_config": 2, "self": 3, "_hidden": 4}
    assert (await execute(take, arguments, CONTEXT)).result == [1, 2, 3, 4, 1, 2]


async def test_positional_only_and_extra_keywords():
    @tool
    async def take(a: int, b: int = 2, /, **rest: str):
        return [a, b, rest]

    assert (await execute(take, {"a": 1, "more": "m"}, CONTEXT)).result == [1, 2, {"more": "m"}]
    assert (await execute(take, {"a": 1, "b": 3}, CONTEXT)).result == [1, 3, {}]


async def test_positional_only_default_that_is_not_json():
    @tool
    async def take(a: object = print, b: int = 2, /):
        return [a is print, b]

    assert (await execute(take, {"b": 5}, CONTEXT)).result == [True, 5]


async def test_context_is_given_only_where_it_is_annotated():
    @tool
    async def knows(q: str, here: ToolContext):
        return [here.call_id, here.run_id, here.session_id, here.attempt, here.idempotency_key]

    @tool
    async def may_know(q: str, here: ToolContext | None = None):
        return here is not None

    assert (await execute(may_know, {"q": ""}, CONTEXT)).result is True

    @tool
    async def ignorant(context: str):
        return context

    assert list(knows.parameters["properties"]) == ["q"]
    assert (await execute(knows, {"q": ""}, CONTEXT)).result == ["call_1", "run_1", "ses_1", 1, "ik_1"]
    assert (await execute(ignorant, {"context": "mine"}, CONTEXT)).result == "mine"


async def test_a_tool_cannot_change_the_runs_context_in_place():
    @tool
    async def meddle(here: ToolContext):
        here.context["list"].append(2)

    shared = {"list": [1]}
    assert (await execute(meddle, {}, dataclasses.replace(CONTEXT, context=shared))).ok
    assert shared == {"list": [1]}


async def test_methods_partials_and_callable_objects():
    class Store:
        def __init__(self, name):
            self.name = name

        @tool(effects=False)
        async def get(self, key: str):
            """Get one."""
            return f"{self.name}/{key}"

        @tool
        @classmethod
        async def kind(cls, key: str):
            return f"{cls.__name__}/{key}"

        @staticmethod
        @tool
        async def plain(key: str):
            return key

    class Adder:
        """Adds."""

        def __call__(self, a: int, b: int = 1):
            return a + b

    store = Store("s")
    assert (await execute(store.get, {"key": "k"}, CONTEXT)).result == "s/k"
    assert (store.get.name, store.get.description, store.get.effects) == ("get", "Get one.", False)
    assert (await execute(Store.kind, {"key": "k"}, CONTEXT)).result == "Store/k"
    assert (await execute(Store.plain, {"key": "k"}, CONTEXT)).result == "k"
    assert (await execute(tool(Adder()), {"a": 1}, CONTEXT)).result == 2
    assert (tool(Adder()).name, tool(Adder()).description) == ("Adder", "Adds.")

    def power(base: int, exponent: int):
        """Raises."""
        return base**exponent

    square = tool(functools.partial(power, exponent=2), name="square")
    assert list(square.parameters["properties"]) == ["base"]
    assert (await execute(square, {"base": 3}, CONTEXT)).result == 9
    assert square.description == "Raises."


async def test_a_tool_is_still_a_function():
    assert (await search("x", limit=2))["limit"] == 2


async def test_sync_functions_run_off_the_event_loop_and_see_its_context_variables():
    import contextvars

    here = contextvars.ContextVar("here")
    here.set("loop")

    @tool
    def where():
        return [threading.current_thread() is threading.main_thread(), here.get()]

    assert (await execute(where, {}, CONTEXT)).result == [False, "loop"]


async def test_a_sync_function_that_returns_an_awaitable_is_awaited():
    async def later():
        return 5

    def soon():
        return later()

    assert (await execute(tool(soon), {}, CONTEXT)).result == 5
    assert (await execute(tool(functools.partial(later), name="later"), {}, CONTEXT)).result == 5


async def test_progress_reaches_the_loop_in_order_from_either_kind_of_function():
    events = []
    context = dataclasses.replace(
        CONTEXT, progress=lambda event: events.append((event, threading.current_thread() is threading.main_thread()))
    )

    @tool
    def slow(here: ToolContext):
        here.emit_progress({"done": 1, "when": datetime(2026, 1, 2, tzinfo=UTC)})
        here.emit_progress({"done": 2})

    @tool
    async def quick(here: ToolContext):
        here.emit_progress({"done": 3})

    await execute(slow, {}, context)
    await execute(quick, {}, context)
    assert events == [({"done": 1, "when": "2026-01-02T00:00:00+00:00"}, True), ({"done": 2}, True), ({"done": 3}, True)]


def test_parameters_can_be_a_schema():
    @tool(parameters={"properties": {"q": {"type": "string"}}, "required": ["q"]})
    async def find(q): ...

    assert find.parameters == {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


@pytest.mark.parametrize(
    "schema, fault",
    [
        ({"properties": {"q": {}, "z": {}}, "required": ["q"]}, "no parameter z"),
        ({"properties": {"q": {}}}, "q must be required"),
        ({"type": "array"}, "must be object"),
    ],
)
def test_a_schema_that_does_not_fit_the_function_is_refused(schema, fault):
    @tool(parameters=schema)
    async def find(q): ...

    with pytest.raises(InvalidTool, match=fault):
        _ = find.parameters


async def test_parameters_can_be_a_model_whole_or_by_field():
    @tool(parameters=Point)
    async def whole(point: Point):
        return [type(point).__name__, point.x, point.y]

    @tool(parameters=Point)
    async def fields(x, y):
        return [x, y]

    assert (await execute(whole, {"x": 1}, CONTEXT)).result == ["Point", 1, 0]
    assert (await execute(fields, {"x": 1}, CONTEXT)).result == [1, 0]
    assert list(whole.parameters["properties"]) == ["x", "y"]

    @tool(parameters=Point)
    async def misfit(x): ...

    with pytest.raises(InvalidTool, match="does not take y"):
        _ = misfit.parameters


@pytest.mark.parametrize("function, fault", [(lambda *things: None, r"\*args"), (lambda a: None, None)])
def test_functions_that_cannot_be_described(function, fault):
    made = tool(function, name="made")
    if fault is None:
        assert made.parameters["properties"] == {"a": {}}
        return
    with pytest.raises(InvalidTool, match=fault):
        _ = made.parameters


def test_an_annotation_that_does_not_resolve_or_has_no_schema_is_named():
    def unresolved(a: "Nowhere"): ...  # noqa: F821 - does not resolve

    def odd(a: threading.Lock): ...  # type: ignore[valid-type]

    with pytest.raises(InvalidTool, match=r"'unresolved'.*Nowhere"):
        _ = tool(unresolved).parameters
    with pytest.raises(InvalidTool, match="'odd'"):
        _ = tool(odd).parameters


def test_a_return_annotation_that_does_not_resolve_does_no_harm():
    def fine(a: int) -> "Nowhere": ...  # noqa: F821 - does not resolve

    assert tool(fine).parameters["properties"] == {"a": {"type": "integer"}}


def test_wrong_policies_are_all_named_at_once():
    with pytest.raises(InvalidTool) as caught:
        tool(lambda: None, name="no spaces!", timeout=0, retries=-1, on_unknown="guess", approval="denyy", max_chars=True, effects="yes")  # type: ignore[arg-type]
    faults = [line.partition(":")[0] for line in caught.value.findings]
    assert faults == ["name", "effects", "timeout", "retries", "on_unknown", "max_chars", "approval"]


def test_things_that_are_no_function_are_refused():
    with pytest.raises(Misuse):
        tool(search)
    with pytest.raises(Misuse):
        tool(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidTool):
        as_tool(int)
    assert as_tool(search) is search


def test_origin_leads_back_to_a_module_level_function_only():
    assert search.origin == Origin(__file__, "search")
    assert tool(lambda: None, name="x").origin is None
    assert tool(functools.partial(print), name="x").origin is None


def test_declaring_a_tool_does_not_import_pydantic():
    import subprocess
    import sys

    code = (
        "import sys\nfrom causeline.tools.function import tool\n"
        "@tool\ndef f(a: list[int]): ...\n"
        "assert not {'pydantic', 'jsonschema_rs', 'json_repair'} & set(sys.modules), sorted(sys.modules)\n"
        "f.parameters\nassert 'pydantic' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_replace_keeps_the_function_and_changes_the_policy():
    changed = dataclasses.replace(search, name="find", timeout=3.0)
    assert (changed.name, changed.timeout, changed.parameters) == ("find", 3.0, search.parameters)
    assert asyncio.run(changed("q"))["query"] == "q"
