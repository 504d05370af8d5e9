"""How a run begins is decided in one place, from the run and the checkpoint it reads from."""

from dataclasses import replace

import pytest

from causeline.runtime.beginning import Answers, Continues, Fork, Fresh, TakesOver, beginning_of
from causeline.runtime.event_buffer import told_so_far
from causeline.runtime.records import Checkpoint, Run

TIP = Checkpoint(
    id="ck_1", session="s", run="r0", step=4, parent=None, path=[], node="n", port="p", next=None, appended=[], frontier=[], delta={},
    position={"visits": 5}, created_at="",
)  # fmt: skip
RUN = Run(id="r", session="s", owner="o", status="running", agent="a", created_at="", epoch=1, base="ck_1")
ANSWERING = replace(RUN, answers={"int_1": {"decision": "approve"}}, at="ck_1")


@pytest.mark.parametrize(
    "run, tip, expected",
    [
        (replace(RUN, base=None), None, Fresh()),
        (RUN, TIP, Continues(TIP)),
        (replace(RUN, at="ck_1"), TIP, Fork(TIP, enters=False)),
        (ANSWERING, TIP, Answers(TIP)),
        (replace(RUN, head="ck_1", epoch=2), TIP, TakesOver(TIP, asks="ck_1")),
        (replace(RUN, head="ck_1", epoch=2, at="ck_0"), TIP, TakesOver(TIP, asks=None)),
        (replace(ANSWERING, head="ck_1", epoch=2), TIP, TakesOver(TIP, asks="ck_asked")),
        (replace(RUN, epoch=3), TIP, Continues(TIP)),  # taken over before its first commit: it begins as it would have begun
    ],
)
def test_the_kind_of_beginning_follows_from_run_and_tip(run, tip, expected):
    assert beginning_of(run, tip, asked_at="ck_asked") == expected


def test_only_a_fork_of_a_program_that_goes_on_in_place_stands_where_its_checkpoint_stands():
    fork = beginning_of(replace(RUN, at="ck_1"), TIP, fresh=False)
    assert fork == Fork(TIP, enters=True)
    assert [kind.enters for kind in (Fresh, Continues, Answers, TakesOver)] == [False, False, True, True]


def test_what_a_run_has_told_says_which_messages_were_left_open_and_which_calls_are_announced():
    told = told_so_far(
        [
            {"type": "text_message_start", "message_id": "m1", "seq": 1},
            {"type": "message_retracted", "message_id": "m1", "seq": 2},
            {"type": "text_message_start", "message_id": "m2", "seq": 3},
            {"type": "step_finished", "seq": 4},
            {"type": "tool_call_start", "tool_call_id": "c", "seq": 5},
            {"type": "text_message_start", "message_id": "m3", "seq": 6},
        ]
    )
    assert (told.next_number, told.unfinished, told.retracted) == (7, ("m3",), {"m1"})
    assert told.announced == {("tool_call_start", "c")}
