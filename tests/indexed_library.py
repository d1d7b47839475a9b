"""The search index of a library, for tests: what it holds of each chunk, and what it should hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shoal.index.building import segment_bytes
from shoal.index.index import Index
from shoal.index.matching import EVERYWHERE, IndexTerm, find
from shoal.index.segment import Segment
from shoal.index.upkeep import read_documents
from shoal.search.library_index import IndexCache
from shoal.storage.database import Database, Snapshot
from shoal.words.analysis import stems_of, tokens_of
from shoal.words.terms import TERMS

ALL_DOCUMENTS = "SELECT id FROM documents ORDER BY id"


def chunks_with(database: Database, words: str, *fields: str) -> list[int]:
    """The chunks that contain words side by side, in any inflection, in some fields or any."""
    term = IndexTerm(stems_of(tokens_of(words)), frozenset(fields) or EVERYWHERE)
    with database.snapshot() as snapshot:
        library = IndexCache(database).of(snapshot)
    (found,) = find(library.index, [term])
    return sorted(library.index.chunk_ids(found.mask().nonzero()[0]).tolist())


def assert_indexed(database: Database) -> None:
    """Check that the index holds exactly what one made anew from the stored documents would."""
    with database.snapshot() as snapshot:
        library = IndexCache(database).of(snapshot)
        assert not library.n_missing
        assert contents(library.index) == expected_contents(snapshot)


def expected_contents(snapshot: Snapshot) -> Mapping[int, set[Any]]:
    """What the index should hold of each chunk."""
    ids = [row[0] for row in snapshot.tuples(ALL_DOCUMENTS)]
    documents = list(read_documents(snapshot, ids))
    return contents(Index([(Segment(segment_bytes(documents, TERMS)), [])] if documents else []))


def contents(index: Index) -> Mapping[int, set[Any]]:
    """What an index holds of each live chunk: its document, its terms and its reefs."""
    held: dict[int, set[Any]] = {}
    for part, live in index.by_part(index.live()):
        chunk_ids = part.segment.chunk_ids.tolist()
        for ordinal in live.nonzero()[0].tolist():
            chunk_id = chunk_ids[ordinal]
            assert chunk_id not in held, f"chunk {chunk_id} is in the index twice"
            held[chunk_id] = {("document", int(part.segment.document_ids[part.segment.document_of[ordinal]]))}
        for ordinal, what in (*_terms(part.segment), *_reefs(part.segment)):
            if live[ordinal]:
                held[chunk_ids[ordinal]].add(what)
    return held


def _terms(segment: Segment) -> Iterator[tuple[int, tuple[str, str, int]]]:
    """Each chunk, by ordinal, with a field, a term in it and the occurrences."""
    index = Index([(segment, [])])
    for term in {term.decode() for field in segment.fields for term in field.terms.between()}:
        for name in EVERYWHERE:
            [matches] = find(index, [IndexTerm((term,), frozenset({name}))])[0].parts
            for ordinal, n in zip(matches.ordinals.tolist(), getattr(matches, name).tolist(), strict=True):
                yield ordinal, (name, term, n)


def _reefs(segment: Segment) -> Iterator[tuple[int, tuple[str, int, int]]]:
    """Each chunk, by ordinal, with a reef and its weight."""
    for reef_id in range(segment.n_reefs):
        ordinals, weights = segment.reef_postings(reef_id)
        for ordinal, weight in zip(ordinals.tolist(), weights.tolist(), strict=True):
            yield ordinal, ("reef", reef_id, weight)
