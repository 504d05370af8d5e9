"""Ids of which a command line gives the beginning only, where just one begins so.

Law: a whole id is looked up and costs no list; of a beginning the lists it could stand in are read.
"""

from collections.abc import Iterable

from causeline.errors import Invalid, Missing
from causeline.runtime.runtime import Runtime


async def whole_run(runtime: Runtime, text: str) -> str:
    """The id of the run that begins so, else the text itself. Raises Invalid where several do."""
    try:
        return (await runtime.run(text)).id
    except Missing:
        return _only("run", text, (row.id for row in await runtime.runs()))


async def whole_session(runtime: Runtime, text: str) -> str:
    """The id of the session that begins so, else the text itself. Raises Invalid where several do."""
    try:
        return (await runtime.session(text)).id
    except Missing:
        return _only("session", text, (row.id for row in await runtime.sessions()))


async def whole_checkpoint(runtime: Runtime, text: str, session: str | None = None) -> str:
    """The id of the checkpoint, of this session or of any, that begins so, else the text itself. Raises Invalid where several do."""
    try:
        return (await runtime.checkpoint(text)).id
    except Missing:
        places = [session] if session is not None else [row.id for row in await runtime.sessions()]
        return _only("checkpoint", text, {row.id for place in places for row in await runtime.checkpoints(place)})


async def whole_interrupt(runtime: Runtime, run: str, text: str) -> str:
    """The id of the question of this run, or of runs below it, that begins so, else the text itself. Raises Invalid where several do."""
    return _only("question", text, {row.id for row in await runtime.interrupts(run=run)})


async def whole_node(runtime: Runtime, text: str, session: str | None = None) -> str:
    """The id of the causal node, on the branch of this session or of any, that begins so, else the text itself. Raises Invalid."""
    try:
        await runtime.log_with(text, session)
    except Missing:
        places = [session] if session is not None else [row.id for row in await runtime.sessions()]
        return _only("node", text, {node.id for place in places for link in await runtime.links(place) for node in link.nodes})
    return text


def _only(kind: str, text: str, ids: Iterable[str]) -> str:
    fits = sorted(name for name in ids if name.startswith(text)) if text else []
    if text in fits:
        return text
    if len(fits) > 1:
        raise Invalid(f"{len(fits)} {kind}s begin with {text!r}: {', '.join(fits[:5])}; write more of the id", findings=fits)
    return fits[0] if fits else text
