"""What the words of a document mean under its `@context`: prefixes, terms, aliases of keywords.

Law: a context is data; nothing is fetched. Only what names need is read of it.
"""

from collections.abc import Mapping
from typing import Any, cast

from causeline.graph.documents.finding import Finding
from causeline.graph.documents.plain_json import join
from causeline.graph.documents.vocabulary import DAG, GRAPH


class Names:
    """Resolves the keys, types and IRIs of one document. `problems` are faults of the context itself."""

    def __init__(self, context: Any) -> None:
        self.problems: list[Finding] = []
        self.terms: dict[str, str] = {}
        self.context: Mapping[str, Any] = {}
        self._read(context, "@context")

    def _read(self, context: Any, path: str) -> None:
        if context is None:
            return
        if isinstance(context, list):
            for index, part in enumerate(cast("list[Any]", context)):
                self._read(part, join(path, index))
        elif isinstance(context, dict):
            self.context = {**self.context, **cast("dict[str, Any]", context)}
            self._read_terms(cast("dict[str, Any]", context), path)
        elif isinstance(context, str):
            self._complain("context_remote", f"{context!r} would have to be fetched; write the context into the document", path)
        else:
            self._complain("wrong_type", "must be an object", path)

    def _complain(self, code: str, message: str, path: str) -> None:
        self.problems.append(Finding(code, None, message, path))

    def _read_terms(self, context: dict[str, Any], path: str) -> None:
        prefixes: dict[str, str] = {}
        raw: dict[str, str] = {}
        for term, definition in context.items():
            meaning = definition.get("@id") if isinstance(definition, dict) else definition  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            if term.startswith("@") or not isinstance(meaning, str):
                continue
            raw[term] = meaning
            if isinstance(definition, str) and not meaning.startswith("@") and prefixes.setdefault(meaning, term) != term:
                self._complain(
                    "context_prefix",
                    f"{term!r} and {prefixes[meaning]!r} stand for the same namespace {meaning!r}; keep one",
                    join(path, term),
                )
        self.terms |= raw
        self.terms |= {term: self.iri(meaning) for term, meaning in raw.items() if not meaning.startswith("@")}

    def iri(self, text: str) -> str:
        """Expand `prefix:rest` if the prefix is declared."""
        prefix, colon, rest = text.partition(":")
        if colon and not rest.startswith("//") and prefix in self.terms and not text.startswith("_:"):
            return self.terms[prefix] + rest
        return text

    def field(self, key: str) -> str:
        """The canonical name of a key: a keyword, a field of documents, or a full IRI for what is foreign."""
        if key.startswith("@"):
            return key
        return local(self.terms.get(key) or self.iri(key))

    def kind(self, name: str) -> str:
        """The canonical name of a class."""
        return local(self.terms.get(name) or self.iri(name))


def local(iri: str) -> str:
    """The bare name of an IRI in one of the two namespaces of documents, else the IRI unchanged."""
    for namespace in (DAG, GRAPH):
        if iri.startswith(namespace):
            return iri[len(namespace) :]
    return iri


def is_foreign(field: str) -> bool:
    """True for an annotation from another vocabulary, which a document may carry anywhere."""
    return ":" in field
