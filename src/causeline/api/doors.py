"""What every route needs: the runtime of whoever asks, the agents that are served, and pages of lists."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Query, Request

from causeline.api.access import Access
from causeline.api.problems import Problem
from causeline.errors import CauselineError, Invalid, Missing
from causeline.runtime.program import Program
from causeline.runtime.run_names import given_name
from causeline.runtime.runtime import Runtime

MAX_PAGE = 200
DEFAULT_PAGE = 50
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Rows a page.")]
After = Annotated[str | None, Query(max_length=512, description="`next` of the page before.")]


@dataclass
class Doors:
    """One server. `runtime` is None until the application has started, `draining` is set when it stops."""

    agents: Mapping[str, Program]
    access: Access
    runtime: Runtime | None = None
    draining: bool = False

    async def drain(self) -> None:
        """Answer no further request, and hand the runs back once what has begun is finished. Who follows one hears that it goes on
        elsewhere. Cancelling this leaves out the rest of the grace."""
        self.draining = True
        if self.runtime is not None:
            await self.runtime.room.drain()

    async def runtime_of(self, request: Request) -> Runtime:
        """The runtime as the owner of this request sees it: everything else is not there. Raises Problem (401, 403, 503)."""
        owner = await self.access.owner_of(request)
        if self.runtime is None or self.draining:
            raise Problem(503, "unavailable", "the server is starting or stopping; try again in a moment", headers={"Retry-After": "1"})
        return self.runtime.of(owner)

    def agent(self, name: str | None) -> Program:
        """The agent of this name, or the only one there is. Raises Missing, Invalid."""
        if name is None and len(self.agents) == 1:
            return next(iter(self.agents.values()))
        if name is None:
            raise Invalid(f"say which agent is meant: {', '.join(self.agents) or 'this server has none'}", findings=["agent: missing"])
        if name not in self.agents:
            raise Missing(f"no agent {name!r}; GET /v1/agents lists them", agent=name)
        return self.agents[name]


def cursor_of(value: str) -> str:
    """An opaque cursor for the row of this id."""
    return base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")


def after_cursor(cursor: str | None) -> str | None:
    """The id in a cursor. Raises Invalid for one that was never given out."""
    if cursor is None:
        return None
    try:
        name = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        return given_name(name)
    except (ValueError, binascii.Error, UnicodeError, CauselineError):
        raise Invalid("after: this is no cursor of ours; take it from `next` of the page before", findings=["after"]) from None


def page(rows: Sequence[Any], limit: int, to_plain: Any) -> dict[str, Any]:
    """A page of `limit` rows out of up to one more, which only says that there are more."""
    shown = rows[:limit]
    plain = [to_plain(row) for row in shown]
    return {"data": plain, "next": cursor_of(plain[-1]["id"]) if len(rows) > limit else None}
