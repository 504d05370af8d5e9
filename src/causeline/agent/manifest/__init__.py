"""An agent written down as a file."""
