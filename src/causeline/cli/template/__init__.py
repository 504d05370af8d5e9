"""The files that `causeline new` writes. They are a working agent as they stand."""
