"""The channels by which an agent node hands calls to its tools node.

Law: two pairs of nodes in one document do not share them, where each pair has a `tool_call_key` of its own.
"""

from dataclasses import dataclass
from typing import Self

DEFAULT_KEY = "_tool_call_name"
CALLS, POLICY, RESULTS = "_tool_calls", "_tool_policy", "_tool_results"


@dataclass(frozen=True, slots=True)
class CallChannels:
    """`calls` wait to be run under `policy`; `results` are what a paused visit has and has asked, so that no call runs twice and an answer
    is for what was asked."""

    calls: str = CALLS
    policy: str = POLICY
    results: str = RESULTS

    @classmethod
    def beside(cls, tool_call_key: str) -> Self:
        """The channels that go with this one."""
        return (
            cls() if tool_call_key == DEFAULT_KEY else cls(f"{tool_call_key}_calls", f"{tool_call_key}_policy", f"{tool_call_key}_results")
        )
