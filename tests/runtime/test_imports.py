"""What an import takes in: rows that only a digest covers have the form of rows that a run here has written."""

import hashlib
import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import pytest

import causeline
from causeline.causal import AgentState, Append, VerifyError, build_export, canonical, checkpoint_id, verify_export
from causeline.errors import Invalid
from causeline.graph import Graph, Outcome, node
from causeline.models import ScriptedModel
from causeline.runtime import GraphProgram


@causeline.tool(effects=False)
def look(word: str) -> str:
    """Look a word up."""
    return word


async def exported() -> bytes:
    calls = [{"id": "a", "name": "look", "arguments": {"word": "x"}}]
    agent = causeline.Agent(ScriptedModel([{"calls": calls}, {"text": "done"}]), tools=[look])
    async with causeline.open("memory://") as runtime:
        await (await runtime.start(agent, "go", session="s", run_id="r")).result()
        return await runtime.export("s")


def forged(data: bytes, changes: Sequence[tuple[Sequence[Any], Any]]) -> bytes:
    """The file with other values in places, and a digest made afresh."""
    bundle = json.loads(data)
    for place, value in changes:
        row = bundle
        for key in place[:-1]:
            row = row[key]
        row[place[-1]] = value
    del bundle["digest"]
    bundle["digest"] = hashlib.sha256(canonical(bundle)).hexdigest()
    changed = canonical(bundle)
    verify_export(changed)
    return changed


WRONG: dict[str, Sequence[Any]] = {
    "runs": [
        ("status", "nope"), ("status", ["queued"]), ("agent", []), ("input", "text"), ("input", None), ("input", ["text"]), ("usage", 7),
        ("usage", {"input_tokens": "many"}), ("head", "nope"), ("head", 7), ("base", {}), ("at", "ck_"), ("finished_at", []),
        ("started_at", 5), ("stop_reason", {}), ("manifest", "text"), ("answers", None), ("tools", None), ("tools", ["text"]),
        ("context", 1), ("error", "text"), ("pending_tool_call_ids", "text"), ("parent_run", 3), ("created_at", None),
    ],
    "calls": [
        ("state", "nope"), ("state", None), ("state", []), ("name", None), ("args_hash", 1), ("index", "0"), ("attempts", 2**70),
        ("client", None), ("ok", "yes"), ("reason", 1), ("reported", []),
    ],
    "facts": [("usage", 7), ("usage", {"input_tokens": []}), ("ms", "long"), ("model", 1), ("pauses", 1), ("attempt", "2")],
}  # fmt: skip


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
async def test_a_row_that_no_run_can_have_written_is_refused_by_name_and_nothing_is_stored(url: str, tmp_path):
    data = await exported()
    async with causeline.open(f"sqlite:///{tmp_path}/store.db" if url == "sqlite" else url) as runtime:
        for kind, faults in WRONG.items():
            for field, value in faults:
                with pytest.raises(VerifyError, match=field) as refused:
                    await runtime.import_(forged(data, [((kind, 0, field), value)]))
                assert refused.value.index == 0
        assert await runtime.sessions() == []
        assert await runtime.runs() == []
        assert await runtime.import_(data) == "s"
        assert await runtime.export("s") == data


async def test_an_imported_session_has_a_name_that_a_session_may_have():
    data = await exported()
    rows = len(json.loads(data)["checkpoints"])
    places = [("session",), ("runs", 0, "session"), *(("checkpoints", index, "session") for index in range(rows))]
    async with causeline.open("memory://") as runtime:
        for name in ("../../x", "", "a\x00b", "x" * 129):
            with pytest.raises(VerifyError, match="session id"):
                await runtime.import_(forged(data, [(place, name) for place in places]))
        with pytest.raises(VerifyError, match="another session"):
            await runtime.import_(forged(data, [(("runs", 0, "session"), "t")]))
        assert await runtime.sessions() == []


class Names(StrEnum):
    ONE = "one"


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
async def test_names_are_texts_whatever_sort_of_text_they_were_given_as(url: str, tmp_path):
    agent = causeline.Agent(ScriptedModel([{"text": "done"}]))
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    async with causeline.open(f"sqlite:///{tmp_path}/store.db" if url == "sqlite" else url) as runtime:
        result = await (await runtime.start(agent, "go", session=Names.ONE, run_id=Names.ONE)).result()
        assert (result.status, type(result.session), type(result.run_id)) == ("succeeded", str, str)
        for wrong in (deep, 2**20_000, 7, b"x", ["x"]):
            for given in ({"session": wrong}, {"run_id": wrong}):
                with pytest.raises(Invalid, match="is of type"):
                    await runtime.start(agent, "go", **given)


