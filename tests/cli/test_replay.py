"""`causeline replay`: the same question again, side by side, without doing anything twice."""

import json

TOOLS = '''
import causeline
from pathlib import Path

@causeline.tool(effects=False)
def lookup(term: str) -> str:
    """Look a word up."""
    return f"{term} is a word"

@causeline.tool
def mail(to: str, text: str = "") -> str:
    """Send mail."""
    with Path("sent.txt").open("a") as file:
        file.write(to + "\\n")
    return f"sent to {to}"
'''


def call(name, id="c", **arguments):
    return {"calls": [{"id": id, "name": name, "arguments": arguments}], "usage": {"input_tokens": 10, "output_tokens": 2, "cost": 0.25}}


def recorded(shell):
    """A run that sent a mail after asking."""
    shell.agent(call("mail", to="ann"), {"text": "I have written to Ann."})
    (shell.folder / "tools.py").write_text(TOOLS)
    asked = shell.ask("write to Ann")
    [interrupt] = asked["interrupts"]
    answered = shell("answer", asked["run"], interrupt["id"], "approve", "--json").last
    assert (answered["status"], sent(shell)) == ("succeeded", ["ann"])
    return asked


def sent(shell):
    file = shell.folder / "sent.txt"
    return file.read_text().split() if file.exists() else []


def script(shell, name, *items):
    (shell.folder / name).write_text(json.dumps(items))
    return f"scripted:{name}"


def test_another_model_is_shown_beside_the_recorded_run_and_nothing_is_sent_twice(shell):
    shell.agent(call("lookup", term="sky"), call("lookup", "c2", term="sea"), {"text": "Both are words."})
    first = shell.ask("sky and sea?")
    other = script(shell, "other.json", call("lookup", term="sky"), call("mail", to="bob"), {"text": "The sky is a word."})
    ended = shell("replay", first["run"], "--model", other)
    assert ended.code == 0, ended.err
    rows = ended.out.splitlines()
    assert rows[0].split() == ["recorded", "replayed"]
    assert "2 in 3 rounds" in ended.out
    assert "Both are words." in ended.out
    assert "The sky is a word." in ended.out
    assert "$0.5000" in ended.out
    assert "This call of mail is not recorded, so it was not run." in ended.out
    told = shell("replay", first["run"], "--model", other, "--json").last
    assert [told[side]["answer"] for side in ("recorded", "replayed")] == ["Both are words.", "The sky is a word."]
    assert [each["name"] for each in told["replayed"]["calls"]] == ["lookup", "mail"]
    assert told["replayed"]["usage"]["cost"] == 0.5
    assert len(told["unrecorded_calls"]) == 1


def test_effects_and_approvals_are_not_repeated_unless_the_tools_are_live(shell):
    first = recorded(shell)["run"]
    again = shell("replay", first, "--json")
    assert (again.code, again.last["replayed"]["answer"], sent(shell)) == (0, "I have written to Ann.", ["ann"]), again.err
    assert again.last["unrecorded_calls"] == []
    assert again.last["recorded"]["answer"] == "I have written to Ann."
    live = shell("replay", first, "--tools", "live", "--json")
    assert (live.code, sent(shell)) == (3, ["ann"]), "the person is asked again"


def test_from_any_checkpoint_and_with_another_prompt(shell):
    shell.agent(call("lookup", term="sky"), {"text": "A word."})
    first = shell.ask("sky?", "--session", "s1")
    steps = shell("show", "s1", "--json").last["checkpoints"]
    before = shell("export", "s1").out
    (shell.folder / "brief.txt").write_text("Be brief.")
    script(shell, "script.json", {"text": "Brief."})
    told = shell("replay", first["run"], "--at", steps[0]["id"], "--system", "brief.txt", "--json").last
    assert (told["recorded"]["rounds"], told["replayed"]["rounds"]) == (2, 1)
    assert told["replayed"]["answer"] == "Brief."
    assert json.loads(shell("show", "s1", "--run", told["replayed"]["run"], "--json").out)
    assert shell("export", "s1", "--at", first["head"]).out == before, "the history that was left stays byte for byte"
    assert shell("replay", first["run"], "--system", "nowhere.txt").code == 2


def test_a_run_that_is_not_there(shell):
    shell.agent({"text": "hi"})
    shell.ask("hi")
    assert shell("replay", "run_none").code == 1
