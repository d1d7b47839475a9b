"""The query log: what was searched for, what was found, and what was clicked."""
