"""A thousand rounds: no step costs more because the run is long. Work is counted, not timed."""

import sys

import pytest

from causeline import tool
from causeline.causal import canonical
from causeline.models.scripted_model import ScriptedModel
from causeline.models.transcript import Transcript
from tests.agent.stage import Turns, calls, stage

ROUNDS = 1000


@tool(effects=False)
async def look(i: int) -> str:
    """Looks."""
    return f"saw {i}"


class Counted:
    """Plays `loop-N`, keeps what it is handed by identity, and counts Python calls between two rounds."""

    name = "counted"

    def __init__(self, rounds):
        self.inner = ScriptedModel.named(f"loop-{rounds}")
        self.handed: list[object] = []
        self.marks: list[int] = []
        self.count = 0

    def profile(self, _frame, event, _argument):
        if event == "call":
            self.count += 1

    async def stream(self, request):
        self.handed.append(request.messages)
        self.marks.append(self.count)
        async for delta in self.inner.stream(request):
            yield delta

    async def aclose(self):
        pass


async def test_a_round_costs_the_same_work_at_the_end_of_a_long_run(monkeypatch):
    added = []
    add = Transcript.add
    monkeypatch.setattr(Transcript, "add", lambda self, *rest: (added.append(1), add(self, *rest))[1])
    # How often the engine lets others run depends on the time a round takes, so it never does here: what is counted is the run's own work.
    monkeypatch.setattr("causeline.graph.engine.control.BREATH", float("inf"))
    model = Counted(ROUNDS)
    async with stage(model, [look], pairs=False, max_steps=10_000) as s:
        s.agent._open_model = lambda _: model  # without the recording of requests, which copies them
        sys.setprofile(model.profile)
        try:
            ran = await s.runtime.start(s.agent, "go", session="s")
            result = await ran.result()
        finally:
            sys.setprofile(None)
        work = len(added)
        log = await s.log()
        steps = await s.steps()
    assert (result.status, result.answer) == ("succeeded", f"done {ROUNDS}")
    assert work == len(log.nodes) - 2, "each node is folded once, and the last reply not at all"
    assert len({id(one) for one in model.handed}) == 1, "the history is handed over, not copied"
    spent = [after - before for before, after in zip(model.marks, model.marks[1:], strict=False)]
    early, late = sorted(spent[20:220])[100], sorted(spent[-220:-20])[100]
    assert late == pytest.approx(early, rel=0.02)
    assert max(len(one.frontier) for one in steps) == 1
    sizes = [len(canonical([one.delta, one.position, one.appended])) for one in steps if one.node == "call_tools"]
    assert max(sizes) - min(sizes) < 20
    assert max(len(node.parents) for node in log.nodes) == 1


async def test_a_later_turn_of_a_long_session_folds_the_past_once(monkeypatch):
    count = []
    script = Turns(
        [*[calls(("look", {"i": place}, f"c{place}")) for place in range(50)], {"text": "one"}],
        [*[calls(("look", {"i": place}, f"d{place}")) for place in range(3)], {"text": "two"}],
    )
    async with stage(script, [look], max_steps=10_000) as s:
        await s.run("go")
        past = len((await s.log()).nodes)
        add = Transcript.add
        monkeypatch.setattr(Transcript, "add", lambda self, *rest: (count.append(1), add(self, *rest))[1])
        run = await s.runtime.start(s.agent, "again", session="s")
        await run.result()
        folded = len(count)
        present = len((await s.log()).nodes)
    # once when the branch is read, once when the agent takes it in; new nodes once
    assert folded <= 2 * past + (present - past)
