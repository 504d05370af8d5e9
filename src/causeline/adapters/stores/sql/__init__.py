"""Stores in SQL databases: SQLite and PostgreSQL."""
