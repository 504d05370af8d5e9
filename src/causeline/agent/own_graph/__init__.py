"""The two nodes of a ReAct loop for a graph of one's own: the functions of `agent.react` over plain channels.

channel_conversation   the conversation whose history is a channel
channel_messages       what stands in the channels, in our shape and in OpenAI's
agent_node             the node that calls the model
tools_node             the node that runs the calls
tool_policy            what the agent node asks of the tools node
bare_run               what a run would give, where a Dispatcher runs without a runtime
"""
