"""Walking a document: plans, positions, channels, and the driver that awaits nodes and the journal."""
