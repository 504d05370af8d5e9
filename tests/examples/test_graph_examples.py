"""The examples without a model print what they say they do."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTS = {
    "01_linear.py": "0 read -> count\n1 count -> report\n2 report -> None\ncompleted 4 words\n",
    "02_branch.py": "completed ['rain in Bath', 'two trains to Bath']\n['home']\n",
    "03_scatter_gather.py": "completed\n[12, 7, None, 30, 4]\n[None, None, 'ValueError', None, None]\n",
    "04_embed_retry.py": "index completed <index> 3\nmissing failed None None\n  ConnectionError at fetch: no answer for missing\n",
    "05_human_pause.py": "interrupted approve {'send this?': 'Dear Jane, ...'}\ncompleted ['sent'] yes\n",
}


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_prints_what_it_should(name, tmp_path):
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (PRINTS[name], "", 0)


def test_the_memory_example_tells_two_runs_and_what_the_second_one_recalled():
    done = subprocess.run([sys.executable, EXAMPLES / "react_memory.py"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines[0] == "--- react-agent-memory: run-1 (no prior memory) ---"
    assert lines[1].startswith('Final answer: "Based on the lookup, {"result":"causeline keeps')
    assert lines[2].startswith('Streamed deltas (22): ["Based ", "on ", ')
    assert lines[3].startswith(
        'Recalled hint for run-2: "Prior reasoning (run-1): thought: planning to invoke a tool; action: lookup({"query": "causeline"}); '
        'observation: {"result":"causeline keeps'
    )
    assert "; thought: Based on the lookup, " in lines[3]
    assert "; final: Based on the lookup, " in lines[3]
    assert lines[4] == "--- react-agent-memory: run-2 (recalling run-1) ---"
    assert lines[5:7] == lines[1:3]
