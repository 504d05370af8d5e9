"""One way to execute a call: arguments, time, attempts, result, errors.

Law: `execute` returns for every call it is given; the only thing it raises is CancelledError. What it returns is
exact JSON, and a failure is a text that names the tool, the field or the exception.
"""

import asyncio
import logging
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from causeline.causal import Append, canonical
from causeline.errors import CauselineError, Invalid, code_of, words_of
from causeline.graph.engine.containment import Crashed, from_outside
from causeline.models.messages import Json
from causeline.models.transcript import result_text
from causeline.models.unicode_text import is_clean
from causeline.run.ledger import Call
from causeline.tools.arguments import Prepared, prepare
from causeline.tools.json_schema import shortened
from causeline.tools.result_json import plain, plain_with_text, visible_text
from causeline.tools.tool import InvalidTool, Resource, Tool, ToolContext, ToolError, ToolResult, Waiting
from causeline.tools.tool_retry import Sleep, with_retries
from causeline.tools.tool_timeout import bounded
from causeline.tools.trim import bound

LOG = logging.getLogger("causeline.tools")
"""Tells of what tools raise, with the traceback: errors of a tool's own words (ToolError) at DEBUG, others at WARNING. Arguments
are not told."""
LOG.addHandler(logging.NullHandler())
MAX_ERROR = 2_000
MAX_LISTED = 50


@dataclass(slots=True, kw_only=True)
class Executed:
    """What came of a call. `result` is exact JSON, an error text where not `ok`; `written` is its text, where that has been written.

    `arguments` are what the tool was given (None if it did not run), `raw` the model's text where it did not parse,
    `error` what was raised. `context_patch`, `resources` and `verification` are what the tool reported. Where `waits_for` is not None
    there is no result yet: before these questions to people are answered, or, with none, before the call's own run has ended elsewhere.
    `tries` are the attempts that others followed: `{n, code, wait}`.
    """

    ok: bool
    result: Any
    arguments: Json | None = None
    raw: str | None = None
    attempts: int = 0
    error: BaseException | None = None
    context_patch: Json | None = None
    resources: Sequence[Resource] = ()
    verification: Json | None = None
    waits_for: Sequence[Mapping[str, Any]] | None = None
    written: str | None = None
    tries: Sequence[Mapping[str, Any]] = ()

    @property
    def text(self) -> str:
        """The result as a model reads it."""
        return result_text(self.result) if self.written is None else self.written

    def reported(self) -> Json | None:
        """What the tool reported beside its result, as a ledger row keeps it; None if nothing."""
        if not (self.verification or self.resources or self.context_patch):
            return None
        told: Json = {
            "verification": self.verification,
            "resources": [[each.key, each.to_payload()] for each in self.resources],
            "context_patch": self.context_patch,
        }
        return {name: value for name, value in told.items() if value}


def evidence(call: Call, result: Append) -> list[Append]:
    """The nodes that follow a call's tool_result: a verification, then resources, each with it as parent."""
    told, appends = call.reported, list[Append]()
    if not told:
        return appends
    if "verification" in told:
        appends.append(Append("verification", {"tool": call.name, **told["verification"]}, parents=(result,)))
    appends.extend(Append("resource", payload, parents=(result,), resource_key=key) for key, payload in told.get("resources", ()))
    return appends


async def execute(
    tool: Tool | None,
    arguments: Json | str,
    context: ToolContext,
    *,
    known: Iterable[str] = (),
    name: str = "",
    prepared: Prepared | None = None,
    sleep: Sleep = asyncio.sleep,
) -> Executed:
    """Run `tool` on what a model wrote. With no such tool, `known` and `name` make the error text.

    `prepared` is what `prepare` made of these arguments, where that has been asked. Timeout and retries are the context's where it has
    them, else the tool's.
    """
    if tool is None:
        return unknown_tool(name, known)
    try:
        prepared = prepared or prepare(tool, arguments)
    except InvalidTool as error:
        return Executed(ok=False, result=error_text(tool.name, error), error=error)
    if prepared.arguments is None:
        return Executed(ok=False, result=_refusal(tool, prepared), raw=prepared.raw)
    given = prepared.arguments
    timeout = tool.timeout if context.timeout is None else context.timeout
    retries = tool.retries if context.retries is None else context.retries
    made = 0
    tries: list[Mapping[str, Any]] = []

    def failed(number: int, error: Exception, wait: float) -> None:
        tries.append({"n": number, "code": code_of(error), "wait": wait})
        context.retrying(tries[-1])

    async def attempt(number: int) -> Any:
        nonlocal made
        made = number
        deadline = None if timeout is None else time.monotonic() + timeout
        deadline, own = _earlier(deadline, context.deadline), context
        if number > 1 or deadline != context.deadline:
            own = replace(context, attempt=context.attempt + number - 1, deadline=deadline)
        return await bounded(_contained(tool, given, own), timeout)

    try:
        value = await with_retries(attempt, retries, sleep=sleep, failed=failed)
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is a result for the model
        executed = Executed(ok=False, result=error_text(tool.name, error), error=error)
    else:
        executed = _executed(tool, value)
    if executed.error is not None:
        _log(tool.name, context, executed.error)
    executed.arguments, executed.raw, executed.attempts, executed.tries = given, prepared.raw, made, tries
    return executed


