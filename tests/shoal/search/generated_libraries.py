"""Small generated libraries, as hypothesis strategies, and their rankings."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from examples import examples
from fake_scorer import FakeScorer
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from scored_documents import CHECKSUM, make_scored

from shoal import SearchFilters
from shoal.models.documents import DocFormat, ScoredDocument
from shoal.models.queries import QueryInfo, QueryReef
from shoal.models.search import Fusion, SearchMode, TagsMatch, Weights
from shoal.search.filters import CompiledFilters
from shoal.search.library_index import IndexCache, LibraryIndex
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.query_language import parse_query
from shoal.search.query_profile import QueryProfile
from shoal.search.ranking import Ranked, Ranking, rank
from shoal.search.signals import DenseCosines, find_matches
from shoal.storage import document_writer, migrate
from shoal.storage.database import Database, Snapshot
from shoal.storage.opening import open_database
from shoal.support.clock import timestamp

N_REEFS = 8
SCORER = SimpleNamespace(
    reefs=[SimpleNamespace(id=i, island_id=i // 2) for i in range(N_REEFS)],
    islands=[SimpleNamespace(id=i) for i in range(N_REEFS // 2)],
    archipelagos=[SimpleNamespace(id=i) for i in range(4)],
    data_checksum=CHECKSUM,
)
NO_FILTERS = CompiledFilters()
EQUAL_WEIGHTS = Weights(0.475, 0.475, 0.05)
Library = Sequence[tuple[Any, ...]]

# Few distinct values make equal scores common.
z_scores = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.25, 7.000001])
profiles = st.dictionaries(st.integers(0, N_REEFS - 1), z_scores, max_size=5)
queries = st.dictionaries(st.integers(0, N_REEFS - 1), z_scores, min_size=1, max_size=N_REEFS).map(
    lambda reefs: [QueryReef(i, f"reef {i}", z) for i, z in reefs.items()]
)
WORDS = ("rain", "storm", "lava", "king", "red")
"""Words of texts, titles and queries; `red` is also a tag."""
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
chunk_facts = st.tuples(
    profiles,
    st.sampled_from([0.1, 0.9, 2.5]),
    st.sampled_from([(2.0, 1.0, 0.0, 0.0), (0.0, 1.0, 3.0, 1.0), (1.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 4.0)]),
    texts,
)
document_facts = st.tuples(
    st.lists(chunk_facts, min_size=1, max_size=12),
    st.sets(st.sampled_from(["red", "green", "blue"])),
    st.sampled_from([0.2, 0.6, 1.0]),
    st.sampled_from(list(DocFormat)),
    texts,
)
libraries = st.lists(document_facts, max_size=6)
filters = st.builds(
    SearchFilters,
    tags=st.lists(st.sampled_from(["red", "green", "blue", "grey"]), max_size=2, unique=True).map(tuple),
    tags_match=st.sampled_from(TagsMatch),
    min_confidence=st.none() | st.sampled_from([0.1, 0.5, 3.0]),
    min_coverage=st.none() | st.sampled_from([0.3, 0.6]),
    reef_ids=st.none() | st.sets(st.integers(0, N_REEFS - 1), max_size=6).map(tuple),
    island_ids=st.none() | st.sets(st.integers(0, N_REEFS // 2 - 1), max_size=3).map(tuple),
    archipelago=st.none() | st.integers(0, 3),
    document_ids=st.none() | st.sets(st.integers(1, 7), max_size=5).map(tuple),
    format=st.none() | st.sampled_from(DocFormat),
    source_path=st.none() | st.sets(st.sampled_from(["0.md", "1.md", "9.md"]), max_size=2).map(tuple),
    metadata=st.none()
    | st.dictionaries(
        st.sampled_from(["turn", "even", "none"]), st.sampled_from([0, 1, True, "1"]), max_size=2
    ),
    name_contains=st.none() | st.sampled_from(["1.M", "title", "9"]),
    file_type=st.none() | st.sampled_from(["markdown", "text", "pdf", "video", ".md"]),
)


def metadata_of(i: int) -> dict[str, Any]:
    """The metadata of document number `i` of a library, counted from 0."""
    return {"turn": i % 3, "even": i % 2 == 0, "inside": {"turn": 0}}


def index_of(database: Database, snapshot: Snapshot) -> LibraryIndex:
    """The index as of a snapshot, of a process that has not searched yet."""
    return IndexCache(database).of(snapshot)


def rank_query(
    snapshot: Snapshot,
    library: LibraryIndex,
    text: str,
    reefs: Sequence[QueryReef],
    compiled_filters: CompiledFilters = NO_FILTERS,
    *,
    mode: SearchMode,
    weights: Weights = EQUAL_WEIGHTS,
    fusion: Fusion = Fusion.blend,
    other_data: str | None = None,
    cosines: DenseCosines | None = None,
) -> Ranking:
    """The ranking for a query of this text and this profile."""
    parsed = parse_query(text, max_words=64)
    profile = QueryProfile(
        tuple(reefs),
        QueryInfo(None, 0.0, 1.0, tuple(reefs), ()),
        matched_words=1,
        topic=FakeScorer().score(""),
    )
    analyzed_query = AnalyzedQuery(
        parsed,
        profile,
        FakeScorer(),
        weights,
        other_data,
        (),
        find_matches(library, parsed.terms),
        cosines=cosines,
    )
    with_query = compiled_filters.and_of_query(parsed, with_required=mode is not SearchMode.reef)
    return rank(snapshot, library, analyzed_query, with_query, mode=mode, fusion=fusion)


def rank_by_reefs(
    snapshot: Snapshot,
    library: LibraryIndex,
    query: Sequence[QueryReef],
    compiled_filters: CompiledFilters = NO_FILTERS,
    *,
    n: int = 1000,
    max_per_document: int | None = None,
) -> list[Ranked]:
    """The first `n` chunks by the reef signal."""
    ranking = rank_query(snapshot, library, "", query, compiled_filters, mode=SearchMode.reef)
    return ranking.first(n, max_per_document)


def fill(database: Database, library: Library, *, first: int = 0) -> None:
    """Store a library, whose documents are numbered from `first`."""
    with database.write() as transaction:
        for i, facts in enumerate(library, start=first):
            document_writer.insert_document(transaction, scored_document(i, facts), now=timestamp())


def scored_document(i: int, facts: tuple[Any, ...]) -> ScoredDocument:
    """Document number `i` of a library."""
    chunks, tags, coverage, form, title = facts
    return make_scored(
        [f"text {i} {j} {chunk[3]}" for j, chunk in enumerate(chunks)],
        [chunk[0] for chunk in chunks],
        confidence=[chunk[1] for chunk in chunks],
        archs=[chunk[2] for chunk in chunks],
        title=f"title {title}",
        heading=f"part {title.split()[-1] if title else ''}",
        tags=tuple(tags),
        coverage=coverage,
        format=form,
        source_path=f"{i % 3}.md",
        metadata=metadata_of(i),
    )


@functools.cache
def _template() -> bytes:
    """The file of an empty, migrated database, because migrating takes longer than an example."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shoal.db"
        database = open_database(f"sqlite:///{path}")
        migrate.upgrade(database)
        database.close()
        return path.read_bytes()


@contextmanager
def open_library(library: Library) -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shoal.db"
        path.write_bytes(_template())
        database = open_database(f"sqlite:///{path}")
        fill(database, library)
        try:
            yield database
        finally:
            database.close()


MANY = settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
