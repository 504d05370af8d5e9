"""All scenarios of the sweep, by name."""

from collections.abc import Mapping
from typing import Any

from causeline.models.scripted_model import ScriptedModel
from causeline.testing.killpoints.graphs import GRAPHS
from causeline.testing.killpoints.people import PEOPLE
from causeline.testing.killpoints.scenarios import Scenario, calls, cancelled, drained, forked, once, remembered, remembering

FALLBACK: Mapping[str, Any] = {
    "max_retries": 0,
    "fallbacks": [ScriptedModel([{**calls("write"), "text": "<think>first</think>I will write.", "reasoning": "a plan"}], name="second")],
}
"""The first model breaks off in the middle, the second one goes on; what it thinks is kept with its reply."""

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
        Scenario("fallback", [[{"text": "half an answer", "cut_after": 2}, calls("write", start=1), {"text": "done"}]], once, FALLBACK),
        Scenario("drain", [[calls("write", "write", "look", "write"), calls("look", "write"), {"text": "all written"}]], drained),
        Scenario("memory", [], remembered, programs=remembering(elsewhere=False)),
        Scenario("memory-elsewhere", [], remembered, programs=remembering(elsewhere=True)),
        *PEOPLE,
        *GRAPHS,
    )
}
