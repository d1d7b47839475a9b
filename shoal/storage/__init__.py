"""The database: connections and transactions, and the SQL of each table.

`database.py` is what every database offers, and `opening.py` opens one. SQL is plain where it can be. These
parts are SQLite's own: all of `sqlite/` (connections, locks, files, error codes), backup, restore and file
checks in `shoal.maintenance`, interrupts (in `database.py`), the catalog (`schema.py`, `migrate.py`), and
packed or JSON lists of numbers (`column_values.py`; `json_each` and `group_concat` in `shoal.search`). The
index of searches is not SQLite's: `index_tables.py` names its files.
"""
