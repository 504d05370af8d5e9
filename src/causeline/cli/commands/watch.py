"""`causeline watch`: follow a run that somebody else drives."""

from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, EventsAsJson, RunName, Store
from causeline.cli.views.follow import follow, view
from causeline.cli.whole_ids import whole_run
from causeline.runtime.handle import RunHandle


def command(run: RunName, store: Store = DEFAULT_STORE, as_json: EventsAsJson = False) -> None:
    """Follow a run, wherever it is driven, from its first event to its end.

    Watching changes nothing: Ctrl-C stops the watching and leaves the run alone. Ends with the run's own exit code.
    """
    shown = view(store, as_json=as_json)

    async def watch() -> int:
        async with opened(store) as runtime:
            row = await runtime.run(await whole_run(runtime, run))
            return (await follow(runtime, RunHandle(runtime, row.id, row.session), shown, cancels=False)).code

    leave(watch(), aside=as_json)
