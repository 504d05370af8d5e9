"""JSON from outside, made safe: bounded, without repeated keys, NaN or values that only Python has.

Law: hands back plain JSON values or says what is wrong with a path; never a traceback of the parser.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, cast

from causeline.graph.documents.finding import DocumentError, Finding

MAX_BYTES = 16_000_000
MAX_DEPTH = 200

_PLAIN_KEY = re.compile(r"[A-Za-z_@$][\w$-]*\Z")


def join(path: str, key: str | int) -> str:
    """`nodes` + 3 -> `nodes[3]`, `outputs` + `a b` -> `outputs["a b"]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if _PLAIN_KEY.match(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def refuse(code: str, message: str, path: str = "") -> DocumentError:
    """The error of a text no Document can be built from."""
    return DocumentError("not a graph document", [Finding(code, None, message, path)])


def parse(data: bytes | str) -> tuple[Any, list[Finding]]:
    """Parse a JSON text. Repeated keys are findings (the last value counts); raises DocumentError for what is not JSON."""
    repeated: list[_Object] = []
    size = len(data)
    if size > MAX_BYTES:
        raise refuse("too_large", f"{size} bytes; a document may have {MAX_BYTES}")
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        value = json.loads(
            text.removeprefix("\ufeff"), object_pairs_hook=lambda pairs: _object(pairs, repeated), parse_constant=_no_constant
        )
    except UnicodeDecodeError as error:
        raise refuse("not_json", f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise refuse("not_json", f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise refuse("too_deep", f"nested deeper than {MAX_DEPTH}") from None
    except ValueError as error:
        raise refuse("not_json", str(error)) from None
    return value, [
        Finding("repeated_key", None, f"the key {key!r} is there more than once; the last one counts", path)
        for path, key in (_repeated(value) if repeated else ())
    ]


def plain_copy(value: Any) -> Any:
    """A deep copy made of exactly dict, list, str, int, float, bool and None. Raises DocumentError with the path otherwise."""
    return _copy(value, "", 0)


class _Object(dict[str, Any]):
    """A JSON object that remembers which keys came twice."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated = list(dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key)))


def _object(pairs: list[tuple[str, Any]], repeated: list[_Object]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    repeated.append(_Object(pairs))
    return repeated[-1]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _repeated(value: Any) -> Iterator[tuple[str, str]]:
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        path, one = todo.pop()
        if isinstance(one, _Object):
            yield from ((join(path, key), key) for key in one.repeated)
        if isinstance(one, dict):
            todo.extend((join(path, key), item) for key, item in cast("dict[str, Any]", one).items())
        elif isinstance(one, list):
            todo.extend((join(path, index), item) for index, item in enumerate(cast("list[Any]", one)))


def _copy(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise refuse("too_deep", f"nested deeper than {MAX_DEPTH}", path[:200])
    if isinstance(value, dict):
        return {_key(key, path): _copy(item, join(path, str(key)), depth + 1) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_copy(item, join(path, index), depth + 1) for index, item in enumerate(cast("list[Any]", value))]
    if value is None or type(value) in (bool, int):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is str:
        return _whole_text(value, path)
    raise refuse("not_json", f"{_described(value)} is not a JSON value", path)


def _described(value: Any) -> str:
    return repr(value) if isinstance(value, float) else f"a Python {type(value).__name__}"


def _key(key: Any, path: str) -> str:
    if type(key) is not str:
        raise refuse("not_json", f"the key {key!r} is not a text", path)
    return _whole_text(key, path)


def _whole_text(text: str, path: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise refuse("not_json", "half a surrogate pair in a text", path) from None
    return text
