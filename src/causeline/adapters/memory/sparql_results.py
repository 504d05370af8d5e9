"""What pyoxigraph answers, as plain JSON values; and which queries are refused before they run."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import pyoxigraph as ox

from causeline.errors import Exhausted, Invalid

T = TypeVar("T")

_STRING = "http://www.w3.org/2001/XMLSchema#string"
_LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
# In the order a parser sees them: an escape, texts, IRIs, comments. What is left are the words of the query.
_QUOTED = re.compile(
    r"\\.|\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|\"(?:\\.|[^\"\\\n\r])*\"|'(?:\\.|[^'\\\n\r])*'|<[^<>\"{}|^`\\\x00-\x20]*>|#[^\n\r]*",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
_SERVICE = re.compile(r"(?<![\w?$:-])SERVICE(?![\w-])", re.IGNORECASE)


def check_query(sparql: str) -> None:
    """Raises Invalid for a query that would ask another machine."""
    if not isinstance(sparql, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from callers
        raise Invalid(f"a SPARQL query is text, not {type(sparql).__name__}")
    for text in (sparql, _ESCAPE.sub(_character, sparql)):
        if _SERVICE.search(_QUOTED.sub(" ", text)):
            raise Invalid("SERVICE is not supported: a query sees what is stored here and asks no other machine", code="sparql")


def _character(escape: re.Match[str]) -> str:
    code = int(escape[1] or escape[2], 16)
    return chr(code) if code < 0x110000 else " "


def answer(store: ox.Store, sparql: str, *, most: int | None = None, **where: Any) -> tuple[list[str] | None, Any]:
    """The variables of a SELECT, None for another form; and the answer. SELECT: a list of `{variable: {type, value, datatype?, lang?}}`;
    ASK: a bool; CONSTRUCT and DESCRIBE: N-Triples text. Raises Invalid for a query that is not well formed, Exhausted for more than
    `most` rows."""
    check_query(sparql)
    try:
        result = store.query(sparql, **where)
        if isinstance(result, ox.QueryBoolean):
            return None, bool(result)
        if isinstance(result, ox.QuerySolutions):
            names = [(variable, variable.value) for variable in result.variables]
            rows = _bounded(result, most)
            found = [{name: plain(term) for variable, name in names if (term := solution[variable]) is not None} for solution in rows]
            return [name for _, name in names], found
        return None, triples_text(_bounded(result, most))
    except (SyntaxError, ValueError) as error:
        raise Invalid(f"the SPARQL query is not well formed: {error}", code="sparql") from error
    except OSError as error:
        raise Invalid(f"the SPARQL query cannot be evaluated: {error}", code="sparql") from error


def _bounded(rows: Iterable[T], most: int | None) -> Iterator[T]:
    for number, row in enumerate(rows):
        if most is not None and number >= most:
            raise Exhausted(f"the answer has more than {most:,} rows; add a LIMIT", limit="rows", code="query_limit")
        yield row


def triples_text(triples: Iterable[Any]) -> str:
    """N-Triples, sorted, each statement once."""
    data: Any = ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES)
    return "".join(f"{line}\n" for line in sorted(set(data.decode().splitlines())))


def plain(term: Any) -> dict[str, Any]:
    """One term: `{type: "uri" | "bnode" | "literal" | "triple", value, datatype?, lang?}`."""
    if isinstance(term, ox.NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, ox.BlankNode):
        return {"type": "bnode", "value": term.value}
    if isinstance(term, ox.Literal):
        row = {"type": "literal", "value": term.value}
        if term.language is not None:
            row["lang"] = term.language
        elif term.datatype.value not in (_STRING, _LANG_STRING):
            row["datatype"] = term.datatype.value
        return row
    return {"type": "triple", "value": str(term)}
