"""Lets Python-Markdown read fences such as "```python file=clerk.py".

CommonMark allows any words after a fence's language, and the suite's player of these pages reads them (tests/docs/pages.py). SuperFences
does not, so this takes them away before it looks.
"""

import re

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

FENCE = re.compile(r"^( *```+[\w+-]+) .*$")


class _FirstWordOnly(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        return [FENCE.sub(r"\1", line) for line in lines]


class FenceWords(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the name Python-Markdown calls
        md.preprocessors.register(_FirstWordOnly(md), "fence_words", 100)


def makeExtension(**settings: object) -> FenceWords:  # noqa: N802 - the name Python-Markdown calls
    return FenceWords(**settings)
