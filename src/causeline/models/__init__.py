"""Talking to a model, without knowing which."""
