"""The one tool of the steps example."""

import causeline


@causeline.tool(effects=False)
async def step(i: int) -> str:
    """Take step number i."""
    return f"step {i} done"
