"""What the runtime runs: a document, its nodes and what they need. The runtime does not know what an agent is.

An agent is one kind of program; a graph of somebody's own is another.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from causeline.graph import Document, Limits, Node
from causeline.tools.scope import RunScope


class Program(Protocol):
    """Something a run can execute.

    `fresh` says that a fork starts at the entrypoint with the branch's history, instead of at the
    checkpoint's position.
    """

    @property
    def name(self) -> str: ...

    @property
    def document(self) -> Document: ...

    @property
    def documents(self) -> Sequence[Document]:
        """Further documents that `document` may embed."""
        ...

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def fresh(self) -> bool: ...

    def manifest(self) -> Mapping[str, Any] | None:
        """The resolved definition as plain JSON, from which another process can build it again; None if it cannot."""
        ...

    def services(self, scope: RunScope) -> Mapping[type, object]:
        """What this program's nodes get from `ctx.use`, made anew for each run."""
        ...

    def check_answer(self, name: str, decision: Mapping[str, Any]) -> None:
        """Raises Invalid if a decision on a call of this tool cannot be carried out, such as edited arguments that do not fit."""
        ...
