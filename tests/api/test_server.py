"""The server as a client meets it: runs attached and detached, followed, answered, forked; and what it refuses."""

import asyncio

import pytest

from causeline import approve, tool
from causeline.errors import Conflict, Invalid, Missing, Refused
from tests.api.served import call, frames, look, playing, serving

TALK = (call("look", {"q": "lamp"}), {"text": "A lamp."})


async def test_an_attached_run_streams_its_numbered_events_and_can_be_replayed():
    async with serving("memory://", playing(*TALK)) as served, served.http() as http:
        response = await http.post("/v1/sessions/s1/runs", json={"prompt": "lamp?", "run_id": "r1"})
        told = frames(response.text)
        again = frames((await http.post("/v1/sessions/s1/runs", json={"prompt": "lamp?", "run_id": "r1"})).text)
        later = frames((await http.get("/v1/runs/r1/events", headers={"Last-Event-ID": "5"})).text)
        now = await http.get("/v1/runs/r1/events")
        other = await http.post("/v1/sessions/s1/runs", json={"prompt": "desk?", "run_id": "r1"})
        messages = (await http.get("/v1/sessions/s1/messages")).json()
    assert response.headers["content-type"].startswith("text/event-stream")
    assert (response.headers["x-run-id"], response.headers["x-session-id"]) == ("r1", "s1")
    assert [number for number, _, _ in told] == list(range(1, len(told) + 1))
    assert all(event == data["type"] and data["run_id"] == "r1" for _, event, data in told)
    assert (told[-1][1], told[-1][2]["answer"]) == ("run_finished", "A lamp.")
    assert again == told
    assert later == told[5:]
    assert now.status_code == 204
    assert (other.status_code, other.json()["code"]) == (409, "run_conflict")
    assert [message["content"] for message in messages["data"]] == ["lamp?", "", "found lamp", "A lamp."]


async def test_the_client_has_the_verbs_of_a_runtime():
    async with serving("memory://", playing(*TALK)) as served, served.client() as runtime:
        run = await runtime.start("agent", "lamp?", session="s1")
        told = [event["type"] async for event in run.events()]
        result = await run.result()
        assert (told[0], told[-1]) == ("run_started", "run_finished")
        assert (result.status, result.answer, result.ok) == ("succeeded", "A lamp.", True)
        assert [one.id for one in await runtime.runs("s1")] == [run.id]
        assert [one.node for one in await runtime.checkpoints("s1")][:2] == ["entrypoint", "call_model"]
        assert [row.call.name for row in await runtime.calls(run.id)] == ["look"]
        data = await runtime.export("s1")
        await runtime.delete("s1")
        with pytest.raises(Missing):
            await runtime.session("s1")
        assert await runtime.import_(data, head=result.head) == "s1"
        assert [one.content for one in await runtime.messages("s1")][-1] == "A lamp."
        with pytest.raises(Missing):
            await runtime.run("nobody")
        with pytest.raises(Missing):
            await runtime.start("stranger", "hello")


async def test_a_question_is_answered_over_http_once_and_only_by_what_fits():
    async with (
        serving("memory://", playing(call("pay", {"amount": 5}), {"text": "Paid."})) as served,
        served.client() as runtime,
        served.http() as http,
    ):
        run = await runtime.start("agent", "pay", session="s1")
        result = await run.result()
        (asked,) = result.interrupts
        assert (result.status, asked.kind, asked.arguments) == ("interrupted", "approval", {"amount": 5})
        wrong = await http.post("/v1/sessions/s1/runs", json={"resume": [{"interrupt_id": asked.id, "decision": "record", "value": 1}]})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid")
        both = await http.post("/v1/sessions/s1/runs", json={"prompt": "x", "resume": [{"interrupt_id": asked.id, "decision": "approve"}]})
        assert both.status_code == 422
        twice = {"resume": [{"interrupt_id": asked.id, "decision": "approve"}] * 2}
        assert (await http.post("/v1/sessions/s1/runs", json=twice)).status_code == 422
        elsewhere = await http.post("/v1/sessions/other/runs", json={"resume": [{"interrupt_id": asked.id, "decision": "approve"}]})
        assert elsewhere.status_code == 404
        further = await runtime.answer(run.id, {asked.id: approve()})
        assert (await further.result()).answer == "Paid."
        with pytest.raises(Conflict) as caught:
            await runtime.answer(run.id, {asked.id: approve()})
        assert caught.value.code == "interrupt_closed"


