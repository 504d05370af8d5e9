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