MISSHAPEN: Sequence[tuple[str, Any]] = [
    ("goal", 7), ("goal", {"parts": ["text"]}), ("goal", {"text": None}), ("inference", "text"), ("inference", {"text": "x"}),
    ("inference", {"text": "x", "calls": [{"id": 1, "name": "f", "arguments": {}}]}), ("tool_call", {"x": 1}), ("tool_call", []),
    ("tool_call", {"call_id": [], "name": "f", "args": 1}), ("tool_result", {"call_id": "a"}), ("semantic", "x"), ("protocol_error", "x"),
    ("tool_result", {"call_id": "a", "tool": "f", "result": 1, "ok": "yes"}), ("protocol_error", {"code": "c", "detail": 5}),
    ("verification", []), ("resource", None), ("resource", {"operation": "recall", "succeeded": True, "value": "text"}),
]  # fmt: skip
WELL_SHAPED: Sequence[tuple[str, Any]] = [
    ("goal", "plain"), ("goal", {"parts": [{"type": "image"}]}), ("inference", {"text": "", "calls": [], "more": 1}), ("answer", None),
    ("system", 7), ("verification", {"method": "test"}), ("semantic", {"type": "t", "key": "k", "content": None}), ("resource", {"n": 1}),
    ("tool_call", {"call_id": "a", "name": "f", "args": "raw"}),
    ("tool_result", {"call_id": "a", "tool": "f", "result": None, "ok": False}),
    ("protocol_error", {"code": "c"}), ("resource", {"operation": "recall", "succeeded": False}),
]  # fmt: skip


def writing(kind: str, payload: Any) -> GraphProgram:
    """A graph of one node that adds one entry to the log."""

    @node("urn:test:write", ("done",))
    def write(ctx):
        return Outcome("done", {"log": [Append(kind, payload, resource_key="recall:x" if kind == "resource" else None)]})

    document = Graph("urn:test:dag:write").node("write", write.iri, {"done": "end"}).terminal("end").entry("main", "write").build()
    return GraphProgram(document, (write,))


async def test_a_node_of_ones_own_that_writes_a_misshapen_entry_fails_and_the_session_stays_readable():
    agent = causeline.Agent(ScriptedModel([{"text": "done"}]), context_mode="causal")
    async with causeline.open("memory://") as runtime:
        for kind, payload in MISSHAPEN:
            ran = await (await runtime.start(writing(kind, payload), session="s")).result()
            assert ran.error is not None
            assert (ran.status, ran.error["code"]) == ("failed", "invalid_payload")
            assert kind in ran.error["message"]
        for index, (kind, payload) in enumerate(WELL_SHAPED):
            session = f"s{index}"
            ran = await (await runtime.start(writing(kind, payload), session=session)).result()
            assert (ran.status, ran.error) == ("succeeded", None), kind
            assert (await (await runtime.start(agent, "hi", session=session)).result()).status == "succeeded"
            assert [one.content for one in await runtime.messages(session)][-1] == "done"
            await runtime.recall(session, "hi")
        assert [one.id for one in await runtime.sessions() if one.head is not None] == [f"s{index}" for index in range(len(WELL_SHAPED))]


async def test_an_import_with_a_misshapen_entry_is_refused_by_the_id_of_that_entry():
    at = "2026-01-01T00:00:00.000Z"
    run = json.loads(await exported())["runs"][0]
    async with causeline.open("memory://") as runtime:
        for kind, payload in (*MISSHAPEN, *WELL_SHAPED):
            state = AgentState()
            entry = state.append(kind, payload, created_at=at)
            ids: dict[str, Any] = {"parent": None, "run": "r", "path": [], "node": "n", "port": "done", "next": None,
                                   "appended": [entry.id], "frontier": [entry.id], "delta": {}, "position": None}  # fmt: skip
            head = checkpoint_id(**ids)
            row: Any = {**ids, "id": head, "session": "s", "step": 0, "created_at": at}
            data = build_export(session="s", owner="o", head=head, nodes=state.nodes, checkpoints=[row], runs=[run], calls=[], facts=[])
            if (kind, payload) in WELL_SHAPED:
                await runtime.import_(data)
                await runtime.messages("s")
                await runtime.delete("s")
                continue
            with pytest.raises(VerifyError, match=kind) as refused:
                await runtime.import_(data)
            assert refused.value.node_id == entry.id
        assert await runtime.sessions() == []


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
async def test_a_session_goes_on_from_a_bare_log(url: str, tmp_path):
    bundle = json.loads(await exported())
    agent = causeline.Agent(ScriptedModel([{"text": "one"}, {"text": "and two"}]))
    async with causeline.open(f"sqlite:///{tmp_path}/store.db" if url == "sqlite" else url) as runtime:
        for log in (bundle["state"], {"version": 1, "nodes": [], "frontier": []}):
            session = await runtime.import_(json.dumps(log).encode())
            before = [one.content for one in await runtime.messages(session)]
            assert before == (["go", "", "x", "done"] if log["nodes"] else [])
            assert (await (await runtime.start(agent, "more", session=session)).result()).status == "succeeded"
            assert [one.content for one in await runtime.messages(session)][len(before) :][0] == "more"
            found = verify_export(await runtime.export(session))
            assert [node.id for node in found.state.nodes][: len(log["nodes"])] == [node["id"] for node in log["nodes"]]
