"""The database: connections and transactions, and the SQL of each table.

SQL is plain where it can be. These parts are SQLite's own: connections, locking and PRAGMA (`database.py`),
files (`database_files.py`; backup, restore and file checks in `shoal.maintenance`), interrupts
(`read_deadline.py`), error codes (`sqlite_errors.py`), the catalog (`schema.py`, `migrate.py`), and packed or
JSON lists of numbers (`packed_columns.py`; `json_each` and `group_concat` in `shoal.search`). The index of
searches is not SQLite's: `index_tables.py` names its files.
"""
