"""Passages as plain content with metadata and a similarity, the form that many agents expect (004)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.declared.search import LIKELY
from shoal.errors import QueryError
from shoal.models.files import LocatorKind
from shoal.models.search import MAX_TOP_K, Retrieval, Retrieved, SearchResult

SOURCE = "source"
"""The filter that is about what a result shows as its source; the others are about its metadata."""
MAX_SOURCE_CHARS = 4_096
PLAIN = "plain"
"""The syntax of the query: agents send text."""
SUMMARY_CHARS = 120
"""Most characters of a passage in the summary."""


def search_arguments(
    top_k: object,
    threshold: object,
    filters: Mapping[str, Any] | None,
    filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field
) -> dict[str, Any]:
    """Return the arguments of `Engine.search`. Raises QueryError, which names the argument of a retrieval."""
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise QueryError("top_k", f"must be a whole number from 1 to {MAX_TOP_K}")
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not is_number or not 0 <= threshold <= 1:  # type: ignore[operator]
        raise QueryError("threshold", "must be a number from 0 to 1")
    if filters is not None and not isinstance(filters, Mapping):
        raise QueryError("filters", "must be an object")
    given = dict(filters or {})
    source = given.pop(SOURCE, None)
    if source is not None:
        if not isinstance(source, str):
            raise QueryError(f"filters.{SOURCE}", "must be a text")
        if not 0 < len(source) <= MAX_SOURCE_CHARS:
            raise QueryError(f"filters.{SOURCE}", f"must have 1 to {MAX_SOURCE_CHARS:,} characters")
        filter = _with_source(filter, source)  # noqa: A001 - the name of the field
    return {
        "top_k": top_k,
        "min_relevance": threshold,
        "filters": {"metadata": given} if given else None,
        "filter": filter,
        "syntax": PLAIN,
    }


def _with_source(given: str | Mapping[str, Any] | None, source: str) -> str:
    """Return the filter that is met where `given` is, and a result shows this source. Raises FilterError."""
    from shoal.filters.parsing import make_filter
    from shoal.filters.tree import both, text_of

    of_title = {f"metadata.{SOURCE}": {"$exists": False}, "title": source}
    of_metadata = {"$or": [{f"metadata.{SOURCE}": source}, of_title]}
    of_source = {"$or": [{"source_path": source}, {"source_path": {"$exists": False}, **of_metadata}]}
    node = both(make_filter(given), make_filter(of_source))
    assert node is not None, "it has the conditions of the source"
    return text_of(node)


def own_name(field: str) -> str:
    """Return the name that an argument of a search has in a retrieval."""
    return field.replace("filters.metadata", "filters")


def relevant(results: Sequence[SearchResult], threshold: float) -> list[SearchResult]:
    """Return the results that are relevant enough, pinned ones first and then the most relevant."""
    from shoal.search.relevance import is_relevant_enough  # imported late: it loads much of the library

    return [
        result
        for result in sorted(results, key=lambda result: (not result.pinned, -result.relevance))
        if is_relevant_enough(result.relevance, threshold)
    ]


def as_retrieval(query: str, results: Sequence[SearchResult], threshold: float) -> Retrieval:
    """Return the results of a search in the form of a retrieval.

    A pinned result below the `threshold` is left out: programs that send one rely on the similarity alone.
    """
    retrieved = tuple(
        Retrieved(result.text, metadata_of(result), round(result.relevance, 4))
        for result in relevant(results, threshold)
    )
    noun = "document" if len(retrieved) == 1 else "documents"
    message = (
        f"Found {len(retrieved)} relevant {noun}" if retrieved else f"No relevant content found for {query!r}"
    )
    summary = summary_of(
        retrieved,
        lambda item: f"{item.metadata[SOURCE]} (sim: {item.similarity:.2f}): {_shortened(item.content)}",
    )
    return Retrieval(retrieved, query, len(retrieved), message, summary)


def summary_of(retrieved: Sequence[Retrieved], line: Callable[[Retrieved], str]) -> str:
    """Return a numbered line for each passage; after likely ones, one counts those that hardly answer."""
    likely = [place for place, item in enumerate(retrieved, 1) if item.similarity >= LIKELY]
    # Pinned ones stand before the likely ones.
    n_shown = likely[-1] if likely else len(retrieved)
    shown = [f"{number}. {line(item)}" for number, item in enumerate(retrieved[:n_shown], 1)]
    n_weak = len(retrieved) - n_shown
    if n_weak:
        results = "result" if n_weak == 1 else "results"
        shown.append(f"and {n_weak} weaker {results}, less than {LIKELY:.0%} relevant")
    return "\n".join(shown)


def _named_source(result: SearchResult) -> str | None:
    named = result.metadata.get(SOURCE)
    return named if isinstance(named, str) else None


def metadata_of(result: SearchResult) -> dict[str, Any]:
    """Return the document's metadata with the place of a passage and the reason for it, which win over keys
    of the same names."""
    metadata = {
        **result.metadata,
        SOURCE: result.source_path or _named_source(result) or result.document_title,
        "title": result.document_title,
        "section": " > ".join(result.section_path),
        "start_line": result.start_line,
        "end_line": result.end_line,
        "document_id": result.document_id,
        "chunk_id": result.chunk_id,
        "why": result.why,
    }
    if result.place is not None:
        metadata["place"] = result.place.label
        if result.place.kind is LocatorKind.page:
            metadata["page"] = int(result.place.first)
    if result.time_start is not None:
        metadata |= {"time_start": result.time_start, "time_end": result.time_end}
    return metadata


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SUMMARY_CHARS else f"{line[: SUMMARY_CHARS - 1].rstrip()}…"
