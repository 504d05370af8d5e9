"""`causeline resume`: go on with a run whose process died."""

from causeline.cli.faults import QUESTIONS
from causeline.cli.follow import View, follow, view
from causeline.cli.opening import agent_from, leave, opened
from causeline.cli.options import DEFAULT_STORE, EventsAsJson, OtherAgent, RunName, Store
from causeline.runtime.records import ACTIVE
from causeline.runtime.runtime import Runtime


def command(run: RunName, agent: OtherAgent = None, store: Store = DEFAULT_STORE, as_json: EventsAsJson = False) -> None:
    """Go on with a run whose process is gone.

    It goes on exactly where it was. Calls that had finished are not made again. A run that is alive is left alone (exit code 1). Of
    a run that has ended the end is printed.
    """

    async def resume() -> int:
        given = agent_from(agent) if agent is not None else None
        async with opened(store, *([given] if given else [])) as runtime:
            shown = view(store, as_json=as_json)
            ended = (await runtime.run(run)).status not in ACTIVE
            seen = await skipped(runtime, run, shown)
            handle = await runtime.resume(run, agent=given)
            found = await follow(runtime, handle, shown, after=seen - 1 if ended and seen else seen)
            if ended:
                return QUESTIONS if found.result.status == "interrupted" else 0
            return found.code

    leave(resume())


async def skipped(runtime: Runtime, run: str, shown: View) -> int:
    """Let the view skip the events there are; returns the number of the last one."""
    last = 0
    while page := await runtime.store.events(runtime.owner, run, last):
        for event in page:
            shown.skip(event)
        last = page[-1]["seq"]
    return last
