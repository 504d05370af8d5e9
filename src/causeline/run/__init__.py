"""What agent and runtime share: what a step knows of its run, and the call ledger."""
