"""What a model is shown: the system prompt, recalled text, the history; built for the call and never stored."""

import asyncio

from causeline import ToolResult, tool
from causeline.run.scope import Recalled
from causeline.runtime.run_recall import LogRecall
from tests.agent.stage import Moving, Turns, calls, stage


@tool(effects=False, max_chars=300)
async def read(size: int) -> str:
    """Reads."""
    return "x" * size


@tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    return f"saw {n}"


async def test_the_system_prompt_is_in_every_request_of_every_turn_and_in_no_message():
    async with stage(Turns([calls(("look", {"n": 1})), {"text": "one"}], [{"text": "two"}]), [look], system="Be good.") as s:
        await s.run("go")
        await s.run("again")
        said = await s.said()
    assert [request.system for request in s.model.requests] == ["Be good."] * 3
    assert {role for role, _ in said} == {"user", "assistant", "tool"}
    assert {one.role for one in s.model.last.messages} == {"user", "assistant", "tool"}


async def test_variables_are_filled_in_at_the_start_of_the_run_and_stay():
    system = "{{ agent.name }} {{ session.id }} {{ run.id }} {{ now }} {{ date }} [{{ tools }}] {{ context.who }}{{ context.none }}"
    async with stage(
        [calls(("look", {"n": 1})), {"text": "one"}], [look], name="bob", system=system, remember=False, clock=Moving(jump=90.0)
    ) as s:
        await s.run("go", run_id="r1", context={"who": "Ann"})
        (node,) = await s.nodes("system")
        (run,) = await s.runtime.runs("s")
    assert node.payload == f"bob s r1 {run.started_at} {str(run.started_at)[:10]} [look: Looks.] Ann"
    assert [request.system for request in s.model.requests] == [node.payload] * 2


async def test_a_run_knows_the_session_s_context_in_its_prompt_whoever_put_it_there():
    @tool
    async def rename(name: str) -> ToolResult:
        """Renames."""
        return ToolResult("ok", context_patch={"who": name})

    script = Turns([calls(("rename", {"name": "Bea"})), {"text": "one"}], [{"text": "two"}])
    async with stage(script, [rename], system="You help {{ context.who }}.") as s:
        await s.run("go", context={"who": "Ann"})
        await s.run("again")
    assert [request.system for request in s.model.requests] == ["You help Ann."] * 2 + ["You help Bea."]


async def test_what_a_user_a_tool_or_a_skill_says_is_never_a_template(tmp_path):
    (tmp_path / "braces.md").write_text("---\nname: braces\ndescription: Uses braces.\n---\nWrite {{ name }} and {{ now }} as they are.\n")

    @tool(effects=False)
    async def brace() -> str:
        """Braces {{ now }}."""
        return "{{ now }}"

    async with stage(
        [calls(("brace", {})), {"text": "ok"}], [brace], system="Be {{ agent.name }}.", skills=[tmp_path / "braces.md"], name="good"
    ) as s:
        await s.run("Say {{ now }} and {{ nothing }}.")
    assert s.model.last.messages[0].text == "Say {{ now }} and {{ nothing }}."
    assert s.model.last.messages[-1].text == "{{ now }}"
    assert s.model.last.system.startswith("Be good.\n\n")
    assert "Write {{ name }} and {{ now }} as they are." in s.model.last.system


async def test_recalled_text_is_data_of_its_own_and_part_of_what_the_reply_read():
    script = Turns([{"text": "The cat is grey."}], [calls(("look", {"n": 1})), {"text": "grey"}], [{"text": "three"}])
    async with stage(script, [look], system="Be good.", recall={"runs": "session", "k": 2, "max_tokens": 200}) as s:
        await s.run("What colour is the cat?", run_id="r1")
        ran = await s.run("And the cat's colour again?", run_id="r2")
        log = await s.log()
        await s.run("Something else", run_id="r3")
        final = await s.log()
    first, second, third, _ = s.model.requests
    assert first.recall is None
    assert "The cat is grey." in second.recall
    assert second.recall == third.recall
    assert all("grey" not in one.text for one in second.messages if one.role == "user")
    assert second.system == "Be good."
    goals = [node for node in final.nodes if node.kind == "goal"]
    recalled = log.head(f"recall:{goals[1].id}")
    assert recalled.parents == (goals[1].id,)
    assert recalled.payload["operation"] == "recall"
    assert {one["run"] for one in recalled.payload["value"]["citations"]} == {"r1"}
    replies = [node for node in log.nodes if node.kind == "inference"][1:]
    assert [recalled.id in node.parents for node in replies] == [True, True]
    assert recalled in log.why(log.nodes[-1].id)
    assert recalled.id not in log.frontier
    assert len(ran.told("memory_recalled")) == 1
    assert len([key for key in final.resources() if key.startswith("recall:")]) == 3


