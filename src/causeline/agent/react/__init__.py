"""The ReAct loop. Begin with `loop`, which has the whole of it on one screen.

loop                the four nodes, and the drawing of their document (`react.jsonld`)
caller_input        the first step: what the caller said becomes goals and results
model_turn          one model call: request, stream, what follows
reply_stream        what is told of a reply while it comes
reply_outcome       what a whole reply comes to: tools, an answer, another try
structured_answer   whether a text is the answer that was asked for
tool_step           one visit of the tools: announce, permit, run, record
permission          what becomes of a call before it runs
call_results        what becomes of its result
conversation        what the steps of a run share: transcript, tools in scope, requests
remember            the built-in tool that keeps notes
sub_agents          an agent as a tool of another one
flat                `react-flat`: the same functions as twelve placements
"""
