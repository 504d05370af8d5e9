"""`causeline sessions`: what is in the store."""

from dataclasses import asdict

from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store
from causeline.cli.views.clean_text import line
from causeline.cli.views.terminal import Terminal, table
from causeline.cli.views.trace import asked, when
from causeline.runtime.records import Run


def command(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """List the sessions, newest last."""

    async def sessions() -> None:
        async with opened(store) as runtime:
            found = await runtime.sessions()
            if as_json:
                print(line({"sessions": [asdict(one) for one in found]}))
                return
            runs: dict[str, list[Run]] = {}
            for run in await runtime.runs():
                runs.setdefault(run.session, []).append(run)
        rows = [(one.id, when(one.updated_at), str(len(runs[one.id])), runs[one.id][-1].status, asked(runs[one.id][0])) for one in found]
        for row in table([("SESSION", "UPDATED", "RUNS", "LAST RUN", "FIRST QUESTION"), *rows]) if rows else ["no sessions yet"]:
            Terminal().say(row)

    leave(sessions())
