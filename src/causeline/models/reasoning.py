"""What a model thinks aloud in its text: `<think>...</think>` and its relatives are reasoning, not answer.

Law: pure, linear in the length of the text, and blind to how the text was cut into pieces. Tags inside code
(a fence, or backticks in a line) are text, because an answer may speak of them.

- A block that begins the text, or a line, is reasoning to its closing tag, or to the end if it is never closed.
- A block that begins in the middle of a line is reasoning where it is closed; an opening tag alone is text.
- A closing tag that nothing opened says that all before it was reasoning: the templates of some open models write the
  opening tag into the prompt.
"""

import re

_TAGS = ("<think>", "<thinking>", "<reasoning>", "[THINK]")
_MARK = re.compile(r"```|`|\n|(?i:</?(?:think|thinking|reasoning)>)|\[/?THINK\]")
_HEADS = frozenset(
    whole[:length].lower() for tag in _TAGS for whole in (tag, f"{tag[0]}/{tag[1:]}") for length in range(1, len(whole))
)  # fmt: skip
_LONGEST = max(map(len, _HEADS))
Piece = tuple[bool, str]
"""Whether it is reasoning, and a piece of text."""


def split_reasoning(text: str) -> tuple[str, str]:
    """`(reasoning, the text without it)`. The texts of several blocks are joined by blank lines."""
    if "<" not in text and "[" not in text:
        return "", text
    splitter = ReasoningSplitter()
    splitter.feed(text)
    splitter.end()
    return splitter.reasoning, splitter.text


class ReasoningSplitter:
    """Splits a text that arrives in pieces. `feed` and `end` return what can be passed on now.

    `voided` turns true when a closing tag shows that what was passed on as text was reasoning: whoever has passed it on takes
    it back, goes by `reasoning` and `text` from there, and sets `voided` to false.
    """

    def __init__(self) -> None:
        self.voided = False
        self._texts: list[str] = []
        self._blocks: list[list[str]] = []
        self._new: list[Piece] = []
        self._rest = ""
        self._tag = ""  # The opening tag of the block that is open.
        self._held: list[str] | None = None  # A block that began in the middle of a line, until it is closed.
        self._lead = ""  # White space before the first word of the text.
        self._fence = self._inline = False
        self._blank = self._line_blank = True

    @property
    def reasoning(self) -> str:
        blocks = ("".join(block).strip() for block in self._blocks)
        return "\n\n".join(block for block in blocks if block)

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def feed(self, piece: str) -> list[Piece]:
        rest = self._rest + piece
        end = len(rest) - _waiting(rest)
        self._read(rest[:end])
        self._rest = rest[end:]
        return self._taken()

    def end(self) -> list[Piece]:
        """What was held back, now that nothing follows."""
        self._read(self._rest)
        self._rest = ""
        if self._held is not None:
            held, self._held, self._tag = "".join(self._held), None, ""
            self._say(held)
        if self._lead and not self._blocks:
            self._add_text(self._lead)
        self._lead = ""
        return self._taken()

    def _taken(self) -> list[Piece]:
        new, self._new = self._new, []
        return new

    def _read(self, text: str) -> None:
        place = 0
        for match in _MARK.finditer(text):
            mark = match.group()
            if self._tag and (_opening(mark) != self._tag or "/" not in mark):
                continue  # Inside reasoning nothing counts but its closing tag.
            self._pass_on(text[place : match.start()])
            self._mark(mark)
            place = match.end()
        self._pass_on(text[place:])

    def _mark(self, mark: str) -> None:
        if self._tag:
            self._close()
        elif mark[0] in "`\n":
            self._code(mark)
        elif self._fence or self._inline:
            self._say(mark)
        elif "/" in mark:
            self._void()
        else:
            self._tag = _opening(mark)
            if self._line_blank:
                self._blocks.append([])
            else:
                self._held = [mark]

    def _code(self, mark: str) -> None:
        if mark == "```":
            self._fence = not self._fence
        elif mark == "`":
            self._inline = not self._fence and not self._inline
        self._say(mark)
        if mark == "\n":
            self._inline, self._line_blank = False, True

    def _close(self) -> None:
        self._tag = ""
        if self._held is not None:
            block, self._held = "".join(self._held[1:]), None
            self._blocks.append([])
            self._think(block)

    def _void(self) -> None:
        self._blocks.append([self.text])
        self._texts.clear()
        self._new.clear()
        self._lead = ""
        self.voided = self._blank = self._line_blank = True

    def _pass_on(self, text: str) -> None:
        if not text:
            return
        if self._held is not None:
            self._held.append(text)
        elif self._tag:
            self._think(text)
        else:
            self._say(text)

    def _think(self, text: str) -> None:
        self._blocks[-1].append(text)
        self._new.append((True, text))

    def _say(self, text: str) -> None:
        if self._blank:
            text = self._lead + text
            if not text.strip():
                self._lead = text
                return
            # White space between reasoning and answer belongs to neither.
            text = text.lstrip() if self._blocks else text
            self._lead, self._blank = "", False
        self._line_blank = self._line_blank and not text.strip()
        self._add_text(text)

    def _add_text(self, text: str) -> None:
        self._texts.append(text)
        self._new.append((False, text))


def _opening(mark: str) -> str:
    """The opening tag that `mark`, a tag, belongs to."""
    return mark.replace("/", "").lower()


def _waiting(text: str) -> int:
    """How many characters at the end of `text` may yet become a mark."""
    ticks = len(text) - len(text.rstrip("`"))
    if ticks:
        return ticks % 3
    start = max(text.rfind("<"), text.rfind("["), len(text) - _LONGEST)
    return len(text) - start if text[start:].lower() in _HEADS else 0
