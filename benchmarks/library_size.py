"""What the bytes of a library are spent on, in times its text: `python -m benchmarks.library_size LIBRARY`.

LIBRARY is a database that no process uses, as `benchmarks.scale --keep` leaves one. SQLite must be compiled
with `dbstat`.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.scale_measures import size_of
from shoal.index.format import read_sections

TEXT = "SELECT SUM(n_bytes) FROM documents"
PAGES = "SELECT name, SUM(pgsize), SUM(unused) FROM dbstat GROUP BY name"
TABLE_OF = "SELECT name, tbl_name, type FROM sqlite_master"
COLUMNS = """
    SELECT SUM(LENGTH(CAST(text AS BLOB))), SUM(LENGTH(CAST(text_before AS BLOB))), SUM(LENGTH(profile))
    FROM chunks
"""
SEGMENTS = "SELECT file_name FROM index_segments"
LEARNING = {"observed_words", "word_evidence", "custom_words", "word_reefs"}
REEFS = {"reef_starts", "reef_ordinals", "reef_weights"}
POSITIONS = {"positions", "is_far", "far_starts", "far_pages"}


def parts_of_database(connection: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    """Yield names and bytes of the parts of the database file."""
    tables = {name: (table, kind) for name, table, kind in connection.execute(TABLE_OF)}
    parts: Counter[str] = Counter()
    for name, n_bytes, unused in connection.execute(PAGES):
        table, kind = tables.get(name, (name, "table"))
        if table in LEARNING:
            parts["database: learned words and what was observed of words"] += n_bytes
        elif table != "chunks":
            parts["database: everything else"] += n_bytes
        elif kind == "index":
            parts["database: SQL indexes of passages"] += n_bytes
        else:
            text, before, profiles = connection.execute(COLUMNS).fetchone()
            parts["database: text of passages"] = text
            parts["database: text between passages"] = before
            parts["database: profiles of passages"] = profiles
            parts["database: space left in pages of passages"] = unused
            parts["database: other columns of passages"] = n_bytes - unused - text - before - profiles
    (page_size,), (n_free,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_size", "freelist_count")
    )
    parts["database: free pages"] = page_size * n_free
    yield from parts.items()


def parts_of_index(connection: sqlite3.Connection, folder: Path) -> Iterator[tuple[str, int]]:
    """Yield names and bytes of the parts of the index."""
    parts: Counter[str] = Counter()
    total = 0
    for (name,) in connection.execute(SEGMENTS):
        content = (folder / name).read_bytes()
        total += len(content)
        for section, values in read_sections(content, verify=True).items():
            last = section.rpartition(".")[2]
            if section in REEFS:
                parts["index: reefs"] += values.nbytes
            elif last in POSITIONS:
                parts["index: positions of words"] += values.nbytes
            elif last in ("ordinals", "frequencies"):
                parts["index: words of passages"] += values.nbytes
            elif section.startswith("form"):
                parts["index: forms of words"] += values.nbytes
            else:
                parts["index: dictionaries and everything else"] += values.nbytes
    yield from parts.items()
    yield "index: files that are not used any more", size_of([folder]) - total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", type=Path)
    path = parser.parse_args().library
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        (text,) = connection.execute(TEXT).fetchone()
        parts = [*parts_of_database(connection), *parts_of_index(connection, Path(f"{path}-index"))]
    print("| part | times the text |\n|---|---:|")
    for name, n_bytes in sorted(parts, key=lambda part: (part[0].partition(":")[0], -part[1])):
        print(f"| {name} | {n_bytes / text:.3f} |")
    print(f"| together | {sum(n_bytes for _, n_bytes in parts) / text:.2f} |")


if __name__ == "__main__":
    main()
