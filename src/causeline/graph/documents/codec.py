"""The one door for graph documents: bytes, text, a path or plain JSON in, a Document out.

Accepted are the reference's documents (its context, an empty one, prefixes) and every JSON-LD form of a document written
by `to_linked`. Law: whatever comes in, a Document with its `problems` comes out, or DocumentError; nothing else.
"""

from typing import Any, Protocol, cast

from causeline.graph.documents.context_names import Names
from causeline.graph.documents.document import Document
from causeline.graph.documents.finding import Finding
from causeline.graph.documents.plain_json import MAX_BYTES, join, parse, plain_copy, refuse
from causeline.graph.documents.rdf_shape import from_linked, to_linked
from causeline.graph.documents.reader import read_document
from causeline.graph.documents.vocabulary import IRI_FIELDS, MAPS

_DATA_KEYS = frozenset({"mapping", "partitions", "input", "output", "outputs", "entrypoints", "sources"})
_NAMES_IRIS = frozenset({"outputs", "entrypoints"})


class PathLike(Protocol):
    """A path object. (The name of a file is the only thing this package ever opens.)"""

    def __fspath__(self) -> str: ...


Source = bytes | str | PathLike | dict[str, Any] | list[Any]


def load(source: Source) -> Document:
    """Read a document. A str is JSON text if it begins with `{` or `[`, else a path; a dict or list is parsed JSON already.

    Raises DocumentError if no Document can be built; other faults are in `Document.problems`, which `check` reports.
    """
    try:
        return _load(source)
    except RecursionError:  # the bound of depth is far off, but the caller's own stack may be near its end
        raise refuse("too_deep", "nested deeper than there is stack left") from None


def _load(source: Source) -> Document:
    value, problems = _json_of(source)
    data = _unwrapped(plain_copy(value))
    if not isinstance(data, dict | list):
        raise refuse("no_document", "a graph document is a JSON object")
    names = Names(cast("dict[str, Any]", data).get("@context") if isinstance(data, dict) else None)
    problems.extend(names.problems)
    if _is_linked(data, names):
        plain = plain_copy(from_linked(data, names, problems))
    else:
        plain = cast("dict[str, Any]", _settle(data, "", "", names, problems))
    return read_document(plain, names.context, problems)


def _unwrapped(data: Any) -> Any:
    """One document in an array, or alone in a `@graph`, is that document: what wraps it says nothing."""
    if isinstance(data, list) and len(cast("list[Any]", data)) == 1:
        return _unwrapped(cast("list[Any]", data)[0])
    if isinstance(data, dict) and cast("dict[str, Any]", data).keys() <= {"@context", "@graph"}:
        fields = cast("dict[str, Any]", data)
        inner = _unwrapped(fields.get("@graph"))
        outer, own = fields.get("@context", {}), cast("dict[str, Any]", inner).get("@context", {}) if isinstance(inner, dict) else None
        if isinstance(outer, dict) and isinstance(own, dict):
            return {**cast("dict[str, Any]", inner), "@context": {**cast("dict[str, Any]", outer), **cast("dict[str, Any]", own)}}
    return cast("object", data)


def dump_linked(document: Document) -> dict[str, Any]:
    """The document under causeline's own context, in the shape that stays whole as RDF. `load` reads it back, hash unchanged."""
    return to_linked(document.plain)


def _json_of(source: Source) -> tuple[Any, list[Finding]]:
    if isinstance(source, dict | list):
        return source, []
    if isinstance(source, bytes | bytearray | memoryview):
        return parse(bytes(source))
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        return parse(source)
    if not isinstance(source, str) and not hasattr(source, "__fspath__"):
        raise refuse("not_json", f"cannot load a {type(source).__name__}; give bytes, text, a path, a dict or a list")
    try:
        with open(source, "rb") as file:  # noqa: PTH123  (pathlib would open the disk to the whole package)
            return parse(file.read(MAX_BYTES + 1))
    except (OSError, ValueError) as error:
        raise refuse("unreadable", f"cannot read {str(source)[:200]!r}: {getattr(error, 'strerror', None) or error}") from None


def _is_linked(data: Any, names: Names) -> bool:
    """True for any form in which maps are lists of pairs or subjects are spread out."""
    if isinstance(data, list):
        return True
    fields = {names.field(key): value for key, value in data.items()}
    entrypoints, nodes = fields.get("entrypoints"), fields.get("nodes")
    pairs = isinstance(entrypoints, list) and any(isinstance(one, dict) for one in cast("list[Any]", entrypoints))
    return "@graph" in data or pairs or isinstance(nodes, dict) or (isinstance(entrypoints, dict) and "@list" in entrypoints)


def _settle(value: Any, field: str, path: str, names: Names, problems: list[Finding]) -> Any:
    """Canonical names for keys and types, full IRIs where the field holds IRIs. Keys of maps are data and stay."""
    if isinstance(value, dict):
        made: dict[str, Any] = {}
        for key, item in cast("dict[str, Any]", value).items():
            if field == "@context" or key == "@context":
                continue
            name = _key(key, field, names)
            if name in made:
                problems.append(Finding("repeated_key", None, f"{key!r} and another key both mean {name!r}", join(path, key)))
            inner = field if field in _NAMES_IRIS else "" if field in MAPS else name
            made[name] = _settle(item, inner, join(path, key), names, problems)
        return made
    if isinstance(value, list):
        return [_settle(one, field, join(path, index), names, problems) for index, one in enumerate(cast("list[Any]", value))]
    if isinstance(value, str):
        return names.kind(value) if field == "@type" else names.iri(value) if field in IRI_FIELDS else value
    return value


def _key(key: str, field: str, names: Names) -> str:
    if field == "sources":
        return names.iri(key)
    return key if field in _DATA_KEYS else names.field(key)
