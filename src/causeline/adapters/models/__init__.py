"""Models behind third-party libraries."""
