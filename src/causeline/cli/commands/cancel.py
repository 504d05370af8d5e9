"""`causeline cancel`: stop a run, wherever it runs."""

from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, RunName, Store, store_words
from causeline.cli.views.clean_text import line
from causeline.cli.views.run_end import as_json as result_as_json
from causeline.cli.views.run_end import told
from causeline.cli.views.terminal import Terminal
from causeline.cli.whole_ids import whole_run
from causeline.errors import Conflict
from causeline.runtime.runtime import Runtime


def command(run: RunName, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Ask a run to stop, and wait until it has. What it had finished is kept. A run that has ended is left alone."""

    async def cancel() -> None:
        async with opened(store) as runtime:
            name = await whole_run(runtime, run)
            await runtime.cancel(name)
            await _end(runtime, name)
            result = await runtime.result(name)
            if as_json:
                print(line(result_as_json(result)))
            else:
                Terminal().pieces(told(result, said="", further=store_words(store)))

    leave(cancel())


async def _end(runtime: Runtime, run: str) -> None:
    """Where nobody is left who could hear of it, take the run over: it then ends at once."""
    if (await runtime.run(run)).status == "running":
        try:
            await runtime.resume(run)
        except Conflict:
            return  # its process is alive and has been told
