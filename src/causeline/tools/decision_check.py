"""Whether a person's decision on a call can be carried out with the tools there are.

Law: pure. What cannot be carried out is said to whoever decides, and the question stays open.
"""

from collections.abc import Mapping
from typing import Any

from causeline.errors import Invalid
from causeline.tools.execute import argument_fault
from causeline.tools.toolbox import Toolbox


def check_decision_on(toolbox: Toolbox, name: str, arguments: Any, decision: Mapping[str, Any]) -> None:
    """Raises Invalid if a decision that lets a call run cannot be carried out: the tool is gone, or does not take the arguments."""
    chosen = decision.get("decision")
    if chosen in ("deny", "record", "fail"):
        return
    tool = toolbox.get(name)
    if tool is None and not toolbox.settled:
        return  # the run finds out when it opens its toolsets
    if tool is None:
        raise Invalid(f"the agent has no tool {name!r} any more; deny the call, or answer with the agent that asked", code="tool_gone")
    fault = argument_fault(tool, decision["value"] if chosen == "edit" else arguments)
    if fault is not None:
        raise Invalid(fault, findings=[fault])
