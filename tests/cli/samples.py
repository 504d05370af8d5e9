"""Results and questions for tests of what is printed about them."""

from typing import Any

from causeline.runtime.handle import RunResult
from causeline.runtime.records import Interrupt


def ended(status: Any = "succeeded", stop_reason="answered", **fields):
    return RunResult(run_id="run_1", session="ses_1", status=status, stop_reason=stop_reason, head="ck_1", **fields)


def asked(kind: Any = "approval", **fields):
    given = {"name": "mail", "arguments": {"to": "bob"}, "question": "May mail run with these arguments?", **fields}
    return Interrupt(id="int_1", session="ses_1", run="run_1", checkpoint="ck_1", kind=kind, tool_call_id="c1", args_hash="h", **given)
