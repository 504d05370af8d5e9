"""`causeline worker --processes`: several processes, one store, one end."""

import asyncio
import signal

import causeline
from causeline.runtime.records import Run


def test_processes_share_the_runs_and_end_together(shell, start):
    shell.agent({"text": "Done."})

    async def queue() -> None:
        async with causeline.open("sqlite:///.causeline/store.db") as runtime:
            for name in ("r1", "r2", "r3"):
                run = Run(
                    id=name, session=f"s-{name}", owner="default", status="queued", agent="bot", created_at="2026-01-01T00:00:00.000Z",
                    input=[{"role": "user", "content": "hi"}],
                )  # fmt: skip
                await runtime.store.start(run, "enqueue")

    asyncio.run(queue())
    workers = start("worker", "--agent", "agent.toml", "--processes", "2")
    told = ""
    while told.count("succeeded") < 3 or told.count("working on") < 2:
        told += workers.until("")
    workers.send(signal.SIGTERM)
    code, out, err = workers.end()
    assert (code, err) == (0, "")
    assert (told + out).count("done\n") == 2
    assert shell("runs").out.count("succeeded") == 3
