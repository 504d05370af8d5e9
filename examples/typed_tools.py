"""A decorated function keeps its types: this file is checked strictly."""

import asyncio
from typing import assert_type

import causeline


@causeline.tool
def double(n: int) -> int:
    """Twice as much."""
    return 2 * n


@causeline.tool(effects=False, output=list[str])
async def words(text: str, *, most: int = 10) -> list[str]:
    """The words of a text."""
    return text.split()[:most]


class Shop:
    """Methods are tools, too."""

    def __init__(self, name: str) -> None:
        self.name = name

    @causeline.tool(approval="ask")
    def close(self, reason: str) -> str:
        """Close the shop."""
        return f"{self.name} is closed: {reason}"


assert_type(double(2), int)
assert_type(asyncio.run(words("a b c", most=2)), list[str])
assert_type(Shop("corner").close("night"), str)
tools: list[causeline.Tool] = [double, words, Shop("corner").close]
print(*(tool.name for tool in tools), double(2), asyncio.run(words("a b c", most=2)))
