"""The RDF shape of a document, both ways: `to_linked` writes it, `from_linked` reads whatever a JSON-LD processor made of it.

In this shape every map is an ordered list of pairs (a route is a node with `port` and `to`), so expanding, turning into
RDF and framing or compacting with `terms.CONTEXT` loses nothing. Reading accepts expanded, flattened, framed and
compacted forms: nodes may be embedded anywhere, lists may be `@list` objects, literals may be typed values.

Law: pure, and no JSON-LD processor: only this vocabulary is understood.
"""

from collections.abc import Mapping
from typing import Any, cast

from causeline.graph.documents.context_names import Names, local
from causeline.graph.documents.finding import Finding
from causeline.graph.documents.plain_json import refuse
from causeline.graph.documents.vocabulary import CONTEXT, IRI_FIELDS, KEY, KINDS, LISTS, MAPS, XSD

_LINKS = IRI_FIELDS - {"@id", "entrypoints", "outputs"}
_PAIR_CLASSES = frozenset({"@type", "@id", "@index"})
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_FIRST, _REST, _NIL, _TYPE = f"{_RDF}first", f"{_RDF}rest", f"{_RDF}nil", f"{_RDF}type"
_MAX_EMBEDDING = 16


def to_linked(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The document `plain` (see `Document.plain`) in RDF shape, under `terms.CONTEXT`."""
    return {"@context": CONTEXT, **cast("dict[str, Any]", _pairs_for_maps(dict(plain), ""))}


def _pairs_for_maps(value: Any, field: str) -> Any:
    if isinstance(value, list):
        return [_pairs_for_maps(one, field) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    items = cast("dict[str, Any]", value)
    if field not in MAPS:
        return {key: _pairs_for_maps(one, key) for key, one in items.items()}
    first, second = MAPS[field]
    if field == "sources":
        return [{first: key, **one} if isinstance(one, dict) else {first: key, second: one} for key, one in items.items()]
    return [{first: key, second: one} for key, one in items.items()]


def from_linked(data: Any, names: Names, problems: list[Finding]) -> dict[str, Any]:
    """The plain document in `data`, faults added to `problems`. Raises DocumentError if there is no DAG, or more than one, in it."""
    subjects = _Subjects(names)
    subjects.collect(data, "")
    roots = [iri for iri, fields in subjects.found.items() if "DAG" in fields.get("@type", [])]
    if len(roots) != 1:
        raise refuse(
            "no_document" if not roots else "many_documents",
            f"{len(roots)} objects of type DAG; a document is exactly one" + (f": {', '.join(roots[:5])}" if roots else ""),
        )
    subjects.note_order(roots[0])
    document = subjects.build(roots[0], 0)
    problems.extend(subjects.problems)
    return document


class _Subjects:
    """All node objects of the input by id, each as field -> list of values; a reference is a `_Ref`."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.found: dict[str, dict[str, list[Any]]] = {}
        self.fresh = 0
        self.order: dict[str, int] = {}
        self.problems: list[Finding] = []

    def collect(self, value: Any, field: str) -> list[Any]:
        """The values a JSON-LD value stands for, with every node object inside it filed under its id."""
        if isinstance(value, list):
            return [one for item in cast("list[Any]", value) for one in self.collect(item, field)]
        if not isinstance(value, dict):
            return [value]
        item = cast("dict[str, Any]", value)
        if "@value" in item:
            return [_literal(item)]
        for wrapper in ("@list", "@set"):
            if wrapper in item:
                return self.collect(item[wrapper], field)
        if field in MAPS and not _is_pair(item, field, self.names):
            return [self._keep_map(item, field)]
        return [self._file(item)]

    def _file(self, item: dict[str, Any]) -> "_Ref":
        iri = item.get("@id", item.get("id") if self.names.field("id") == "@id" else None)
        if not isinstance(iri, str):
            self.fresh += 1
            iri = f"_:made{self.fresh}"
        iri = self.names.iri(iri)
        fields = self.found.setdefault(iri, {})
        for key, value in item.items():
            name = self.names.field(key)
            if name in ("@type", _TYPE):
                types = [one.iri if isinstance(one, _Ref) else one for one in self.collect(value, "")]
                fields.setdefault("@type", []).extend(self.names.kind(one) for one in types if isinstance(one, str))
            elif name in ("@graph", "@included"):
                self.collect(value, "")
            elif not name.startswith("@"):  # the same subject may be embedded many times; once is enough
                values = self.collect(value, name)
                fields.setdefault(name, values)
        return _Ref(iri)

    def _keep_map(self, item: dict[str, Any], field: str) -> "_Map":
        """A map written as a JSON object: its keys are data, not terms."""
        kept: dict[str, Any] = {}
        for key, value in item.items():
            if key not in _PAIR_CLASSES and key != "@context":
                name = local(key.removeprefix(KEY))
                kept[self.names.iri(name) if field == "sources" else name] = self.collect(value, "to")
        return _Map(kept)

    def note_order(self, root: str) -> None:
        placements = self._unchain(self.found[root].get("nodes", []))
        self.order = {one.iri: number for number, one in enumerate(placements) if isinstance(one, _Ref)}

    def build(self, iri: str, depth: int) -> dict[str, Any]:
        """The plain object of one subject."""
        if depth > _MAX_EMBEDDING:
            raise refuse("too_deep", f"{iri} holds itself")
        fields = self.found.get(iri, {})
        types = fields.get("@type", [])
        known = [one for one in types if one in KINDS or one in ("DAG", "DagReference")] or [one for one in types if one != "Placement"]
        made: dict[str, Any] = {} if iri.startswith("_:") else {"@id": iri}
        if known:
            made["@type"] = known[0]
        return made | {name: self._value(name, values, depth) for name, values in fields.items() if name != "@type"}

    def _value(self, field: str, values: list[Any], depth: int) -> Any:
        values = self._unchain(values)
        if field in MAPS:
            return self._map(field, values, depth)
        plain = [self._one(field, value, depth) for value in values]
        return plain if field in LISTS or len(plain) != 1 else plain[0]

    def _unchain(self, values: list[Any]) -> list[Any]:
        """Spell out an RDF list written as single triples (`rdf:first`, `rdf:rest`)."""
        if len(values) != 1 or not isinstance(values[0], _Ref):
            return values
        head, items, seen = values[0], list[Any](), set[str]()
        while isinstance(head, _Ref) and head.iri not in seen and _FIRST in (cell := self.found.get(head.iri, {})):
            seen.add(head.iri)
            items.extend(cell[_FIRST])
            head = next(iter(cell.get(_REST, ())), None)
        return items if items or values[0].iri == _NIL else values

    def _one(self, field: str, value: Any, depth: int) -> Any:
        if field in _LINKS and isinstance(value, str):
            value = _Ref(self.names.iri(value))
        if not isinstance(value, _Ref):
            return value
        is_reference = "DagReference" in self.found.get(value.iri, {}).get("@type", [])
        return value.iri if field in _LINKS and not is_reference else self.build(value.iri, depth + 1)

    def _map(self, field: str, values: list[Any], depth: int) -> Any:
        """Pairs become one object. Anything else stays as it is, for the reader to name."""
        first, second = MAPS[field]
        made: dict[str, Any] = {}
        for value in values:
            found = self.found.get(value.iri, {}) if isinstance(value, _Ref) else {}
            if isinstance(value, _Ref) and first in found:
                pair = self.build(value.iri, depth + 1)
                key = str(pair.pop(first))
                if key in made:
                    self.problems.append(
                        Finding("repeated_key", None, f"two pairs of {field!r} have the key {key!r}; the last one counts", field)
                    )
                made[key] = pair if field == "sources" else pair.get(second)
            elif isinstance(value, _Ref | _Map):
                items = value.items if isinstance(value, _Map) else {key.removeprefix(KEY): one for key, one in found.items()}
                made |= self._in_order(field, {key: self._map_value(field, second, one, depth) for key, one in items.items()})
            else:
                return values
        return made

    def _in_order(self, field: str, made: dict[str, Any]) -> dict[str, Any]:
        """RDF forgets the order of a map that was written as an object; where it means something, that of the placements stands in."""
        if field == "sources":
            return dict(sorted(made.items(), key=lambda item: self.order.get(item[0], -1)))
        if field == "entrypoints":
            return dict(sorted(made.items(), key=lambda item: (item[0] != "main", self.order.get(str(item[1]), -1))))
        return made

    def _map_value(self, field: str, second: str, items: list[Any], depth: int) -> Any:
        if field == "sources":
            return self.build(items[0].iri, depth + 1) if len(items) == 1 and isinstance(items[0], _Ref) else items
        return self._value(second, items, depth)


class _Ref:
    """A mention of a subject."""

    __slots__ = ("iri",)

    def __init__(self, iri: str) -> None:
        self.iri = iri


class _Map:
    """A map whose keys are data."""

    __slots__ = ("items",)

    def __init__(self, items: dict[str, list[Any]]) -> None:
        self.items = items


def _is_pair(item: dict[str, Any], field: str, names: Names) -> bool:
    """True for a pair such as `{port, to}`, False for a whole map in place of a list of pairs."""
    first, second = MAPS[field]
    fields = {names.field(key) for key in item} - _PAIR_CLASSES
    if not fields:
        return "@id" in item
    return first in fields and fields <= {first, second} and (field == "sources" or second in fields)


def _literal(item: dict[str, Any]) -> Any:
    """A typed value of RDF as a JSON value."""
    value, kind = item["@value"], item.get("@type")
    if not isinstance(value, str) or not isinstance(kind, str):
        return value
    kind = kind.removeprefix(XSD).removeprefix("xsd:")
    try:
        if kind == "boolean" and value in ("true", "false", "1", "0"):
            return value in ("true", "1")
        if kind == "integer":
            return int(value)
        if kind in ("double", "decimal", "float"):
            number = float(value)
            return int(number) if number.is_integer() else number
    except (ValueError, OverflowError):
        return value
    return value
