"""Answers to SPARQL queries in the forms of the standards: JSON, XML, CSV and TSV for tables, JSON and XML for yes and no, N-Triples (which
are Turtle) for graphs.

Law: pure. What is written can be read back by any reader of that form, whatever is in it.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from causeline.memory.provenance import Answer

RESULTS, XML = "application/sparql-results+json", "application/sparql-results+xml"
TRIPLES, TURTLE = "application/n-triples", "text/turtle"
Form = Callable[[Answer], str]
Term = Mapping[str, Any]
_HEAD = '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">'
_NOT_IN_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _json(answer: Answer) -> str:
    rows = [{name: _named(term) for name, term in row.items()} for row in answer.value]
    return json.dumps({"head": {"vars": list(answer.variables or ())}, "results": {"bindings": rows}}, ensure_ascii=False)


def _named(term: Term) -> Term:
    return {"xml:lang" if key == "lang" else key: value for key, value in term.items()}


def _xml(answer: Answer) -> str:
    names = "".join(f"<variable name={quoteattr(name)}/>" for name in answer.variables or ())
    rows = "".join(f"<result>{''.join(_bound(name, term) for name, term in row.items())}</result>" for row in answer.value)
    return f"{_HEAD}<head>{names}</head><results>{rows}</results></sparql>"


def _bound(name: str, term: Term) -> str:
    text = escape(_NOT_IN_XML.sub("\ufffd", term["value"]), {"\r": "&#13;"})
    if term["type"] != "literal":
        inner = f"<{term['type']}>{text}</{term['type']}>"
    else:
        more = f" xml:lang={quoteattr(term['lang'])}" if "lang" in term else ""
        more += f" datatype={quoteattr(term['datatype'])}" if "datatype" in term else ""
        inner = f"<literal{more}>{text}</literal>"
    return f"<binding name={quoteattr(name)}>{inner}</binding>"


def _csv(answer: Answer) -> str:
    return _lines(answer, lambda term: f"_:{term['value']}" if term["type"] == "bnode" else term["value"])


def _lines(answer: Answer, written: Callable[[Term], str]) -> str:
    names: Sequence[str] = answer.variables or ()
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\r\n")
    lines.writerow(names)
    lines.writerows([written(row[name]) if name in row else "" for name in names] for row in answer.value)
    return text.getvalue()


def _tsv(answer: Answer) -> str:
    names: Sequence[str] = answer.variables or ()
    lines = ["\t".join(f"?{name}" for name in names)]
    lines += ["\t".join(_term(row[name]) if name in row else "" for name in names) for row in answer.value]
    return "".join(f"{line}\n" for line in lines)


def _term(term: Term) -> str:
    """A term as Turtle has it."""
    if term["type"] != "literal":
        return f"<{term['value']}>" if term["type"] == "uri" else f"_:{term['value']}"
    text = str(term["value"]).translate(_ESCAPES)
    more = f"@{term['lang']}" if "lang" in term else f"^^<{term['datatype']}>" if "datatype" in term else ""
    return f'"{text}"{more}'


def _boolean_json(answer: Answer) -> str:
    return json.dumps({"head": {}, "boolean": answer.value})


def _boolean_xml(answer: Answer) -> str:
    return f"{_HEAD}<head/><boolean>{'true' if answer.value else 'false'}</boolean></sparql>"


def _triples(answer: Answer) -> str:
    return answer.value


TABLE_FORMS: Mapping[str, Form] = {RESULTS: _json, XML: _xml, "text/csv": _csv, "text/tab-separated-values": _tsv}
BOOLEAN_FORMS: Mapping[str, Form] = {RESULTS: _boolean_json, XML: _boolean_xml}
GRAPH_FORMS: Mapping[str, Form] = {TRIPLES: _triples, TURTLE: _triples}
