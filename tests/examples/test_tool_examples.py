"""The examples of tools print what they say they do."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTS = {
    "mcp_files.py": "succeeded At ten o'clock.\n",
    "skills.py": (
        "tools: read_skill\nIts text has 4999 characters. Read it with read_skill(name='manual') before you use the skill.\nThree days.\n"
    ),
    "typed_tools.py": "double words close 4 ['a', 'b']\n",
    "recorded_run.py": "Done. [30]\n-system: You keep the books.\n+system: You keep the books well.\n",
}


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_prints_what_it_should(name, tmp_path):
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (PRINTS[name], "", 0)
