"""Laws and doubles for people who write backends: what the protocols promise, as tests anybody can run."""
