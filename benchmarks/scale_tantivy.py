"""The chunks of a library in tantivy, a search engine to compare with; see benchmarks/scale.py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import tantivy

from benchmarks.scale_corpus import Query
from shoal.storage.opening import open_database

HEAP_BYTES = 256_000_000
BEST = 10
FIELDS = ["title", "text"]


class TantivyIndex:
    """Titles and texts of all chunks, with English stems. A query ranks by any of its words."""

    def __init__(self, database: Path, folder: Path) -> None:
        """`seconds`: time of indexing."""
        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("id", stored=True)
        for field in FIELDS:
            builder.add_text_field(field, tokenizer_name="en_stem", index_option="position")
        self._index = tantivy.Index(builder.build(), path=str(folder))
        began = time.perf_counter()
        writer = self._index.writer(HEAP_BYTES)
        for chunk_id, title, text in _chunks(database):
            writer.add_document(tantivy.Document(id=chunk_id, title=title, text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self.seconds = time.perf_counter() - began
        self._searcher = self._index.searcher()

    def search(self, query: Query) -> list[int]:
        """Ids of the best chunks, best first."""
        # Upper case would be an operator. A phrase is required, as it is in Shoal.
        text = query.text.lower()
        parsed = self._index.parse_query(f"+{text}" if query.kind == "phrase" else text, FIELDS)
        hits = self._searcher.search(parsed, BEST, count=False).hits
        return [self._searcher.doc(address)["id"][0] for _, address in hits]


def _chunks(database: Path) -> Iterator[tuple[int, str, str]]:
    opened = open_database(f"sqlite:///{database}")
    try:
        with opened.snapshot() as snapshot:
            for document_id, title in snapshot.tuples("SELECT id, title FROM documents ORDER BY id"):
                rows = snapshot.tuples(
                    "SELECT id, text FROM chunks WHERE document_id = :id ORDER BY id", {"id": document_id}
                )
                yield from ((chunk_id, title, text) for chunk_id, text in rows)
    finally:
        opened.close()
