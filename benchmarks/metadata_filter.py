"""Cost of document filters in a large library.

    python -m benchmarks.metadata_filter [--documents N] [--runs N]

Builds a library of N documents (default 100,000) of one passage each, with texts of 1,000 to 11,000
characters and six metadata keys. Prints one JSON object: for each filter the number of matching passages and
the median processor time of N runs in milliseconds: of a first search, which reads the field, and of later
ones.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.search_plans import measure
from shoal.filters.evaluation import Fields, find_documents
from shoal.filters.tree import joined
from shoal.search.filters import compile_filters
from shoal.search.request import make_filters
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.column_values import compact_json
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.support.clock import timestamp

SEED = 7
DOCUMENTS = """
    INSERT INTO documents (id, title, source_path, text_after, content_hash, format, n_bytes, n_chunks,
                           n_sentences, coverage, created_at, updated_at, metadata)
    VALUES (?, ?, ?, ?, ?, 'markdown', 0, 1, 1, 1.0, ?, ?, ?)
"""
SECTIONS = """
    INSERT INTO sections (id, document_id, section_index, level, path, heading_start, heading_end,
                          start_char, end_char)
    SELECT id, id, 0, 0, '[]', 0, 0, 0, 9 FROM documents
"""
CHUNKS = """
    INSERT INTO chunks (id, document_id, section_id, chunk_index, start_char, end_char, start_line, end_line,
                        sentence_count, confidence, coverage, matched_words, arch_score_0, arch_score_1,
                        arch_score_2, arch_score_3, norm, vocabulary_version, data_checksum, text,
                        top_reef_probability, profile)
    SELECT id, id, id, 0, 0, 9, 1, 1, 1, 1.0, 1.0, 1, 0, 0, 0, 0, 1.0, 0, '', SUBSTR(text_after, 1, 1000), 0,
           x''
    FROM documents
"""
FILTERS: tuple[dict[str, Any], ...] = (
    {"metadata": {"author": "Person 7"}},
    {"metadata": {"language": "de"}},
    {"metadata": {"year": 1999}},
    {"metadata": {"public": True}},
    {"metadata": {"language": "de", "year": 1999}},
    {"metadata": {"missing": "x"}},
    {"source_path": "notes/77.md"},
    {"tags": ["red"]},
)


def fill(database: Database, n: int) -> None:
    drawn = random.Random(SEED)
    words = "".join(drawn.choice("abcdefghij klmnop") for _ in range(40_000))
    now = timestamp()

    def metadata(i: int) -> dict[str, Any]:
        return {
            "source": "wiki",
            "language": drawn.choice(["de", "en", "fr"]),
            "year": drawn.randint(1990, 2025),
            "author": f"Person {drawn.randint(1, 500)}",
            "public": drawn.random() < 0.5,
            "url": f"https://example.org/articles/{i}",
        }

    def row(i: int) -> tuple[Any, ...]:
        start = drawn.randrange(29_000)
        content = f"{i} {words[start : start + drawn.randint(1_000, 11_000)]}"
        return i, f"Title {i}", f"notes/{i}.md", content, f"{i:064x}", now, now, compact_json(metadata(i))

    with database.write() as transaction:
        transaction.write_many(DOCUMENTS, [row(i) for i in range(1, n + 1)])
        for statement in (SECTIONS, CHUNKS):
            transaction.execute(statement)
        transaction.execute("INSERT INTO document_tags SELECT id, 'red' FROM documents WHERE id % 3 = 0")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    scorer = SimpleNamespace(reefs=(), islands=())
    results = {}
    with tempfile.TemporaryDirectory(prefix="shoal-metadata-") as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'shoal.db'}")
        migrate.upgrade(database)
        fill(database, options.documents)
        with database.snapshot() as snapshot:
            fields = Fields()
            for filters in FILTERS:
                compiled_filters = compile_filters(
                    make_filters(filters, Settings()), scorer, label_threshold=0.5
                )
                condition = joined(tuple(compiled_filters.by_filter.values()))
                assert condition is not None, "each filter has a condition"
                # Without what earlier filters have read.
                find = partial(find_documents, snapshot, tree=condition)
                results[json.dumps(filters)] = {
                    "passages": len(find(Fields())),
                    "first_ms": measure(lambda find=find: find(Fields()), options.runs),
                    "ms": measure(partial(find, fields), options.runs),
                }
        size = round(database.path.stat().st_size / 2**20)
        database.close()
    print(json.dumps({"documents": options.documents, "mebibytes": size, "filters": results}, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
