"""The ReAct loop as nodes of a graph."""
