"""Terms of RDF as plain values: an IRI or a blank node is text, everything else is a Literal.

Law: pure, and no library's types. A statement is `(subject, predicate, object, graph)`; graph None is the default graph.
"""

from dataclasses import dataclass

from causeline.errors import Invalid

XSD = "http://www.w3.org/2001/XMLSchema#"
PROV = "http://www.w3.org/ns/prov#"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
NS = "urn:causeline:ns:"


@dataclass(frozen=True, slots=True)
class Literal:
    """A text with a datatype's IRI or a language. `xsd:string` is what a literal without either is, so it reads back as None."""

    value: str
    datatype: str | None = None
    lang: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - numbers are what callers try
            raise Invalid(f"a Literal is text, not {type(self.value).__name__}; write Literal({str(self.value)!r}, XSD + 'integer')")
        if self.lang is not None and self.datatype is not None:
            raise Invalid("a Literal has a datatype or a language, not both")
        if self.datatype == f"{XSD}string":
            object.__setattr__(self, "datatype", None)


Term = str | Literal
Quad = tuple[str, str, Term, str | None]


def integer(value: int) -> Literal:
    """A whole number."""
    return Literal(str(value), f"{XSD}integer")


def decimal(value: float) -> Literal:
    """A number with a fraction, such as a cost."""
    return Literal(repr(float(value)), f"{XSD}double")


def boolean(value: bool) -> Literal:
    """True or false."""
    return Literal("true" if value else "false", f"{XSD}boolean")


def moment(value: str) -> Literal:
    """A time as it is stored, ISO 8601."""
    return Literal(value, f"{XSD}dateTime")
