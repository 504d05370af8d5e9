"""What is read off a causal log: bounded views for a model, digests and drawings."""
