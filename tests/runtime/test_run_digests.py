"""The digest of a run is bounded, and so is what making it costs."""

from causeline.causal import AgentState, Append, apply
from causeline.runtime.records import Run, RunPatch
from causeline.runtime.run_digests import PAGES, RunDigest

AT = "2026-01-01T00:00:00.000Z"


class Counted:
    """A node that counts how often nodes are read."""

    reads = 0

    def __init__(self, node):
        self.id, self.kind, self._node = node.id, node.kind, node

    @property
    def payload(self):
        Counted.reads += 1
        return self._node.payload


def digest(rounds):
    state, kept = AgentState(), RunDigest(Run(id="r", session="s", owner="o", status="running", agent="a", created_at=AT))
    kept.add(0, list(map(Counted, apply(state, [Append("goal", {"text": "count far"})], AT))))
    for number in range(1, rounds + 1):
        result = {"call_id": f"c{number}", "tool": "count", "result": f"counted to {number} " + "and on " * 20, "ok": True}
        kept.add(number, list(map(Counted, apply(state, [Append("tool_result", result)], AT))))
    Counted.reads = 0
    rows = [stored.item.value["lines"] for _, stored in kept.rows(RunPatch(status="succeeded"), AT)]
    return rows, Counted.reads


def test_a_long_run_keeps_its_first_and_last_pages_and_reads_no_more_of_it():
    rows, reads = digest(5_000)
    assert len(rows) == PAGES
    assert rows[0][0][1] == "count far"
    assert rows[0][1][1].startswith("counted to 1 ")
    assert rows[-1][-1][1].startswith("counted to 5000 ")
    assert reads == digest(3_000)[1] < 2_000


def test_a_run_that_fits_is_kept_whole():
    rows, reads = digest(100)
    assert reads == 101
    assert [line[2] for page in rows for line in page if line[2] != 0] == list(range(1, 101))
