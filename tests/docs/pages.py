"""Reads the project's Markdown pages: their code blocks, code spans, links and headings.

A block's first word is its language; the words after it say what the documentation tests do with it:

    python             run as a script, in a process of its own
    python file=X      the same, and kept as X for the blocks that follow
    toml file=X        (any language) kept as X
    text output        what the block before it printed
    console            a transcript: each `$ ` line is run, the lines below it are what it prints
    console exit=3     the same, and the last command ends with that code
    sh run             run as a whole by the shell
    sh                 for reading; its make and pip lines are still checked

A comment in front of a block, `<!-- replies: [...] -->`, says what the model answers from there on (tests/docs/provider.py).
In expected output `...` stands for any text within a line, and alone on a line for any lines.
The blocks of a page share one empty working folder, which is also the home folder.
"""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)(```+)(\S*)([^`\n]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
REPLIES = re.compile(r"<!-- replies:\s+((?:(?!-->).)*?)\s+-->\s*\Z", re.DOTALL)
SPAN = re.compile(r"(`+)(.+?)\1")
LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `line` is where its text starts, `indent` is taken off its lines."""

    line: int
    language: str
    words: tuple[str, ...]
    text: str
    replies: list[dict] | None = None

    def value(self, key: str) -> str | None:
        return next((word.partition("=")[2] for word in self.words if word.startswith(f"{key}=")), None)


def paths() -> list[Path]:
    return [path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))) if path.is_file()]


def blocks(markdown: str) -> list[Block]:
    found = []
    for match in FENCE.finditer(markdown):
        indent, _, language, words, body = match.groups()
        text = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        script = REPLIES.search(markdown, 0, match.start())
        replies = json.loads(script[1]) if script else None
        found.append(Block(markdown.count("\n", 0, match.start(5)) + 1, language, tuple(words.split()), text, replies))
    return found


def code(markdown: str) -> list[str]:
    """Every line of every block, and every code span outside the blocks."""
    lines = [line for block in blocks(markdown) for line in block.text.splitlines()]
    return lines + [match[2] for match in SPAN.finditer(FENCE.sub("", markdown))]


def links(markdown: str) -> list[str]:
    """Targets of the links that stay inside the project."""
    text = SPAN.sub("", FENCE.sub("", markdown))
    return [target for target in LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]


@cache
def anchors(path: Path) -> frozenset[str]:
    """The fragments that a page's headings can be reached by."""
    text = FENCE.sub("", path.read_text("utf-8"))
    titles = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)
