"""Real processes and real signals: Ctrl-C, SIGTERM, SIGKILL and what can be done afterwards."""

import asyncio
import json
import signal
import time

import causeline
from causeline.runtime.records import Run

SLOW = {"calls": [{"name": "lookup", "arguments": {"term": "x"}}], "delay": 30}
STUBBORN = """
@causeline.tool
async def stubborn() -> str:
    import asyncio
    for _ in range(6):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
    return ""
"""
LOOK = {"calls": [{"name": "lookup", "arguments": {"term": "x"}}]}


def test_ctrl_c_cancels_the_run_keeps_what_finished_and_leaves_with_130(shell, start):
    shell.agent(LOOK, SLOW)
    process = start("run", "hi", "--agent", "agent.toml", "--run-id", "r1", "--session", "s1", "--json")
    process.until('"tool_call_result"')
    process.send(signal.SIGINT)
    code, out, err = process.end()
    assert code == 130
    result = json.loads(out.splitlines()[-1])
    assert (result["status"], result["stop_reason"]) == ("cancelled", "cancelled")
    assert json.loads(out.splitlines()[-2])["type"] == "run_finished"
    assert "Traceback" not in err
    assert [node["kind"] for node in shell("show", "s1", "--json").last["nodes"]][-1] == "tool_result"
    shell.script({"text": "Still here."})
    assert shell.ask("and now?", "--session", "s1")["answer"] == "Still here."


def test_ctrl_c_is_told_in_words_to_a_person(shell, start):
    shell.agent(LOOK, SLOW)
    process = start("run", "hi", "--agent", "agent.toml")
    process.until("result  lookup")
    process.send(signal.SIGINT)
    code, out, err = process.end()
    assert code == 130
    assert "The run was cancelled." in out
    assert "status   cancelled" in out
    assert err == "\ncancelling (Ctrl-C again leaves at once) ...\n"


def test_ctrl_c_does_not_wait_for_a_tool_that_blocks(shell, start):
    shell.agent({"calls": [{"name": "stuck", "arguments": {}}]})
    with (shell.folder / "tools.py").open("a") as tools:
        tools.write("\n@causeline.tool\ndef stuck() -> str:\n    import time\n    time.sleep(600)\n    return ''\n")
    with (shell.folder / "agent.toml").open("a") as agent:
        agent.write('[[tools]]\npython = "tools:stuck"\n')
    process = start("run", "hi", "--agent", "agent.toml", "--json")
    process.until('"tool_call_end"')
    process.send(signal.SIGINT)
    code, out, _ = process.end()
    assert (code, json.loads(out.splitlines()[-1])["status"]) == (130, "cancelled")


def test_a_second_ctrl_c_leaves_at_once_and_the_run_can_be_resumed(shell, start):
    shell.agent({"calls": [{"name": "stubborn", "arguments": {}}]})
    with (shell.folder / "tools.py").open("a") as tools:
        tools.write(STUBBORN)
    with (shell.folder / "agent.toml").open("a") as agent:
        agent.write('[[tools]]\npython = "tools:stubborn"\n')
    process = start("run", "hi", "--agent", "agent.toml", "--run-id", "r1")
    process.until("call    stubborn")
    process.send(signal.SIGINT)
    assert "cancelling" in process.error_until("cancelling")
    process.send(signal.SIGINT)
    code, _, err = process.end()
    assert (code, err) == (130, "")
    assert shell("runs", "--json").last["runs"][0]["status"] == "running"
    assert shell("cancel", "r1", "--json").last["status"] == "cancelled"


def test_a_killed_run_goes_on_where_it_was_and_comes_to_the_same_head(shell, start):
    shell.agent(LOOK, SLOW, {"text": "Done."})
    words = ("run", "hi", "--agent", "agent.toml", "--run-id", "r1", "--session", "s1", "--json")
    process = start(*words)
    process.until('"tool_call_result"')
    busy = shell("resume", "r1")
    assert busy.code == 1
    assert f"process {process.inner.pid} on " in busy.err
    again = shell("run", "ho", "--agent", "agent.toml", "--session", "s1")
    assert (again.code, "--on-busy" in again.err) == (1, True)
    process.send(signal.SIGKILL)
    assert process.end()[0] == -signal.SIGKILL
    shell.script(LOOK, LOOK, {"text": "Done."})
    ended = shell("resume", "r1", "--json")
    assert (ended.code, ended.last["answer"]) == (0, "Done.")
    assert ended.rows[0]["seq"] > 1
    undisturbed = shell(*words, "--store", "sqlite:///other.db")
    assert undisturbed.last["head"] == ended.last["head"]


def test_a_run_left_by_a_dead_process_can_be_cancelled(shell, start):
    shell.agent(LOOK, SLOW)
    process = start("run", "hi", "--agent", "agent.toml", "--run-id", "r1", "--json")
    process.until('"tool_call_result"')
    process.send(signal.SIGKILL)
    process.end()
    ended = shell("cancel", "r1", "--json")
    assert (ended.code, ended.last["status"]) == (0, "cancelled")


def test_a_run_of_another_process_can_be_cancelled(shell, start):
    shell.agent(LOOK, SLOW)
    process = start("run", "hi", "--agent", "agent.toml", "--run-id", "r1", "--json")
    process.until('"tool_call_result"')
    assert shell("cancel", "r1", "--json").last["status"] == "cancelled"
    code, out, _ = process.end()
    assert (code, json.loads(out.splitlines()[-1])["status"]) == (1, "cancelled")


def worker_session(shell):
    return shell("runs", "--json").last["runs"][0]["session"]


