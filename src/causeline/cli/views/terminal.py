"""The two streams of a command: what it says on standard output, what went wrong on standard error.

Law: styles only for a terminal, and none of them where NO_COLOR is set; a character the terminal cannot show
becomes a question mark, never an error.
"""

import os
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text

from causeline.cli.views.narration import Piece, Style

if TYPE_CHECKING:
    from rich.status import Status  # loaded when something moves first

_STYLES: Mapping[Style, str] = {
    "plain": "", "quiet": "dim", "call": "cyan", "good": "green", "bad": "red", "title": "bold",
}  # fmt: skip


class Terminal:
    """Prints pieces and lines, without wrapping and without reading markup into them."""

    def __init__(self, *, error: bool = False) -> None:
        self._console = Console(stderr=error, highlight=False, markup=False, emoji=False)
        self._moving: Status | None = None
        self._styled = not os.environ.get("NO_COLOR")

    def pieces(self, pieces: Iterable[Piece]) -> None:
        self.status(None)
        for piece in pieces:
            self._console.print(Text(piece.text, style=_STYLES[piece.style] if self._styled else ""), end="", soft_wrap=True)

    def status(self, line: str | None) -> None:
        """One line below all others that moves while something is at work, and is gone with the next word; None takes it away. Nothing
        where there is no terminal to move on."""
        if line is None:
            if self._moving is not None:
                self._moving.stop()
                self._moving = None
        elif self._moving is not None:
            self._moving.update(Text(line, style="dim"))
        elif self._console.is_terminal and not self._console.is_dumb_terminal:
            self._moving = self._console.status(Text(line, style="dim"))
            self._moving.start()

    def say(self, text: str = "", style: Style = "plain") -> None:
        """One line, or several."""
        self.pieces((Piece(f"{text}\n", style),))

    @property
    def width(self) -> int:
        """Where to cut a line: the terminal's width if it is one, and wide enough for an id and some words."""
        return max(self._console.width, 100) if self._console.is_terminal else 160


_program_output: list[TextIO] = []


def program_output() -> TextIO:
    """Where a program reads what the command says: standard output, also while `set_aside` keeps everybody else from it."""
    return _program_output[-1] if _program_output else sys.stdout


@contextmanager
def set_aside() -> Generator[None]:
    """Whatever tools, their modules, C code and child processes print goes to standard error."""
    with _own_descriptor(sys.stdout) as out, redirect_stdout(sys.stderr):
        _program_output.append(out)
        try:
            yield
        finally:
            _program_output.pop()


@contextmanager
def _own_descriptor(stream: TextIO) -> Generator[TextIO]:
    """`stream` under a descriptor nobody else knows, while its own one leads to standard error. One that has none is given as it is."""
    try:
        number = stream.fileno()
        stream.flush()
    except OSError:
        yield stream
        return
    kept = os.dup(number)
    try:
        os.dup2(sys.stderr.fileno(), number)
    except OSError:  # there is no standard error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
    out = os.fdopen(kept, "w", encoding=stream.encoding, errors="replace")
    try:
        yield out
    finally:
        with suppress(OSError):  # nobody reads any more
            out.flush()
        os.dup2(kept, number)
        with suppress(OSError):
            out.close()


def harden_streams() -> None:
    """Make both streams survive any text."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def table(rows: Iterable[Iterable[str]]) -> list[str]:
    """Columns as wide as their widest cell, two blanks between them."""
    cells = [list(row) for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
