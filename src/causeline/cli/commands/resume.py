"""`causeline resume`: go on with a run whose process died."""

from causeline.cli.opening import agent_from, agent_words, leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, EventsAsJson, OtherAgent, RunName, Store
from causeline.cli.views.error_report import QUESTIONS
from causeline.cli.views.follow import View, follow, view
from causeline.cli.views.open_questions import standing
from causeline.cli.views.terminal import Terminal
from causeline.cli.whole_ids import whole_run
from causeline.runtime.handle import RunResult
from causeline.runtime.records import ACTIVE
from causeline.runtime.runtime import Runtime


def command(run: RunName, agent: OtherAgent = None, store: Store = DEFAULT_STORE, as_json: EventsAsJson = False) -> None:
    """Go on with a run whose process is gone.

    It goes on exactly where it was. Calls that had finished are not made again. A run that is alive is left alone (exit code 1). Of
    a run that has ended the end is printed, and if it waits for answers, how to give them.
    """

    async def resume() -> int:
        given = agent_from(agent, store) if agent is not None else None
        shown = view(store, agent_words(agent, given), as_json=as_json)
        async with opened(store, *([given] if given else [])) as runtime:
            name = await whole_run(runtime, run)
            ended = (await runtime.run(name)).status not in ACTIVE
            seen = await skipped(runtime, name, shown)
            handle = await runtime.resume(name, agent=given)
            found = await follow(runtime, handle, shown, after=seen - 1 if ended and seen else seen)
            if ended:
                if not as_json:
                    await _tell_standing(runtime, found.result)
                return QUESTIONS if found.result.interrupts else 0
            return found.code

    leave(resume(), aside=as_json)


async def _tell_standing(runtime: Runtime, result: RunResult) -> None:
    """Why a run that stopped for questions has none to answer."""
    if result.status == "interrupted":
        found = (await standing(runtime, await runtime.runs(result.session), result.session))[result.run_id]
        if not found.open:
            further = f"; `causeline resume {found.answered_by}` shows how that ended" if found.answered_by else ""
            Terminal().say(f"This run has ended. Its questions were {found}{further}.", "quiet")


async def skipped(runtime: Runtime, run: str, shown: View) -> int:
    """Let the view skip the events there are; returns the number of the last one."""
    last = 0
    for event in await runtime.stored_events(run):
        shown.skip(event)
        last = event["seq"]
    return last
