"""A library in PostgreSQL."""
