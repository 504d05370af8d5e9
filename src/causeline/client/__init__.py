"""The verbs of a Runtime over HTTP."""

from causeline.client.http_client import Client

__all__ = ["Client"]
