"""The database as one file, in SQLite: the default."""
