"""Functions as tools: `causeline.tool`.

Law: declaring a tool costs nothing; signature and schema are read when they are first needed. A function that
is not async runs in a thread, because it may block.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any, cast, overload

from causeline.errors import Misuse
from causeline.models.messages import Json
from causeline.tools.approval import ApprovalMode
from causeline.tools.json_schema import Schema, shortened
from causeline.tools.result_json import plain
from causeline.tools.signature import Parameters, Signature, innermost, read_signature
from causeline.tools.tool import MAX_CHARS, InvalidTool, OnUnknown, Origin, Tool, ToolContext
from causeline.tools.tool_threads import THREADS


class FunctionBody:
    """A Python function as the body of a tool. Raises InvalidTool when its signature is first looked at and cannot be described."""

    def __init__(self, function: Callable[..., Any], name: str, parameters: Parameters | None) -> None:
        self.function = function
        self.name = name
        self.given = parameters

    @functools.cached_property
    def signature(self) -> Signature:
        return read_signature(self.function, self.name, self.given)

    @property
    def schema(self) -> Schema:
        return self.signature.schema

    @property
    def origin(self) -> Origin | None:
        """Where the function is written, if it can be found there again."""
        function = inspect.unwrap(self.function)
        if not isinstance(function, FunctionType) or "<" in function.__qualname__ or function.__code__.co_filename.startswith("<"):
            return None
        return Origin(function.__code__.co_filename, function.__qualname__)

    def findings(self, arguments: Json) -> list[str]:
        return self.signature.findings(arguments)

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        threaded = not inspect.iscoroutinefunction(innermost(self.function))
        own = context if self.signature.context is None else context.private(_reporter(context, threaded=threaded))
        positional, keywords = self.signature.bind(arguments, own)
        if not threaded:
            return await self.function(*positional, **keywords)
        value = await THREADS.call(functools.partial(self.function, *positional, **keywords))
        return await value if inspect.isawaitable(value) else value


def _reporter(context: ToolContext, *, threaded: bool) -> Callable[[Mapping[str, Any]], None]:
    """Takes a tool's progress as plain JSON to the run's event loop, whatever thread it comes from."""
    loop = asyncio.get_running_loop()

    def report(data: Mapping[str, Any]) -> None:
        event = plain(dict(data))
        if threaded:
            loop.call_soon_threadsafe(context.progress, event)
        else:
            context.progress(event)

    return report


class FunctionTool(Tool):
    """A tool made from a function. It can still be called like one, and used as a method."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return cast(FunctionBody, self.body).function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool":
        body = cast(FunctionBody, self.body)
        function: Any = body.function
        if type(function) is classmethod or (instance is not None and type(function) is FunctionType):
            bound: Callable[..., Any] = cast(Any, function).__get__(instance, owner)
            return replace(self, body=FunctionBody(bound, body.name, body.given))
        return self


@overload
def tool(
    fn: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Parameters | None = None,
    effects: bool = True,
    idempotent: bool = False,
    exclusive: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    approval: ApprovalMode | None = None,
    on_unknown: OnUnknown = "report",
    max_chars: int = MAX_CHARS,
) -> FunctionTool: ...


@overload
def tool(
    fn: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Parameters | None = None,
    effects: bool = True,
    idempotent: bool = False,
    exclusive: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    approval: ApprovalMode | None = None,
    on_unknown: OnUnknown = "report",
    max_chars: int = MAX_CHARS,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    fn: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Parameters | None = None,
    effects: bool = True,
    idempotent: bool = False,
    exclusive: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    approval: ApprovalMode | None = None,
    on_unknown: OnUnknown = "report",
    max_chars: int = MAX_CHARS,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """A function, method, partial or callable object as a tool; a decorator with or without arguments.

    Name and description come from the function unless given, the schema from its annotations unless `parameters` is a JSON Schema
    or a pydantic model. The other keywords are the fields of Tool. Raises InvalidTool.
    """

    def make(function: Callable[..., Any]) -> FunctionTool:
        if isinstance(function, Tool):
            raise Misuse(f"{function.name} is a tool already; use dataclasses.replace to change it.")
        if not callable(function) and type(cast(Any, function)) is not classmethod:
            raise Misuse(f"{function!r} is no function; a tool is made from something that can be called.")
        if _yields(function):
            raise InvalidTool(
                f"Tool {name or _name(function)!r}: it yields, and a tool returns: give back a list, and tell of progress "
                "with `emit_progress` of its ToolContext."
            )
        own = name or _name(function)
        text = _description(function) if description is None else description
        return FunctionTool(
            own,
            text,
            FunctionBody(function, own, parameters),
            effects,
            idempotent,
            exclusive,
            timeout,
            retries,
            approval,
            on_unknown,
            max_chars,
        )

    return make if fn is None else make(fn)


def as_tool(thing: Any) -> Tool:
    """A tool, or a function made into one. Raises InvalidTool."""
    if isinstance(thing, Tool):
        return thing
    if callable(thing) and not isinstance(thing, type):
        return tool(cast(Callable[..., Any], thing))
    raise InvalidTool(f"{shortened(repr(thing))} is neither a tool nor a function.")


def _yields(function: Any) -> bool:
    inner = innermost(getattr(function, "__func__", function))
    return inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)


def _named(function: Callable[..., Any]) -> Any:
    """What carries the name and the docstring: the function, or the class of a callable object."""
    while isinstance(function, functools.partial):
        function = cast(Callable[..., Any], function.func)
    return function if hasattr(function, "__name__") else type(function)


def _name(function: Callable[..., Any]) -> str:
    return str(_named(function).__name__)


def _description(function: Callable[..., Any]) -> str:
    named = _named(function)
    text = named.__doc__ or (named.__call__.__doc__ if isinstance(named, type) else None)
    return inspect.cleandoc(text) if text else ""
