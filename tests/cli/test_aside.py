"""What a program reads on standard output is JSON, whoever else prints."""

import json
import subprocess
import sys

LOUD = '''
import os, subprocess, sys
import causeline

print("said on import")

@causeline.tool
def lookup(term: str) -> str:
    """Look up."""
    print("said by Python")
    os.write(1, b"said by C code\\n")
    subprocess.run(["echo", "said by a child"])
    sys.__stdout__.write("said by the back door\\n")
    return "found"

mail = lookup
'''


def loud(shell):
    shell.agent({"calls": [{"name": "lookup", "arguments": {"term": "a"}}]}, {"text": "done"})
    (shell.folder / "tools.py").write_text(LOUD)
    (shell.folder / "agent.toml").write_text(
        (shell.folder / "agent.toml").read_text().split("[[tools]]")[0] + '[[tools]]\npython = "tools:lookup"\n'
    )


def causeline(*words):
    return subprocess.run([sys.executable, "-m", "causeline.cli", *words], capture_output=True, text=True, check=False, timeout=60)


def test_all_that_is_printed_elsewhere_is_set_aside(shell):
    loud(shell)
    ended = causeline("run", "hi", "--agent", "agent.toml", "--json")
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert rows[-1]["answer"] == "done", ended.stderr
    for voice in ("on import", "by Python", "by C code", "by a child", "by the back door"):
        assert f"said {voice}" in ended.stderr
    checked = causeline("check", "agent.toml", "--json")
    assert json.loads(checked.stdout) == {"agent": "bot", "findings": []}
    assert "said on import" in checked.stderr


def test_a_person_sees_what_tools_print(shell):
    loud(shell)
    ended = causeline("run", "hi", "--agent", "agent.toml")
    assert "said by a child" in ended.stdout
