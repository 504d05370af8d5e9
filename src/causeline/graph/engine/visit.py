"""Calling a node: its context, its timeout, trying again, and reading its outcome.

Law: whatever a node does wrong becomes an exception here or an outcome; nothing else leaves.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from causeline.errors import Invalid, code_of
from causeline.graph.documents.document import OTHERWISE
from causeline.graph.engine.binding import Site
from causeline.graph.engine.channels import NOWHERE, Placing
from causeline.graph.engine.control import Control, WalkTask
from causeline.graph.engine.state_guard import check_untouched, copied
from causeline.graph.engine.step_events import Failure, Path, Retry
from causeline.graph.node import PARKED, Context, Node, Outcome
from causeline.policy import GiveUp, RetryPolicy, error_names

NOTHING: Mapping[str, Any] = MappingProxyType({})
_type: Callable[[Any], Any] = type  # as `type`, but a checker does not take it for a proof about the argument
_only_texts = frozenset[type]({str}).issuperset
Attempts = tuple[Mapping[str, Any], ...]
"""The tries before the last: `{n, code, wait}` each."""


class BadOutcome(Invalid):
    """A node returned something that is no outcome."""

    code = "bad_outcome"


class VisitResult:
    """What came of a visit, before it counts. `placing` are values for dotted paths, which are worked out when the visit has its turn;
    `asks` is True if the node itself asked `question`; `state` is what a gather sees as the producer's state, None for the
    document's own."""

    __slots__ = ("asks", "attempts", "placing", "port", "question", "state", "writes")

    def __init__(
        self,
        port: str,
        writes: Mapping[str, Any] = NOTHING,
        *,
        placing: Placing = NOWHERE,
        asks: bool = True,
        question: Any = None,
        attempts: Attempts = (),
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self.port = port
        self.writes = writes
        self.placing = placing
        self.asks = asks
        self.question = question
        self.attempts = attempts
        self.state = state


async def call(
    control: Control,
    walk: WalkTask,
    site: Site,
    state: Mapping[str, Any],
    path: Path,
    step: int,
    *,
    item: Any = None,
    index: int | None = None,
    answer: Any = None,
    reducers: Mapping[str, Any] = NOTHING,
    concurrent: bool = False,
    tries: list[Mapping[str, Any]] | None = None,
) -> VisitResult:
    """Call the site's node, again where its retry policy says so; what failed goes into `tries`. Raises what the last try raised."""
    node = site.node
    assert node is not None
    attempt, waited = 1, 0.0
    while True:
        ctx = Context(
            state,
            placement=site.name,
            path=path,
            step=step,
            attempt=attempt,
            item=item,
            index=index,
            answer=answer,
            deadline=control.deadline,
            emit=partial(control.emit, path, step),
            services=control.services,
            deps=control.deps,
            reducers=reducers,
            gate=control.gate,
            concurrent=concurrent,
        )
        before = copied(state) if control.debug else None
        try:
            if site.timeout is not None:
                found: Any = await control.within(site.timeout, _begun(control, node, ctx), walk, site.name)
            elif not (node.is_async or node.inline):
                found = await control.in_thread(node.fn, ctx)
            else:
                found = node.fn(ctx)
            if type(found) is not Outcome and hasattr(found, "__await__"):
                found = await found
            if before is not None:
                check_untouched(before, state, site.name)
            return _result(found, node, site, tries)
        except BaseException as error:
            failed = control.failed(error, walk, site.name)
            delay = again(control, site.retry, error_names(failed), attempt, waited, failed)
            if delay is None:
                if failed is error:
                    raise
                raise failed from error
        note_try(control, path, step, tries, attempt, code_of(failed), delay)
        await control.gate.rest(control.clock, delay)
        attempt, waited = attempt + 1, delay


def note_try(control: Control, path: Path, step: int, tries: list[Mapping[str, Any]] | None, attempt: int, code: str, wait: float) -> None:
    """Remember and tell that a try failed and another will follow."""
    retry = Retry(step, path, attempt, code, wait)
    if tries is not None:
        tries.append({"n": attempt, "code": code, "wait": wait})
    control.retrying(retry)


def again(
    control: Control, policy: RetryPolicy | None, names: frozenset[str], attempt: int, waited: float, error: BaseException | None
) -> float | None:
    """Seconds to wait before the next try, None to give up. What an error says of itself counts only where it makes sense."""
    if policy is None:
        return None
    retryable: Any = getattr(error, "retryable", None)
    wish: Any = getattr(error, "retry_after", None)
    decision = policy.decide(
        names,
        attempt,
        retryable=retryable if isinstance(retryable, bool) else None,
        retry_after=wish if type(wish) in (int, float) and 0 <= wish < math.inf else None,
        previous=waited,
        random=control.dice,
    )
    return None if isinstance(decision, GiveUp) else decision.seconds


def failure_names(failure: Failure) -> frozenset[str]:
    """The words a retry policy may use for a failure."""
    names = frozenset({failure.code})
    return names if failure.cause is None else names | error_names(failure.cause)


async def _begun(control: Control, node: Node, ctx: Context) -> Any:
    """One call, as something to wait for. A sync function cannot be interrupted: one in a thread goes on by itself, and what it returns
    too late is dropped."""
    found: Any = await control.in_thread(node.fn, ctx) if node.threaded else node.fn(ctx)
    return await found if hasattr(found, "__await__") else found


class UndeclaredPort(Invalid):
    """The body of a scatter left by a port its node does not declare."""

    code = "undeclared_port"


def declared(port: str, node: Node, site: Site) -> None:
    """Raises UndeclaredPort for a port that a node does not have."""
    if port not in node.ports:
        raise UndeclaredPort(
            f"{site.name}: the node {node.iri} left by {port!r}, which it does not declare; its ports are {', '.join(node.ports)}",
            placement=site.name,
            port=port,
        )


def _result(found: Any, node: Node, site: Site, tries: list[Mapping[str, Any]] | None) -> VisitResult:
    """What a node returned. Raises BadOutcome."""
    if not isinstance(found, Outcome):
        if not isinstance(found, str):
            raise BadOutcome(
                f"{site.name}: the node {node.iri} returned a {type(found).__name__}; return Outcome(port, writes) or a port name",
                placement=site.name,
                node=node.iri,
            )
        if found not in site.routes:
            _may_leave_by(found, node, site)
        return VisitResult(found, attempts=tuple(tries) if tries else ())
    port: Any = found.port
    writes: Any = found.writes
    if _type(writes) is not dict or not _only_texts(map(type, writes)):
        _check_writes(writes, site)
    if type(port) is not str:
        raise BadOutcome(f"{site.name}: a port is a text, not {port!r:.80}", placement=site.name)
    if port not in site.routes:
        _may_leave_by(port, node, site)
    return VisitResult(port, writes, question=found.question, attempts=tuple(tries) if tries else ())


def _check_writes(writes: Any, site: Site) -> None:
    if isinstance(writes, Mapping) and _only_texts(map(type, cast("Mapping[Any, Any]", writes))):
        return
    raise BadOutcome(f"{site.name}: writes must be a mapping from channel names to values, not {writes!r:.80}", placement=site.name)


def _may_leave_by(port: str, node: Node, site: Site) -> None:
    """A port that is neither declared nor routed by name would be taken for whatever `otherwise` leads to."""
    if port not in ("error", PARKED) and OTHERWISE in site.routes:
        declared(port, node, site)
