"""Skills: short ones are part of the system prompt, the text of a long one is read when it is needed."""

import causeline
from causeline.models import ScriptedModel
from causeline.tools import Skill

brief = Skill("brief", "How to answer", "Answer in one sentence.")
manual = Skill("manual", "Everything about refunds", "Refunds take three days. " * 200, disallowed_tools=("delete_*",))


@causeline.tool
def delete_order(order: str) -> str:
    """Delete an order."""
    return f"deleted {order}"


model = ScriptedModel([{"calls": [{"id": "c1", "name": "read_skill", "arguments": {"name": "manual"}}]}, {"text": "Three days."}])
agent = causeline.Agent(model, tools=[delete_order], skills=[brief, manual])
print("tools:", *agent.toolbox.names())
print(agent.toolbox.skill_text().splitlines()[-1])
print(agent.run_sync("How long does a refund take?").answer)
