"""Whose request this is.

Law: without tokens and without a hook only this machine is served, under a name that means this machine, so that no web page can
reach in by a name of its own (DNS rebinding). Tokens are compared in a time that does not depend on what they hold.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable

from fastapi import Request

from causeline.api.problems import Problem
from causeline.errors import Invalid

Auth = Callable[[Request], "str | Awaitable[str | None] | None"]
"""Says whose request it is; None: nobody's, and the request is refused."""
DEFAULT_OWNER = "default"
LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})


class Access:
    """Decides the owner of a request: by a hook of the user's own, by bearer tokens (token -> owner), or, with neither, `default`
    for this machine alone. Raises Invalid for an empty token or owner."""

    def __init__(self, auth: Auth | None = None, tokens: Mapping[str, str] | None = None) -> None:
        if any(not token or not owner for token, owner in (tokens or {}).items()):
            raise Invalid("a token and its owner are both text that is not empty")
        self._auth = auth
        self._owners = [(hashlib.sha256(token.encode()).digest(), owner) for token, owner in (tokens or {}).items()]

    @property
    def is_open(self) -> bool:
        """True where nobody has to say who they are, so that only loopback may be served."""
        return self._auth is None and not self._owners

    async def owner_of(self, request: Request) -> str:
        """Raises Problem (401, 403)."""
        if self._auth is not None:
            answer = self._auth(request)
            owner = await answer if isawaitable(answer) else answer
            if not owner:
                raise _unauthorized("these credentials are not accepted")
            return owner
        if self.is_open:
            if _host_name(request.headers.get("host", "")) not in LOCAL_NAMES:
                raise Problem(403, "unauthorized", "without tokens this server answers only under the names 127.0.0.1 and localhost")
            return DEFAULT_OWNER
        return self._owner_of_token(request.headers.get("authorization", ""))

    def _owner_of_token(self, header: str) -> str:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _unauthorized("send the header Authorization: Bearer TOKEN")
        digest, owner = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest(), None
        for known, name in self._owners:  # all of them, so that the time tells nothing
            if hmac.compare_digest(known, digest):
                owner = name
        if owner is None:
            raise _unauthorized("this token is not known")
        return owner


def _unauthorized(detail: str) -> Problem:
    return Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="causeline"'})


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host
