"""The kill-point sweep: python -m causeline.testing.killpoints."""