async def test_recall_is_asked_with_the_words_of_a_message_in_parts(monkeypatch):
    asked = []

    async def recall(self, scope, wanted, query):
        asked.append(query)
        return Recalled("")

    monkeypatch.setattr(LogRecall, "recall", recall)
    async with stage([{"text": "x"}], recall={"runs": "session"}) as s:
        await s.run(
            [{"role": "user", "content": [{"type": "text", "text": "the cat"}, {"type": "image_url", "image_url": {"url": "data:,"}}]}]
        )
    assert asked == ["the cat"]


async def test_the_bounded_view_has_what_was_recalled_too():
    async with stage(Turns([{"text": "The cat is grey."}], [{"text": "two"}]), recall={"runs": "session"}, context_mode="causal") as s:
        await s.run("What colour is the cat?")
        await s.run("And the cat's colour again?")
        log = await s.log()
    goal = [node for node in log.nodes if node.kind == "goal"][1]
    inference = [node for node in log.nodes if node.kind == "inference"][1]
    assert log.head(f"recall:{goal.id}").id in inference.parents
    assert sum("The cat is grey." in one.text and "recalled from earlier runs" in one.text for one in s.model.last.messages) == 1


async def test_a_long_result_is_cut_for_the_model_only_and_the_cut_names_the_node():
    async with stage([calls(("read", {"size": 5_000})), {"text": "ok"}], [read]) as s:
        await s.run("go")
        (node,) = await s.nodes("tool_result")
        assert (await s.said())[2] == ("tool", "x" * 5_000)
    shown = s.model.last.messages[-1].text
    assert node.payload["result"] == "x" * 5_000
    assert len(shown) == 300
    assert node.id in shown
    assert "5000" in shown


async def test_a_result_of_five_megabytes_is_kept_whole_and_shown_cut():
    @tool(effects=False)
    async def dump() -> list:
        """Dumps."""
        return ["y" * 1_000_000] * 5

    async with stage([calls(("dump", {})), {"text": "ok"}], [dump]) as s:
        ran = await s.run("go")
        (node,) = await s.nodes("tool_result")
    assert ran.status == "succeeded"
    assert node.payload["result"] == ["y" * 1_000_000] * 5
    assert len(s.model.last.messages[-1].text) == 50_000
    assert len(ran.told("tool_call_result")[0]["content"]) == 5_000_016


async def test_a_structured_result_is_shown_as_json():
    @tool(effects=False)
    async def both() -> dict:
        """Gives."""
        return {"b": None, "a": [True, 1.0]}

    async with stage([calls(("both", {})), {"text": "ok"}], [both]) as s:
        await s.run("go")
    assert s.model.last.messages[-1].text == '{"a":[true,1],"b":null}'


async def test_the_bounded_view_holds_prompt_and_question_and_its_ids_are_the_reply_s_causes():
    script = [*[calls(("look", {"n": place}, f"c{place}")) for place in range(30)], {"text": "done"}]
    async with stage(script, [look], system="Be good.", context_mode="causal", context_tokens=600) as s:
        ran = await s.run("What do you see?")
        log = await s.log()
    assert ran.answer == "done"
    last = s.model.last
    assert last.system is None
    assert last.messages[0].role == "system"
    assert last.messages[0].text == "Be good."
    assert any(one.role == "user" and one.text == "What do you see?" for one in last.messages)
    assert sum(len(one.text) for one in last.messages) < 600 * 4
    reply = [node for node in log.nodes if node.kind == "inference"][-1]
    assert len(reply.parents) < 60
    assert log.nodes[0].id in reply.parents
    assert log.nodes[1].id in reply.parents


async def test_nothing_of_a_request_is_stored():
    async with stage([calls(("read", {"size": 5_000})), {"text": "ok"}], [read], system="Be good.", recall={"runs": "session"}) as s:
        await s.run("go")
        said = await s.runtime.messages("s")
    assert [one.role for one in said] == ["user", "assistant", "tool", "assistant"]


async def test_the_history_is_paired_after_a_run_that_was_stopped_among_its_tools():
    started = asyncio.Event()

    @tool(effects=False)
    async def hang() -> str:
        """Hangs."""
        started.set()
        await asyncio.sleep(30)
        return "late"

    script = Turns([calls(("look", {"n": 1}, "a"), ("hang", {}, "b"), ("look", {"n": 3}, "c"))], [{"text": "fine"}])
    async with stage(script, [look, hang], tool_concurrency=1) as s:
        run = await s.runtime.start(s.agent, "go", session="s")
        await started.wait()
        await run.cancel()
        assert (await run.result()).status == "cancelled"
        ran = await s.run("next question")
        shown = [(one.role, one.tool_call_id, one.text) for one in s.model.last.messages]
        rows = {row.call.call_id: row.call.state for row in await s.runtime.calls(ran.run_id)}
    assert ran.answer == "fine"
    assert shown[2] == ("tool", "a", "saw 1")
    assert {one[1] for one in shown[3:5]} == {"b", "c"}
    assert all("Not executed" in one[2] for one in shown[3:5])
    assert rows == {"a": "succeeded", "b": "superseded", "c": "superseded"}
