"""Laws and doubles for people who write backends and agents: what the protocols promise, as tests anybody can run."""

from causeline.testing.recorded import Recorded

__all__ = ["Recorded"]
