"""What can be said against a document before anything runs."""
