"""A process is killed before and after each durable write; another one goes on and ends in the same place."""

import pytest

from causeline.testing.killpoints.scenario_list import SCENARIOS
from causeline.testing.killpoints.sweep import sweep

pytestmark = pytest.mark.sweep

WHOLE = ("plain", "parallel")
SAMPLE = 13
"""The other scenarios are killed at every thirteenth point here, and at each by `make sweep`."""


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_killed_run_ends_at_the_head_of_the_undisturbed_one(name: str, sweep_all: bool) -> None:
    tally = sweep(SCENARIOS[name], every=1 if sweep_all or name in WHOLE else SAMPLE)
    assert tally.failures == []
    assert tally.clean
    assert tally.points > 0


def test_an_idempotent_tool_leaves_no_unknown_outcome() -> None:
    tally = sweep(SCENARIOS["idempotent"], every=3)
    assert (tally.failures, tally.unknown) == ([], 0)
