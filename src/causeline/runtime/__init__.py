"""Sessions and runs that survive: records, the Store protocol, and the runtime over it."""

from causeline.runtime.program import GraphProgram

__all__ = ["GraphProgram"]
