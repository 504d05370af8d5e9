"""Calling a node: its context, its timeout, trying again, and reading its outcome.

Law: whatever a node does wrong becomes an exception here or an outcome; nothing else leaves.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from causeline.errors import Invalid
from causeline.graph.engine.binding import Site
from causeline.graph.engine.control import Control, Slot, late
from causeline.graph.engine.step_events import Failure, Path
from causeline.graph.node import Context, Node, Outcome
from causeline.policy import GiveUp, RetryPolicy, error_names

NOTHING: Mapping[str, Any] = MappingProxyType({})
_NONE: frozenset[str] = frozenset()
_NO_WRITES = Outcome("").writes


class BadOutcome(Invalid):
    """A node returned something that is no outcome."""

    code = "bad_outcome"


class Left:
    """What came of a visit. `extended` are list channels to add to; `own` is True if the node itself asked `question`;
    `state` is what a gather sees as the producer's state, None for the document's own."""

    __slots__ = ("attempt", "extended", "own", "port", "question", "state", "writes")

    def __init__(
        self,
        port: str,
        writes: Mapping[str, Any] = NOTHING,
        *,
        extended: frozenset[str] = _NONE,
        own: bool = True,
        question: Any = None,
        attempt: int = 1,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self.port = port
        self.writes = writes
        self.extended = extended
        self.own = own
        self.question = question
        self.attempt = attempt
        self.state = state


async def call(
    control: Control,
    slot: Slot,
    site: Site,
    state: Mapping[str, Any],
    path: Path,
    step: int,
    *,
    item: Any = None,
    index: int | None = None,
    answer: Any = None,
    reducers: Mapping[str, Any] = NOTHING,
) -> Left:
    """Call the site's node, again where its retry policy says so. Raises what the last try raised."""
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
            emit=control.emitter(path, step),
            services=control.services,
            reducers=reducers,
        )
        try:
            found: Any = node.fn(ctx) if site.timeout is None else await _timed(control, slot, site, node, ctx)
            if type(found) is not Outcome and hasattr(found, "__await__"):
                found = await found
            outcome = found if type(found) is Outcome else _outcome(found, node, site)
            if outcome.writes is not _NO_WRITES:
                _check_writes(outcome.writes, site)
            if not isinstance(cast("object", outcome.port), str):
                raise BadOutcome(f"{site.name}: a port is a text, not {outcome.port!r:.80}", placement=site.name)
            return Left(outcome.port, outcome.writes, question=outcome.question, attempt=attempt)
        except BaseException as error:
            failed = control.failed(error, slot, site.name)
            delay = again(control, site.retry, error_names(failed), attempt, waited, failed)
            if delay is None:
                if failed is error:
                    raise
                raise failed from error
        waited = delay
        await control.clock.sleep(waited)
        attempt += 1


def again(
    control: Control, policy: RetryPolicy | None, names: frozenset[str], attempt: int, waited: float, error: BaseException | None
) -> float | None:
    """Seconds to wait before the next try, None to give up."""
    if policy is None:
        return None
    decision = policy.decide(
        names,
        attempt,
        retryable=getattr(error, "retryable", None),
        retry_after=getattr(error, "retry_after", None),
        previous=waited,
        random=control.dice,
    )
    return None if isinstance(decision, GiveUp) else decision.seconds


def failure_names(failure: Failure) -> frozenset[str]:
    """The words a retry policy may use for a failure."""
    names = frozenset({failure.code})
    return names if failure.cause is None else names | error_names(failure.cause)


async def _timed(control: Control, slot: Slot, site: Site, node: Node, ctx: Context) -> Any:
    """One call within the placement's timeout. A sync function cannot be interrupted; its outcome is late afterwards."""
    assert site.timeout is not None
    begun = control.clock.monotonic()
    found: Any = node.fn(ctx)
    if hasattr(found, "__await__"):
        return await control.within(site.timeout, found, slot, site.name)
    if control.clock.monotonic() - begun > site.timeout:
        raise late(site.name, site.timeout)
    return found


def _outcome(found: object, node: Node, site: Site) -> Outcome:
    if isinstance(found, Outcome):
        return found
    if isinstance(found, str):
        return Outcome(found)
    raise BadOutcome(
        f"{site.name}: the node {node.iri} returned a {type(found).__name__}; return Outcome(port, writes) or a port name",
        placement=site.name,
        node=node.iri,
    )


def _check_writes(writes: Any, site: Site) -> None:
    if type(writes) is dict or isinstance(writes, Mapping):
        for channel in cast("Mapping[Any, Any]", writes):
            if type(channel) is not str:
                break
        else:
            return
    raise BadOutcome(f"{site.name}: writes must be a mapping from channel names to values, not {writes!r:.80}", placement=site.name)
