"""Plain signatures are read without pydantic, to the same schema and the same arguments."""

import json
import subprocess
import sys
from typing import Annotated

import pytest

from causeline.tools import ToolContext
from causeline.tools.function import tool

SEEN_BY_PYDANTIC = object()
"""Says nothing to pydantic, and makes an annotation one that is not plain."""


def plain(text: str, count: int = 3, share: float = 1.5, deep: bool = False): ...
def rich(
    text: Annotated[str, SEEN_BY_PYDANTIC],
    count: Annotated[int, SEEN_BY_PYDANTIC] = 3,
    share: Annotated[float, SEEN_BY_PYDANTIC] = 1.5,
    deep: Annotated[bool, SEEN_BY_PYDANTIC] = False,
): ...
def count(n: int): ...
def rich_count(n: Annotated[int, SEEN_BY_PYDANTIC]): ...
def share(*, n: float): ...
def rich_share(*, n: Annotated[float, SEEN_BY_PYDANTIC]): ...
def nothing(): ...


NUMBERS = [0, -1, 3.0, -0.0, 1.5, 2**63, 2**70, 1e18, 1e19, -1e19, 2.0**63, 1e308, 10**400, True, "1", None]


def test_the_schema_is_the_one_pydantic_makes():
    for ours, theirs in ((plain, rich), (count, rich_count), (share, rich_share)):
        assert json.dumps(tool(ours).parameters) == json.dumps(tool(theirs).parameters)
    assert tool(nothing).parameters == {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: str(number)[:20])
@pytest.mark.parametrize("ours, theirs", [(count, rich_count), (share, rich_share)], ids=["int", "float"])
def test_numbers_are_taken_and_bound_as_pydantic_does(ours, theirs, number):
    ours, theirs, context = tool(ours).body, tool(theirs).body, ToolContext(call_id="c")
    taken = not ours.findings({"n": number})
    assert taken == (not theirs.findings({"n": number}))
    if taken:
        bound, expected = (body.signature.bind({"n": number}, context)[1]["n"] for body in (ours, theirs))
        assert (type(bound), bound) == (type(expected), expected)


def test_an_agent_with_plain_tools_does_not_import_pydantic():
    script = (
        "import sys, causeline\n"
        "from causeline.models import ScriptedModel\n"
        "def add(a: int, b: float = 0.5) -> str:\n    'Adds.'\n    return str(a + b)\n"
        "agent = causeline.Agent(ScriptedModel([{'calls': [{'name': 'add', 'arguments': {'a': 1}}]}]), tools=[add])\n"
        "print(agent.run_sync('go').answer, 'pydantic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("done False\n", "")
