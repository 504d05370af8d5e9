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
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast, overload
from weakref import WeakSet

from causeline.errors import Misuse
from causeline.models.messages import Json
from causeline.tools.approval import ApprovalMode
from causeline.tools.json_schema import Schema, shortened
from causeline.tools.plain_signature import PlainSignature
from causeline.tools.result_json import plain
from causeline.tools.signature import Parameters, Signature, innermost, read_signature
from causeline.tools.tool import MAX_CHARS, InvalidTool, OnUnknown, Origin, Tool, ToolContext
from causeline.tools.tool_threads import THREADS

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


class ToolDecorator(Protocol):
    """Makes a tool of a function, with the options given to `tool`."""

    def __call__(self, function: Callable[P, R], /) -> "FunctionTool[P, R]": ...


class FunctionBody:
    """A Python function as the body of a tool. Raises InvalidTool when its signature is first looked at and cannot be described."""

    def __init__(self, function: Callable[..., Any], name: str, parameters: Parameters | None) -> None:
        self.function = function
        self.name = name
        self.given = parameters

    @functools.cached_property
    def signature(self) -> Signature | PlainSignature:
        return read_signature(self.function, self.name, self.given)

    @functools.cached_property
    def threaded(self) -> bool:
        """Whether it runs in a thread."""
        return not inspect.iscoroutinefunction(innermost(self.function))

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
        threaded, signature = self.threaded, self.signature
        own = context if signature.context is None else context.private(_reporter(context, threaded=threaded))
        positional, keywords = signature.bind(arguments, own)
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


class FunctionTool(Tool, Generic[P, R]):
    """A tool made from a function. It can still be called like one, and used as a method."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(FunctionBody, self.body).function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> "FunctionTool[P, R]": ...

    @overload
    def __get__(self: "FunctionTool[Concatenate[Any, Q], R]", instance: object, owner: type | None = None) -> "FunctionTool[Q, R]": ...

    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool[..., R]":
        body = cast(FunctionBody, self.body)
        function: Any = body.function
        if type(function) is classmethod or (instance is not None and type(function) is FunctionType):
            bound: Callable[..., Any] = cast(Any, function).__get__(instance, owner)
            return replace(self, body=FunctionBody(bound, body.name, body.given))
        return self


class ToolOptions(TypedDict, total=False):
    """The keywords of `tool`."""

    name: str | None
    description: str | None
    parameters: Parameters | None
    output: Any
    strict: bool
    effects: bool
    idempotent: bool
    exclusive: bool
    timeout: float | None
    retries: int
    approval: ApprovalMode | None
    on_unknown: OnUnknown
    max_chars: int


@overload
def tool(fn: Callable[P, R], **options: Unpack[ToolOptions]) -> FunctionTool[P, R]: ...


@overload
def tool(fn: None = None, **options: Unpack[ToolOptions]) -> ToolDecorator: ...


def tool(
    fn: Any = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Parameters | None = None,
    output: Any = None,
    strict: bool = False,
    effects: bool = True,
    idempotent: bool = False,
    exclusive: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    approval: ApprovalMode | None = None,
    on_unknown: OnUnknown = "report",
    max_chars: int = MAX_CHARS,
) -> Any:
    """A function, method, partial or callable object as a tool; a decorator with or without arguments.

    Name and description come from the function unless given, the schema from its annotations unless `parameters` is a JSON Schema
    or a pydantic model. The other keywords are the fields of Tool. Raises InvalidTool.
    """

    def make(function: Any) -> FunctionTool[..., Any]:
        _check_function(function, name)
        own = name or _name(function)
        return FunctionTool(
            name=own,
            description=_description(function) if description is None else description,
            body=FunctionBody(function, own, parameters),
            effects=effects,
            idempotent=idempotent,
            exclusive=exclusive,
            timeout=timeout,
            retries=retries,
            approval=approval,
            on_unknown=on_unknown,
            max_chars=max_chars,
            output=output,
            strict=strict,
        )

    return make if fn is None else make(fn)


def _check_function(given: object, name: str | None) -> None:
    """Raises Misuse for what is no function, and InvalidTool for one that yields."""
    if isinstance(given, Tool):
        raise Misuse(f"{given.name} is a tool already; use dataclasses.replace to change it.")
    if not callable(given) and type(given) is not classmethod:
        raise Misuse(f"{given!r} is no function; a tool is made from something that can be called.")
    if _yields(given):
        raise InvalidTool(
            f"Tool {name or _name(cast(Any, given))!r}: it yields, and a tool returns: give back a list, and tell of progress "
            "with `emit_progress` of its ToolContext."
        )


F = TypeVar("F", bound=Callable[..., Tool])
_FACTORIES: "WeakSet[Callable[..., Tool]]" = WeakSet()


def factory(function: F) -> F:
    """Marks a function that makes a tool and needs no arguments for it: given as a tool itself, it stands for the one it makes."""
    _FACTORIES.add(function)
    return function


def as_tool(thing: Any) -> Tool:
    """A tool, or a function made into one. Raises InvalidTool."""
    if isinstance(thing, FunctionType) and thing in _FACTORIES:
        return thing()
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
