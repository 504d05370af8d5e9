"""The words of an HTML page, without its markup."""

import re
from html.parser import HTMLParser

_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "head"})
_BLOCK = re.compile(
    r"address|article|aside|blockquote|br|dd|div|dl|dt|figcaption|figure|footer|form|h[1-6r]|header|li|main|nav|ol|p|pre|section|table|t[dhr]"
    r"|title|ul"
)


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._silent = 0
        self._title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in _SILENT
        self._title = tag == "title"
        if _BLOCK.fullmatch(tag):
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _SILENT and self._silent > 0
        if _BLOCK.fullmatch(tag):
            self.pieces.append("\n")
        self._title = False

    def handle_data(self, data: str) -> None:
        if self._title or not self._silent:
            self.pieces.append(data)


def page_text(html: str) -> str:
    """The title and the words, a line for each block; the page as it is where that leaves nothing."""
    words = _Words()
    words.feed(html)
    words.close()
    lines = (re.sub(r"\s+", " ", line).strip() for line in "".join(words.pieces).split("\n"))
    return "\n".join(line for line in lines if line) or html
