"""ReAct as ordinary nodes and a document; the Agent's definition."""
