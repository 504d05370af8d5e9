"""All scenarios of the sweep, by name."""

from collections.abc import Mapping

from causeline.testing.killpoints.graphs import GRAPHS
from causeline.testing.killpoints.people import PEOPLE
from causeline.testing.killpoints.scenarios import Scenario, calls, cancelled, forked, once

SCENARIOS: Mapping[str, Scenario] = {
    one.name: one
    for one in (
        Scenario("plain", [[calls("write"), calls("look"), calls("write", start=1), {"text": "all written"}]], once),
        Scenario("parallel", [[calls("write", "write", "look", "write"), calls("look", "write"), {"text": "all written"}]], once),
        Scenario("idempotent", [[calls("put", "put"), calls("put", "look"), {"text": "all put"}]], once),
        Scenario("exclusive", [[calls("write", "alone", "write", "alone"), {"text": "all written"}]], once),
        Scenario("flat", [[calls("write", "alone"), calls("write"), {"text": "all written"}]], once, {"graph": "react-flat"}),
        Scenario("fork", [[calls("write"), calls("write", start=1), {"text": "done"}]], forked),
        Scenario("cancel", [[calls("write"), calls("write", "wait"), {"text": "done"}], [calls("look"), {"text": "went on"}]], cancelled),
        *PEOPLE,
        *GRAPHS,
    )
}
