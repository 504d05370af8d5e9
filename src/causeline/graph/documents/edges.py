"""Edge conditions: a small language over the state that decides where a visit goes next.

    _tool_call_name!=                 present and not empty          status=                    missing or empty
    status=done,failed                one of                         status!=done,failed        none of
    score >= 0.5 and not (user.role = "guest" or tries > 3)

Comparison `= != > < >= <=`; `and`, `or`, `not`, parentheses. The left side is a channel or a dotted path into one
(`user.role`, `rows.0.id`); a channel whose whole name matches goes first. Quotes keep a value or a name as it is.
Text is compared stripped, in lower case and without trailing `.,!?;:`; two numbers are compared as numbers.
A missing value or null: `=x` is false, `!=x` is true. The other four operators are false unless both sides are numbers.

Law: pure; a text either compiles or raises EdgeError with the position of the fault, it is never silently false.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from operator import ge, gt, le, lt
from typing import Any, NoReturn

from causeline.errors import Invalid

Test = Callable[[Mapping[str, Any]], bool]
ERROR_EDGE = "__error__"
"""A condition that stands for the port `error`."""
MAX_LENGTH = 2000
MAX_DEPTH = 32

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<op>>=|<=|!=|=|>|<) | (?P<punct>[(),]) | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<word>(?:[^\s,()"'=<>!]|!(?!=))(?:[^\s,()=<>!]|!(?!=))*))""",
    re.VERBOSE,
)
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,4000}\s*\Z")
_KEYWORDS = frozenset({"and", "or", "not"})


class EdgeError(Invalid):
    """A condition that does not parse. `position` counts characters from 0."""

    code = "condition_invalid"

    def __init__(self, text: str, position: int, what: str) -> None:
        super().__init__(f"condition {text!r}, character {position + 1}: {what}", position=position)
        self.position = position


def compile_test(text: str) -> Test:
    """Compile a condition. Raises EdgeError."""
    if len(text) > MAX_LENGTH:
        raise EdgeError(
            text[:40] + "...", MAX_LENGTH, f"longer than {MAX_LENGTH} characters; split the decision over several edges or a node"
        )
    parser = _Parser(text)
    test = parser.either(0)
    if parser.kind:
        parser.fail(f"unexpected {parser.value!r}; join comparisons with `and` or `or`, and quote a value that holds special characters")
    return test