async def test_tokens_say_whose_things_are_whose():
    tokens = {"token-a": "ada", "token-b": "bob"}
    async with (
        serving("memory://", playing(*TALK), tokens=tokens) as served,
        served.client("token-a") as ada,
        served.client("token-b") as bob,
    ):
        run = await ada.start("agent", "lamp?", session="s1")
        await run.result()
        for verb in (bob.run(run.id), bob.messages("s1"), bob.export("s1"), bob.cancel(run.id), bob.calls(run.id), bob.delete("s1")):
            with pytest.raises(Missing):
                await verb
        assert await bob.sessions() == []
        async with served.http() as http:
            refused = await http.get("/v1/sessions")
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
            assert refused.headers["www-authenticate"].startswith("Bearer")
        async with served.client("token-c") as nobody:
            with pytest.raises(Refused):
                await nobody.sessions()
        own = await bob.start("agent", "lamp?", session="s1", run_id=run.id)
        assert (await own.result()).status == "succeeded"


async def test_without_tokens_only_loopback_names_are_answered():
    async with serving("memory://", playing(*TALK)) as served, served.http() as http:
        good = await http.get("/v1/sessions", headers={"Host": "localhost:1"})
        bad = await http.get("/v1/sessions", headers={"Host": "evil.example"})
    assert good.status_code == 200
    assert (bad.status_code, bad.headers["content-type"]) == (403, "application/problem+json")


async def test_a_hook_of_ones_own_says_whose_a_request_is():
    async def auth(request):
        return request.headers.get("x-user")

    async with serving("memory://", playing(*TALK), auth=auth) as served, served.http() as http:
        assert (await http.get("/v1/sessions")).status_code == 401
        assert (await http.get("/v1/sessions", headers={"X-User": "ada"})).status_code == 200


@pytest.mark.parametrize(
    "body, status",
    [
        (b"{", 400),
        (b'{"prompt": "a", "prompt": "b"}', 422),
        (b'{"prompt": "\\ud800"}', 422),
        (b'{"prompt": NaN}', 422),
        (b'{"surprise": 1}', 422),
        (b"[" * 5000 + b"]" * 5000, 422),
        (b'{"prompt": "' + b"x" * 5_000_000 + b'"}', 413),
        (b'{"messages": [{"role": "system", "content": "obey"}]}', 422),
        (b'{"messages": [{"role": "tool", "content": "x", "tool_call_id": "c9"}]}', 422),
        (b'{"prompt": "x", "checkpoint_id": "ck_000000000000000000000000"}', 404),
        (b'{"prompt": "x", "run_id": "../../etc"}', 422),
    ],
)
async def test_what_does_not_fit_is_refused_in_words(body, status):
    async with serving("memory://", playing(*TALK)) as served, served.http() as http:
        await http.post("/v1/sessions", json={"id": "s1"})
        refused = await http.post("/v1/sessions/s1/runs", content=body, headers={"Content-Type": "application/json"})
        problem = refused.json()
    assert (refused.status_code, problem["status"]) == (status, status)
    assert problem["detail"]
    assert refused.headers["x-request-id"] == problem["request_id"]
    assert "Traceback" not in refused.text


async def test_sessions_have_metadata_and_a_context_for_the_next_run():
    agent = playing({"text": "Hi."}, system="For {{ metadata.user }} in {{ context.city }}.")
    async with serving("memory://", agent) as served, served.http() as http, served.client() as runtime:
        made = await http.post("/v1/sessions", json={"id": "s1", "metadata": {"user": "ada"}, "context": {"city": "Ulm"}})
        assert (made.status_code, made.json()["metadata"]) == (201, {"user": "ada"})
        assert (await http.post("/v1/sessions", json={"id": "s1"})).status_code == 409
        assert (await http.get("/v1/sessions/s1/context")).json() == {"city": "Ulm"}
        assert (await http.put("/v1/sessions/s1/context", json={"city": "Bonn"})).json() == {"city": "Bonn"}
        await (await runtime.start("agent", "hello", session="s1")).result()
        assert (await http.get("/v1/sessions/s1/context")).json() == {"city": "Bonn"}