def test_a_worker_names_a_run_it_has_no_agent_for_once_and_hands_back_what_it_drives(shell, start):
    async def queue():
        async with causeline.open("sqlite:///.causeline/store.db") as runtime:
            for name, agent in (("r1", "stranger"), ("r2", "bot")):
                run = Run(
                    id=name,
                    session=f"s-{name}",
                    owner="default",
                    status="queued",
                    agent=agent,
                    input=[{"role": "user", "content": "hi"}],
                    created_at="2026-01-01T00:00:00.000Z",
                )
                await runtime.store.start(run, "enqueue")

    shell.agent(LOOK, SLOW)
    asyncio.run(queue())
    worker = start("worker", "--agent", "agent.toml", "--grace", "0")
    said = [worker.until("run r") for _ in range(2)]
    assert sorted(said) == [
        "taken  run r2 of session s-r2, agent bot: hi\n",
        "waits  run r1 needs the agent stranger: start a worker with --agent FILE\n",
    ]
    worker.send(signal.SIGTERM)
    assert worker.end() == (0, "handing back run r2\ndraining ...\ndone\n", "")
    assert [run["status"] for run in shell("runs", "--json").last["runs"]] == ["queued", "queued"]


def test_a_worker_goes_on_with_what_a_dead_process_left_and_drains_on_sigterm(shell, start):
    shell.agent(LOOK, SLOW, {"text": "Done."})
    process = start("run", "hi", "--agent", "agent.toml", "--run-id", "r1", "--json")
    process.until('"tool_call_result"')
    process.send(signal.SIGKILL)
    process.end()
    shell.script(LOOK, LOOK, {"text": "Done."})
    worker = start("worker")
    worker.until("working on")
    assert worker.until("taken") == "taken  run r1 of session " + worker_session(shell) + ", agent bot: hi\n"
    assert worker.until("ended") == "ended  run r1: succeeded (answered)\n"
    assert shell("run", "hi", "--agent", "agent.toml", "--run-id", "r1", "--json").last["answer"] == "Done."
    worker.send(signal.SIGTERM)
    code, out, err = worker.end()
    assert (code, out, err) == (0, "draining ...\ndone\n", "")


GATED = """
@causeline.tool
async def gated() -> str:
    import asyncio
    from pathlib import Path
    with Path("begun").open("a") as file:
        file.write("x")
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "let through"
"""


def gated_server(shell, start, *, rounds):
    """A server whose agent calls a tool that waits to be let through, so many times; and its address."""
    shell.agent(*[{"calls": [{"name": "gated", "arguments": {}}]}] * rounds, {"text": "Done."})
    with (shell.folder / "tools.py").open("a") as tools:
        tools.write(GATED)
    with (shell.folder / "agent.toml").open("a") as agent:
        agent.write('[[tools]]\npython = "tools:gated"\n')
    server = start("serve", "agent.toml", "--port", "0")
    url = server.until("http://").strip()
    server.until("drains")
    return server, url


def test_a_server_that_is_told_to_stop_lets_calls_finish_and_begins_nothing(shell, start):
    """Also while somebody follows the run, and without waiting until they leave."""
    server, url = gated_server(shell, start, rounds=2)
    follower = start("run", "hi", "--agent", "bot", "--run-id", "r1", "--session", "s1", "--server", url, "--json")
    follower.until('"tool_call_end"')
    wait_for(shell.folder / "begun")
    server.send(signal.SIGTERM)
    server.error_until("stopping: nothing new begins")
    (shell.folder / "go").touch()
    assert server.end() == (0, "", "")
    (run,) = shell("runs", "--json").last["runs"]
    assert run["status"] == "queued"
    assert [node["kind"] for node in shell("show", "s1", "--json").last["nodes"]].count("tool_result") == 1
    assert (shell.folder / "begun").read_text() == "x"
    assert "Done." in shell("resume", "r1", "--agent", "agent.toml").out
    assert (shell.folder / "begun").read_text() == "xx"


def test_a_second_signal_leaves_out_the_rest_of_the_grace(shell, start):
    server, url = gated_server(shell, start, rounds=1)
    start("run", "hi", "--agent", "bot", "--run-id", "r1", "--session", "s1", "--server", url, "--json").until('"tool_call_end"')
    wait_for(shell.folder / "begun")
    server.send(signal.SIGTERM)
    server.error_until("stopping")
    server.send(signal.SIGTERM)
    assert server.end()[0] == 0
    assert shell("runs", "--json").last["runs"][0]["status"] == "queued"


def wait_for(path):
    while not path.exists():
        time.sleep(0.01)


def test_a_reader_that_goes_away_is_no_error_to_shout_about(shell, start):
    shell.agent({"text": "word " * 50_000})
    process = start("run", "hi", "--agent", "agent.toml", "--json")
    process.until("run_started")
    process.inner.stdout.close()
    assert process.inner.wait(30) == 1
    assert "Traceback" not in process.inner.stderr.read()


def test_a_queued_run_waits_for_the_one_before_and_a_cancelling_one_ends_it(shell, start):
    shell.agent(SLOW)
    first = start("run", "one", "--agent", "agent.toml", "--session", "s1", "--json")
    first.until("step_started")
    shell.script({"text": "Second."})
    second = start("run", "two", "--agent", "agent.toml", "--session", "s1", "--on-busy", "enqueue")
    assert "waiting" in second.error_until("waiting")
    third = shell("run", "three", "--agent", "agent.toml", "--session", "s1", "--on-busy", "cancel", "--json")
    assert third.last["answer"] == "Second."
    assert first.end()[0] == second.end()[0] == 1
    assert [run["status"] for run in shell("runs", "s1", "--json").last["runs"]] == ["cancelled", "cancelled", "succeeded"]
