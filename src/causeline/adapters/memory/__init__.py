"""Memory on third-party libraries: the triple store."""