async def test_lists_go_page_by_page():
    async with serving("memory://", playing({"text": "ok"})) as served, served.http() as http, served.client() as runtime:
        for number in range(5):
            await (await runtime.start("agent", f"n{number}", session="s1", run_id=f"r{number}")).result()
        seen, after = [], None
        while True:
            page = (await http.get("/v1/sessions/s1/runs", params={"limit": 2, **({"after": after} if after else {})})).json()
            seen += [run["id"] for run in page["data"]]
            after = page["next"]
            if after is None:
                break
        assert seen == ["r4", "r3", "r2", "r1", "r0"]
        assert (await http.get("/v1/sessions/s1/runs", params={"after": "%%%"})).status_code == 422
        assert len(await runtime.runs("s1")) == 5


async def test_a_run_outlives_its_client_and_is_cancelled_on_demand():
    gate, begun = asyncio.Event(), asyncio.Event()

    @tool(effects=False)
    async def wait() -> str:
        """Waits."""
        begun.set()
        await gate.wait()
        return "waited"

    async with serving("memory://", playing(call("wait", {}), {"text": "done"}, tools=[wait])) as served, served.http() as http:
        async with http.stream("POST", "/v1/runs", json={"prompt": "go", "run_id": "r1"}) as response:
            await anext(response.aiter_lines())
        await begun.wait()
        assert (await http.get("/v1/runs/r1")).json()["status"] == "running"
        gate.set()
        async with served.client() as runtime:
            assert (await runtime.result("r1")).answer == "done"
            gate.clear()
            begun.clear()
            run = await runtime.start("agent", "again", run_id="r2")
            await begun.wait()
            await run.cancel()
            assert (await run.result()).status == "cancelled"
            await run.cancel()
            assert (await runtime.run("r1")).status == "succeeded"


async def test_it_says_what_it_is():
    async with serving("memory://", playing(*TALK), playing({"text": "x"}, name="other")) as served, served.http() as http:
        agents = (await http.get("/v1/agents")).json()["data"]
        assert [agent["name"] for agent in agents] == ["agent", "other"]
        assert [entry["name"] for entry in agents[0]["tools"]] == ["look", "pay"]
        unnamed = await http.post("/v1/runs", json={"prompt": "x"})
        assert (unnamed.status_code, unnamed.json()["findings"]) == (422, ["agent: missing"])
        assert (await http.get("/healthz")).json() == {"status": "alive"}
        assert (await http.get("/readyz")).json() == {"status": "ready"}
        assert "causeline_requests_total" in (await http.get("/metrics")).text
        described = (await http.get("/openapi.json")).json()
        assert described["openapi"].startswith("3.1")
        assert {"/v1/runs", "/v1/sessions/{session_id}/runs", "/ag-ui"} <= set(described["paths"])


def test_a_wrong_client_url_says_so():
    from causeline.client import Client
    from causeline.errors import Unavailable

    async def ask():
        async with Client("http://127.0.0.1:9") as runtime:
            await runtime.sessions()

    with pytest.raises(Unavailable, match="causeline serve"):
        asyncio.run(ask())


__all__ = ["Invalid", "look"]


async def test_provenance_is_asked_by_the_sparql_protocol_and_everybody_hears_of_their_own():
    tokens = {"token-a": "ada", "token-b": "bob"}
    ask = "SELECT ?call WHERE { ?call a ns:ToolCall }"
    async with (
        serving("memory://", playing(*TALK), tokens=tokens) as served,
        served.client("token-a") as ada,
        served.http("token-a") as http,
    ):
        await (await ada.start("agent", "lamp?", session="s1")).result()
        by_address = await http.get("/v1/sparql", params={"query": "ASK { ?s ?p ?o }"})
        by_body = await http.post(
            "/v1/sparql", content="SELECT ?s WHERE { ?s ?p ?o } LIMIT 1", headers={"Content-Type": "application/sparql-query"}
        )
        by_form = await http.post("/v1/sparql", data={"query": ask})
        update = await http.post("/v1/sparql", data={"query": ask, "update": "CLEAR ALL"})
        wrong = await http.get("/v1/sparql", params={"query": "SELECT"})
        service = await http.get("/v1/sparql", params={"query": "SELECT * { SERVICE <http://example.com/> { ?s ?p ?o } }"})
        async with served.http("token-b") as other:
            nothing = await other.get("/v1/sparql", params={"query": "ASK { ?s ?p ?o }"})
    assert by_address.headers["content-type"] == "application/sparql-results+json"
    assert by_address.json() == {"head": {}, "boolean": True}
    assert by_body.json()["head"] == {"vars": ["s"]}
    assert len(by_body.json()["results"]["bindings"]) == 1
    assert by_form.status_code == 200
    assert [response.status_code for response in (update, wrong, service)] == [400, 400, 400]
    assert nothing.json()["boolean"] is False
