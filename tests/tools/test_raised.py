"""Whatever a tool or its author's code raises is an error result, bounded and with a name; a real Ctrl-C is not."""

import asyncio
import subprocess
import sys
from typing import Annotated

import pytest
from pydantic import AfterValidator

from causeline.errors import Unavailable
from causeline.tools.execute import execute
from causeline.tools.function import tool
from causeline.tools.tool import ToolContext, ToolError

CONTEXT = ToolContext(call_id="c", idempotency_key="k")


class Ended(BaseException):
    """Neither an Exception nor one of Python's own."""


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Restless(Exception):
    """Its attributes fail, too."""

    @property
    def retry_after(self):
        raise RuntimeError("not yet")

    code = retryable = retry_after


@pytest.mark.parametrize(
    "error, text",
    [
        (ValueError("no such city"), "Error calling fail: ValueError: no such city"),
        (KeyError("k"), "Error calling fail: KeyError: 'k'"),
        (RuntimeError(), "Error calling fail: RuntimeError"),
        (ToolError("Use a city of Europe."), "Use a city of Europe."),
        (Unavailable("the service is down"), "Error calling fail: the service is down"),
        (SystemExit(3), "Error calling fail: SystemExit: 3"),
        (StopIteration("x"), "Error calling fail: RuntimeError: coroutine raised StopIteration"),
        (asyncio.CancelledError(), "Error calling fail: the tool cancelled itself"),
        (KeyboardInterrupt(), "Error calling fail: KeyboardInterrupt"),
        (GeneratorExit("x"), "Error calling fail: GeneratorExit: x"),
        (Ended("for good"), "Error calling fail: Ended: for good"),
        (BaseExceptionGroup("two", [Ended("a"), ValueError("b")]), "Error calling fail: BaseExceptionGroup: two (2 sub-exceptions)"),
        (Mute(), "Error calling fail: Mute: (Mute has no text: asking for it raised RuntimeError)"),
        (Restless("again"), "Error calling fail: Restless: again"),
        (ValueError("\ud800"), "Error calling fail: ValueError: \\ud800"),
    ],
)
@pytest.mark.parametrize("threaded", [False, True])
async def test_whatever_a_tool_raises_becomes_a_result_that_names_it(error, text, threaded):
    def fail():
        raise error

    async def fail_async():
        raise error

    executed = await execute(tool(fail if threaded else fail_async, name="fail"), {}, CONTEXT)
    assert not executed.ok
    assert executed.error is not None
    if threaded and isinstance(error, asyncio.CancelledError | StopIteration | KeyboardInterrupt):
        assert executed.text.startswith("Error calling fail: RuntimeError: ")
    else:
        assert executed.text == text


async def test_a_long_error_is_cut():
    @tool
    async def fail():
        raise ValueError("x" * 1_000_000)

    assert len((await execute(fail, {}, CONTEXT)).text) < 2_100


async def test_a_validator_that_fails_is_a_finding():
    def check(value):
        raise GeneratorExit("while checking") if value == "exit" else RuntimeError("checker is broken")

    @tool
    async def take(name: Annotated[str, AfterValidator(check)]):
        return name

    for name, told in (("exit", "GeneratorExit: while checking"), ("else", "RuntimeError: checker is broken")):
        executed = await execute(take, {"name": name}, CONTEXT)
        assert (executed.ok, executed.attempts) == (False, 0)
        assert f"checking them failed: {told}" in executed.text


@pytest.mark.parametrize("raw", ['{"a": "' + "x" * 5_000_000, "[" * 5_000_000, '{"' + "k" * 5_000_000 + '": 1}', {"k" * 5_000_000: {}}])
async def test_an_error_does_not_repeat_arguments_of_any_size(raw):
    @tool
    async def take(a: str):
        return a

    executed = await execute(take, raw, CONTEXT)
    assert not executed.ok
    assert len(executed.text) < 2_500


def test_ctrl_c_ends_a_run_and_not_only_its_tool(tmp_path):
    """The signal comes while an async tool computes: it is no error of the tool."""
    script = tmp_path / "busy.py"
    script.write_text(
        "import asyncio, signal\nfrom causeline.tools.function import tool\nfrom causeline.tools.execute import execute\n"
        "from causeline.tools.tool import ToolContext\n"
        "@tool\nasync def busy():\n    signal.raise_signal(signal.SIGINT)\n    signal.raise_signal(signal.SIGINT)\n"
        "print(asyncio.run(execute(busy, {}, ToolContext(call_id='c'))).text)\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert ended.stdout == ""
    assert ended.stderr.strip().endswith("KeyboardInterrupt")
