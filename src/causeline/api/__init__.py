"""The doors of a server: /v1, AG-UI, SPARQL. They hold no logic; what a door needs, the runtime does."""

from causeline.api.application import app, router
from causeline.api.request_limits import RequestLimits

__all__ = ["RequestLimits", "app", "router"]
