"""Make store-v1.db and export-v1.json: a store of the first format with everything in it, and one of its sessions as a file.

Run it only when the first format itself was wrong: these files stand for what users have on disk.
    python -m tests.golden.make_store
"""

import asyncio
import contextlib
from pathlib import Path

import causeline
from causeline import approve
from causeline.adapters.stores.sql.sqlite_store import SqliteStore
from causeline.graph import Graph, Outcome, node
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime import GraphProgram
from causeline.runtime.records import Progress
from causeline.runtime.runtime import Runtime
from causeline.tools.human import ask_human

HERE = Path(__file__).parent
STORE = HERE / "store-v1.db"
EXPORT = HERE / "export-v1.json"
PICK = {"name": "pick", "description": "Picks.", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
ITEMS = ["a", "b", "c", "d"]


@causeline.tool
async def write(n: int) -> str:
    """Writes."""
    return f"wrote {n}"


@causeline.tool(approval="ask")
async def pay(n: int) -> causeline.ToolResult:
    """Pays."""
    return causeline.ToolResult(value=f"paid {n}", context_patch={"paid": n}, verification={"method": "receipt"})


def call(name: str, call_id: str, **arguments: object) -> dict[str, object]:
    return {"id": call_id, "name": name, "arguments": arguments}


def agent(name: str) -> causeline.Agent:
    """The agents of the store, by name."""
    scripts = {
        "plain": [
            {"text": "let me see", "calls": [call("write", "p1", n=1), call("write", "p2", n=2)]},
            {"text": "all \u00e4\u0000 \U0001f600 done"},
        ],
        "gated": [
            {
                "calls": [
                    call("pay", "g1", n=1),
                    call("write", "g2", n=2),
                    call("ask_human", "g3", question="which?"),
                    call("pay", "g4", n=4),
                ]
            },
            {"text": "paid up"},
        ],
        "client": [{"calls": [call("pick", "k1", n=1), call("write", "k2", n=2), call("pick", "k3", n=3)]}, {"text": "picked"}],
    }
    return causeline.Agent(ScriptedModel(scripts[name]), name=name, tools=[write, pay, ask_human], system="You are {{ agent.name }}.")


def graph(*, breaks: bool = False) -> GraphProgram:
    """A scatter that, broken off, leaves finished items as progress."""

    @node("urn:golden:fill", ("done",))
    def fill(ctx: object) -> Outcome:
        return Outcome("done", {"items": ITEMS})

    @node("urn:golden:item", ("success",))
    async def item(ctx: object) -> Outcome:
        if breaks and ctx.item == "c":  # type: ignore[attr-defined]
            await asyncio.Event().wait()
        return Outcome("success", {"did": f"did {ctx.item}"})  # type: ignore[attr-defined]

    document = (
        Graph("urn:golden:dag:scatter")
        .node("fill", fill.iri, {"done": "each"})
        .scatter(
            "each",
            "items",
            {"all-success": "join", "partial": "join", "all-error": "join", "empty": "join"},
            node=item.iri,
            reducer="aggregate",
        )
        .gather("join", ["each"], "map", mapping={"did": "all"}, outputs={"success": "end", "error": "end", "empty": "end"})
        .terminal("end")
        .entry("main", "fill")
        .build()
    )
    return GraphProgram(document, (fill, item), name="scatter")


async def make(path: Path) -> bytes:
    """Fill a store, and return the export of its forked session."""
    async with Runtime(SqliteStore(path), programs=[agent("plain"), agent("gated"), agent("client")]) as runtime:
        await ended(runtime, "plain", "one", session="forked", run_id="f1", context={"who": "Ada"})
        await ended(runtime, "plain", "two", session="forked", run_id="f2")
        first = next(one for one in await runtime.checkpoints("forked", "f1") if one.node == "call_tools")
        await ended(runtime, "plain", "another way", session="forked", run_id="f3", at=first.id)
        paused = await ended(runtime, "gated", "pay", session="gated", run_id="g1")
        asked = next(one for one in paused.interrupts if one.tool_call_id == "g1")
        await (await runtime.answer("g1", {asked.id: approve()}, new_run_id="g2")).result()
        await ended(runtime, "client", "pick", session="client", run_id="k1", tools=[PICK])
        exported = await runtime.export("forked", all=True)
    async with Runtime(SqliteStore(path), owner="other", programs=[agent("plain")]) as runtime:
        await ended(runtime, "plain", "not yours", session="forked", run_id="f1")
    await break_off(path)
    return exported


async def break_off(path: Path) -> None:
    """A run that was handed back in the middle of a scatter."""
    program = graph(breaks=True)
    async with Runtime(SqliteStore(path), programs=[program]) as runtime:
        await runtime.start(program, session="scatter", run_id="s1")
        while len(await runtime.store.rows(Progress, owner="default", run="s1")) < 2:  # noqa: ASYNC110 - a store row is no event
            await asyncio.sleep(0.01)


async def ended(runtime: Runtime, name: str, prompt: str, **more: object) -> causeline.RunResult:
    return await (await runtime.start(name, prompt, **more)).result()  # type: ignore[arg-type]


def main() -> None:
    for old in (STORE, STORE.with_suffix(".db-wal"), STORE.with_suffix(".db-shm")):
        with contextlib.suppress(FileNotFoundError):
            old.unlink()
    EXPORT.write_bytes(asyncio.run(make(STORE)))


if __name__ == "__main__":
    main()
