"""The text of a graph: JSON-LD in and out, the builder, Mermaid."""
