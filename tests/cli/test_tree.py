"""A session as a tree, and the line that moves while a run is at work."""

from causeline.cli.views.activity import Activity
from causeline.cli.views.narration import items

MAIL = {"calls": [{"name": "mail", "arguments": {"to": "bob"}}]}
AGENTS = '''
import causeline
from causeline.models import ScriptedModel

@causeline.tool(retries=1, effects=False)
def weigh(item: str) -> str:
    """Weigh an item."""
    weigh.tries = getattr(weigh, "tries", 0) + 1
    if weigh.tries == 1:
        raise ConnectionError("scales are busy")
    return "3 kg"

weighing = ScriptedModel([{"calls": [{"name": "weigh", "arguments": {"item": "lamp"}}]}, {"text": "3 kg."}])
helper = causeline.Agent(weighing, name="helper", tools=[weigh])
model = ScriptedModel([{"calls": [{"name": "ask", "arguments": {"prompt": "Weigh the lamp."}}]}, {"text": "It weighs 3 kg."}])
bot = causeline.Agent(model, name="bot", tools=[helper.as_tool("ask", "Weighs things.")])
'''


def test_a_decision_and_its_result_hang_on_the_call_and_forks_where_they_left(shell):
    shell.agent(MAIL, {"text": "Done."})
    question = shell.ask("mail bob", "--session", "s1", "--run-id", "r1")["interrupts"][0]["id"]
    first = shell("show", "s1", "--json").last["checkpoints"][0]["id"]
    assert shell("fork", "r1", "--at", first, "--run-id", "f1").code == 3
    assert shell("answer", "r1", question, "edit", "--value", '{"to": "eve"}').code == 0
    rows = [row.strip("│├└─ ") for row in shell("show", "s1", "--tree").out.splitlines()]
    call = rows.index('call      mail {"to": "bob"}')
    assert rows[call + 1 : call + 3] == ['decision  edited to {"to": "eve"}', "result    sent to eve"]
    assert any(row.startswith("fork f1") for row in rows)


def test_an_agent_below_hangs_on_the_call_that_started_it(shell):
    (shell.folder / "agents.py").write_text(AGENTS)
    assert shell("run", "Weigh it.", "--agent", "agents.py:bot", "--session", "s1", "--run-id", "r1").code == 0
    rows = shell("show", "s1", "--tree").out.splitlines()
    ask = next(row for row in rows if "call      ask" in row)
    below = next(row for row in rows if "agent helper" in row)
    assert len(below) - len(below.lstrip("│├└─ ")) > len(ask) - len(ask.lstrip("│├└─ "))
    assert any("2 attempts" in row for row in rows)
    assert [row.split()[0] for row in shell("sessions").out.splitlines()] == ["SESSION", "s1"]
    assert len(shell("sessions", "--all").out.splitlines()) == 3


def test_the_list_of_runs_is_narrowed_by_status_and_number(shell):
    shell.agent({"text": "Hello."})
    for number in range(3):
        shell.ask("hi", "--session", f"s{number}", "--run-id", f"r{number}")
    assert [run["id"] for run in shell("runs", "--limit", "2", "--json").last["runs"]] == ["r1", "r2"]
    assert shell("runs", "--status", "failed", "--json").last["runs"] == []
    assert "1 older run not shown" in shell("runs", "--limit", "2").out
    assert shell("runs", "--status", "odd").code == 2


def test_a_run_is_watched_from_its_first_event_and_left_alone(shell):
    shell.agent({"text": "Hello."})
    shell.ask("hi", "--session", "s1", "--run-id", "r1")
    watched = shell("watch", "r1", "--json")
    assert watched.rows[0]["type"] == "run_started"
    assert watched.last["answer"] == "Hello."


def test_the_results_of_calls_that_were_left_to_the_caller_are_sent_in(shell):
    shell.agent({"calls": [{"id": "c1", "name": "pick", "arguments": {}}]}, {"text": "Green it is."})
    (shell.folder / "tools.json").write_text(
        '[{"name": "pick", "description": "Pick.", "parameters": {"type": "object", "properties": {}}}]'
    )
    first = shell.ask("Paint it.", "--session", "s1", "--tools", "tools.json")
    assert first["stop_reason"] == "client_tools"
    call = shell("show", "s1", "--json").last["calls"][0]["call_id"]
    second = shell("run", "--agent", "agent.toml", "--session", "s1", "--tools", "tools.json", "--result", f"{call}=green", "--json")
    assert second.last["answer"] == "Green it is."
    assert shell("run", "--agent", "agent.toml", "--result", "nothing").code == 2


def test_a_line_moves_only_in_silence():
    activity = Activity()
    activity.tell({"type": "step_started", "step": 1, "node": "call_model"}, 10.0)
    assert (activity.line(10.2), activity.line(12.0)) == (None, "thinking  2 s")
    activity.tell({"type": "tool_call_start", "tool_call_id": "c1", "name": "pay", "client": False}, 12.0)
    activity.tell({"type": "tool_call_args", "tool_call_id": "c1", "delta": "x" * 40}, 12.5)
    assert activity.line(13.0) == "pay  3 s, about 10 tokens"
    activity.tell({"type": "tool_call_result", "tool_call_id": "c1"}, 13.0)
    activity.tell({"type": "step_finished", "step": 1}, 13.0)
    assert activity.line(20.0) is None


def test_a_scatter_shows_how_far_it_is():
    told = {"placement": "each", "done": 325, "total": 500, "failed": 2, "retried": 1}
    assert items(told) == "each [#############.......] 325/500, 2 failed, 1 retried"
    assert items({"placement": "each", "done": 7, "failed": 0, "retried": 0}) == "each 7 items"
