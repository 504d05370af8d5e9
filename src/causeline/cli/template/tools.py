"""What the agent can do. The docstring and the parameters of a function are what the model sees."""

import causeline

SHELF = {"lamp": 4, "chair": 12, "table": 0}


@causeline.tool(effects=False)
def stock(item: str) -> str:
    """How many pieces of an item there are."""
    if item not in SHELF:
        return f"There is no {item}. Items: {', '.join(SHELF)}."
    return f"{SHELF[item]} x {item}"


@causeline.tool
def order(item: str, pieces: int) -> str:
    """Order more of an item."""
    SHELF[item] = SHELF.get(item, 0) + pieces
    return f"ordered {pieces} x {item}"
