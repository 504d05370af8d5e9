"""Traces as lines."""

from causeline.causal import AgentState
from causeline.causal.view.node_text import node_text
from causeline.cli.views.trace import trace
from causeline.runtime.records import Checkpoint, Link, Run

AT = "2026-01-01T00:00:00.000Z"


def a_log():
    log = AgentState()
    goal = log.append("goal", {"text": "What is x?"}, created_at=AT)
    said = log.append("inference", {"text": "", "calls": [{"name": "look"}], "finish": "tool_calls"}, created_at=AT)
    call = log.append("tool_call", {"call_id": "c", "name": "look", "args": {"t": "x"}}, [said.id], created_at=AT)
    log.append("tool_result", {"call_id": "c", "tool": "look", "result": 'a "b"\n%% <c>', "ok": True}, [call.id], created_at=AT)
    return log, goal


def test_a_trace_has_runs_steps_and_nodes_with_whole_ids():
    _, goal = a_log()
    checkpoint = Checkpoint(
        id="ck_1", session="s", run="run_1", step=0, parent=None, path=[], node="urn:causeline:node:entrypoint", port="model", next=None,
        appended=[goal.id], frontier=[goal.id], delta={}, position=None, created_at=AT,
        facts={"ms": 12.4, "usage": {"input_tokens": 5, "output_tokens": 2}},
    )  # fmt: skip
    run = Run(id="run_1", session="s", owner="o", status="failed", stop_reason="model_error", agent="bot", created_at=AT, started_at=AT,
              input=[{"role": "user", "content": "What is x?"}], error={"code": "e", "message": "no key"})  # fmt: skip
    text = "".join(piece.text for piece in trace([Link(checkpoint, [goal])], {"run_1": run}))
    assert text.splitlines() == [
        "",
        "run run_1  What is x?",
        "  failed (model_error)  agent bot  2026-01-01 00:00:00",
        "  no key",
        "  step 0   ck_1  entrypoint -> model     12 ms  5 in, 2 out",
        f"    goal           {goal.id}  What is x?",
    ]


def test_every_kind_of_node_says_what_it_is():
    assert node_text("answer", "It is x.") == "It is x."
    assert node_text("answer", {"n": 1}) == '{"n": 1}'
    assert node_text("tool_result", {"tool": "t", "ok": False, "result": "bad"}) == "t failed: bad"
    assert node_text("semantic", {"type": "memory", "key": "k", "content": {"a": 1}}) == 'memory k: {"a": 1}'
    assert node_text("resource", {"operation": "recall", "path": "recall", "succeeded": True}) == "recall recall"
    assert node_text("protocol_error", {"code": "empty_reply", "detail": "nothing"}) == "empty_reply: nothing"
    assert node_text("verification", {"method": "hash"}) == '{"method": "hash"}'
