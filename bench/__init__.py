"""Benchmarks that run causeline beside a floor or a peer in the same process and print ratios."""