def _log(name: str, context: ToolContext, error: BaseException) -> None:
    level = logging.DEBUG if isinstance(error, ToolError) else logging.WARNING
    if not LOG.isEnabledFor(level):
        return
    told = f"tool {name} failed in call {context.call_id} of run {context.run_id or '?'}"
    if is_clean(words_of(error)):
        LOG.log(level, "%s", told, exc_info=error)
    else:  # a text without a UTF-8 form would break whoever writes the log
        LOG.log(level, "%s\n%s", told, visible_text("".join(traceback.format_exception(error))))


def argument_fault(tool: Tool, arguments: Json | str) -> str | None:
    """The error text these arguments would get, or None if the tool would run on them."""
    prepared = prepare(tool, arguments)
    return _refusal(tool, prepared) if prepared.arguments is None else None


def unknown_tool(name: str, known: Iterable[str]) -> Executed:
    """The result of a call of a tool that is not there; lists those that are."""
    names = sorted(known)
    listed = ", ".join(names[:MAX_LISTED]) + (f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")
    return Executed(ok=False, result=f"There is no tool {_named(name)}. Available tools: {listed or 'none'}.")


def error_text(name: str, error: BaseException) -> str:
    """What the model is told of an exception: its type and message, at most about 2,000 characters."""
    said = words_of(error)
    if isinstance(error, ToolError):
        text = said
    elif isinstance(error, CauselineError):
        text = f"Error calling {name}: {said}"
    else:
        text = f"Error calling {name}: {type(error).__name__}" + (f": {said}" if said else "")
    return shortened(visible_text(text), MAX_ERROR)


async def _contained(tool: Tool, arguments: Json, context: ToolContext) -> Any:
    try:
        return await tool.body.run(arguments, context)
    except BaseException as error:
        if isinstance(error, Exception | asyncio.CancelledError) or from_outside(error):
            raise
        raise Crashed(error) from error


def _executed(tool: Tool, value: Any) -> Executed:
    name = tool.name
    if isinstance(value, Waiting):
        return Executed(ok=False, result=None, waits_for=value.questions)
    try:
        executed = _taken(value) if isinstance(value, ToolResult) else _kept(value)
        lines: list[str] = tool.output.findings(executed.result) if executed.ok and tool.output is not None else []
        if lines:
            raise Invalid(f"it does not fit the output schema: {'; '.join(lines)}", findings=lines)
        return executed
    except BaseException as error:
        if from_outside(error):  # turning a value into JSON may run code of its class
            raise
        said = shortened(visible_text(words_of(error)), MAX_ERROR)
        return Executed(ok=False, result=f"{name} ran, but what it returned cannot be used: {said}", error=error)


def _taken(value: ToolResult) -> Executed:
    resources = tuple(replace(each, path=visible_text(str(each.path)), value=plain(each.value)) for each in value.resources)
    for each in resources:
        canonical(each.to_payload())
    verification = _plain_object(value.verification)
    if verification is not None and not isinstance(verification.get("method"), str):
        raise InvalidTool("a verification needs a method, such as {'method': 'tool_declared'}")
    if verification is not None and verification["method"] == "decision":
        raise InvalidTool("a tool cannot give the method 'decision': that is what a person decided")
    patch = _plain_object(value.context_patch)
    executed = _kept(value.value)
    executed.ok, executed.context_patch, executed.resources, executed.verification = bool(value.ok), patch, resources, verification
    return executed


def _kept(value: Any) -> Executed:
    result, text = plain_with_text(value)
    cut = bound(text)
    return Executed(ok=True, result=result, written=text) if cut is None else Executed(ok=True, result=cut, written=cut)


def _plain_object(value: Mapping[str, Any] | None) -> Json | None:
    return None if value is None else plain(dict(value))


def _refusal(tool: Tool, prepared: Prepared) -> str:
    faults = "; ".join(prepared.findings)
    return f"Invalid arguments for {tool.name}: {faults}. The tool did not run; call it again with arguments that fit."


def _earlier(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else min(one, other)


def _named(name: str) -> str:
    return repr(shortened(visible_text(name), 100))