class _Parser:
    """Recursive descent with one token of look-ahead: `kind`, `value`, and `start` as a position in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = self.end = 0
        self.kind = self.value = ""
        self.advance()

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            rest = self.text[self.end :]
            self.start = self.end + len(rest) - len(rest.lstrip())
            if rest.strip():
                quote = self.text[self.start]
                self.fail("this quote is never closed" if quote in "\"'" else f"unexpected {quote!r}; did you mean `!=`?")
            self.kind, self.value = "", ""
            return
        self.kind = match.lastgroup or ""
        self.value = match.group(self.kind)
        self.start, self.end = match.start(self.kind), match.end()

    def fail(self, what: str) -> NoReturn:
        raise EdgeError(self.text, self.start, what)

    def keyword(self) -> str:
        """The keyword at hand, unless an operator follows it (then it is a channel of that name)."""
        word = self.value.lower() if self.kind == "word" else ""
        following = _TOKEN.match(self.text, self.end)
        return "" if word not in _KEYWORDS or (following and following.lastgroup == "op") else word

    def either(self, depth: int) -> Test:
        tests = [self.every(depth)]
        while self.keyword() == "or":
            self.advance()
            tests.append(self.every(depth))
        return tests[0] if len(tests) == 1 else lambda state: any(test(state) for test in tests)

    def every(self, depth: int) -> Test:
        tests = [self.negation(depth)]
        while self.keyword() == "and":
            self.advance()
            tests.append(self.negation(depth))
        return tests[0] if len(tests) == 1 else lambda state: all(test(state) for test in tests)

    def negation(self, depth: int) -> Test:
        if depth > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH}")
        if self.keyword() == "not":
            self.advance()
            inner = self.negation(depth + 1)
            return lambda state: not inner(state)
        if self.value == "(" and self.kind == "punct":
            self.advance()
            inner = self.either(depth + 1)
            if not self.closing():
                self.fail("a `)` is missing here")
            self.advance()
            return inner
        return self.comparison()

    def comparison(self) -> Test:
        if self.kind not in ("word", "quoted") or self.keyword():
            self.fail(
                f"expected the name of a channel, found {self.value!r}" if self.kind else "expected a comparison such as `status=done`"
            )
        path = (_unquote(self.value),) if self.kind == "quoted" else _split(self.value)
        operator, place = self.operator()
        values = self.values()
        if operator in ("=", "!="):
            return _equality(path, operator == "=", values)
        number = _number(values[0]) if len(values) == 1 else None
        if number is None:
            self.start = place
            self.fail(f"`{operator}` needs one number on its right")
        return _ordering(path, operator, number)

    def operator(self) -> tuple[str, int]:
        name = self.value
        self.advance()
        operator, place = self.value, self.start
        if self.kind != "op":
            self.fail(f"expected one of = != > < >= <= after {name!r}")
        self.advance()
        return operator, place

    def values(self) -> list[str]:
        """Alternatives up to the next keyword, closing parenthesis or the end; none at all means empty."""
        if self.finished():
            return []
        found = [self.one_value()]
        while self.kind == "punct" and self.value == ",":
            self.advance()
            found.append(self.one_value())
        return found

    def finished(self) -> bool:
        return not self.kind or self.closing() or bool(self.keyword())

    def closing(self) -> bool:
        return self.kind == "punct" and self.value == ")"

    def one_value(self) -> str:
        if self.kind == "quoted":
            value = _unquote(self.value)
            self.advance()
            return value
        words: list[str] = []
        while self.kind == "word" and not self.keyword():
            words.append(self.value)
            self.advance()
        if not words:
            self.fail(f"expected a value, found {self.value or 'the end'!r}; quote a value that holds special characters")
        return " ".join(words)


def _unquote(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted[1:-1])


def _split(name: str) -> tuple[str, ...]:
    return (name, *name.split(".")) if "." in name else (name,)


def _look(state: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """`path` is the whole name, then its dotted parts; None stands for missing."""
    if path[0] in state or len(path) == 1:
        return state.get(path[0])
    found: Any = state
    for part in path[1:]:
        if isinstance(found, Mapping):
            found = found.get(part)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        elif isinstance(found, Sequence) and not isinstance(found, str) and part.isascii() and part.isdigit():
            found = found[int(part)] if int(part) < len(found) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        else:
            return None
    return found  # pyright: ignore[reportUnknownVariableType]


def _text(value: Any) -> str:
    return str(value).strip().lower().rstrip(".,!?;:")


def _number(value: Any) -> int | float | None:
    """The number a value is or spells; whole ones stay exact at any size. None for anything else and for NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        try:
            value = int(value) if _WHOLE.match(value) else float(value)
        except ValueError:
            return None
    return None if isinstance(value, float) and math.isnan(value) else value


def _equality(path: tuple[str, ...], wanted: bool, values: list[str]) -> Test:
    if not values or values == [""]:
        return lambda state: (_look(state, path) in (None, "")) is wanted
    texts = frozenset(_text(value) for value in values)
    numbers = frozenset(number for value in values if (number := _number(value)) is not None)

    def test(state: Mapping[str, Any]) -> bool:
        value = _look(state, path)
        hit = value is not None and (_text(value) in texts or (bool(numbers) and _number(value) in numbers))
        return hit is wanted

    return test


def _ordering(path: tuple[str, ...], operator: str, right: float) -> Test:
    compare: Callable[[float, float], bool] = {">": gt, "<": lt, ">=": ge, "<=": le}[operator]

    def test(state: Mapping[str, Any]) -> bool:
        left = _number(_look(state, path))
        return left is not None and compare(left, right)

    return test
