"""Sets of tools that open and close, such as the tools of a server.

Law: what a toolset offers may change while it is open, and is asked for once a round. One that cannot be opened ends
what wanted it, with its name; one that cannot say what it offers, later, offers what it did before.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from causeline.errors import Refused, words_of
from causeline.tools.tool import Tool

LOG = logging.getLogger("causeline.tools")


@runtime_checkable
class Toolset(Protocol):
    """Tools that are there between `open` and `close`.

    `open` is called before the first run that needs the tools, and `close` when no run does any more; both may happen again.
    `tools` is asked once a round; it gives Tools or functions, and should give the same objects as long as nothing changed. Any of the
    three may be a coroutine function. A `name`, where there is one, is used in messages.
    """

    def open(self) -> Awaitable[object] | object: ...

    def tools(self) -> "Awaitable[Sequence[Tool | Callable[..., Any]]] | Sequence[Tool | Callable[..., Any]]": ...

    def close(self) -> Awaitable[object] | object: ...


class ToolsetFailed(Refused):
    """A toolset could not be opened."""

    code = "toolset_failed"


class OpenToolsets:
    """Several toolsets that are open as long as somebody uses them."""

    def __init__(self, toolsets: Sequence[Toolset]) -> None:
        self.toolsets = tuple(toolsets)
        self._users = 0
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Open them, unless they are open; each call needs a `close`. Raises ToolsetFailed, and then none of them is open."""
        async with self._turn:
            if self._users == 0:
                await self._open_each()
            self._users += 1

    async def close(self) -> None:
        """Close them, unless somebody else uses them. What a toolset raises in closing is logged."""
        async with self._turn:
            self._users -= 1
            if self._users == 0:
                await _close_each(self.toolsets)

    async def offered(self) -> tuple[Any, ...]:
        """What each of them offers now. Raises what a toolset raises."""
        return tuple([tuple(await settled(toolset.tools())) for toolset in self.toolsets])

    async def _open_each(self) -> None:
        opened: list[Toolset] = []
        for toolset in self.toolsets:
            opened.append(toolset)
            try:
                await settled(toolset.open())
            except BaseException as error:
                await _close_each(opened)
                if not isinstance(error, Exception):
                    raise
                raise ToolsetFailed(f"the tools of {title(toolset)} cannot be opened: {words_of(error)}") from error


async def _close_each(toolsets: Sequence[Toolset]) -> None:
    for toolset in reversed(toolsets):
        try:
            await settled(toolset.close())
        except Exception:
            LOG.warning("the tools of %s could not be closed", title(toolset), exc_info=True)


async def settled(value: Any) -> Any:
    """The value, waited for where it is a coroutine's."""
    return await value if inspect.isawaitable(value) else value


def title(toolset: Toolset) -> str:
    """What a toolset is called in messages."""
    return str(getattr(toolset, "name", None) or type(toolset).__name__)
