"""causeline: ReAct agents that survive, explain themselves and remember."""
