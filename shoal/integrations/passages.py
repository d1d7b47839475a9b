"""Passages for a language model: results with a text, a score, an id and a citation.

Works with a library in this process or a service, and needs no framework.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.client import AsyncClient, Client
from shoal.formats.headings import headings_below
from shoal.models.recordings import EvidenceChunk
from shoal.models.search import ContextChunk, SearchResponse, SearchResult
from shoal.support.plain_text import line_range

if TYPE_CHECKING:
    from shoal.engine import Engine

CITATION = (
    "document_id",
    "document_title",
    "source_path",
    "chunk_id",
    "chunk_index",
    "start_char",
    "end_char",
    "start_line",
    "end_line",
    "modality",
    "time_start",
    "time_end",
    "section_path",
    "tags",
    "top_reef_name",
    "confidence",
    "coverage",
    "provenance",
)
"""Fields of a result that are copied to the metadata of its passage."""
SEPARATOR = "\n\n"
"""Joins the chunks of one passage, in place of the blank line or heading between them."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A result with its neighbours, if requested. `id` is unique within the library.

    With `expand="time"`, `text` has one line for each passage of a recording around the result, with its
    times, as `00:01:05–00:01:18 (Audio): "Every wave has a crest."`.

    `metadata` can be serialized as JSON. It has the citation of the result, with `start_line` and `end_line`
    of `text`; `place`, its place in the original file in words, or None; `score`, and `scores` by signal;
    `why` it is a result, in one sentence;
    `labels`, the names of the reefs that it is about; `reefs`,
    those of the shared reefs that are reasons; `relevance`, `matched_terms` and `term_coverage`;
    `spans`, the `[start_char, end_char)` of the document that `text` consists of; `document_metadata`, the
    metadata of the document; and the `trace_id` of the search.
    """

    id: str
    text: str
    score: float
    metadata: Mapping[str, Any]

    @property
    def relevance(self) -> float:
        """The probability that the passage answers the query, 0..1; comparable between queries."""
        return float(self.metadata["relevance"])

    @property
    def place(self) -> str:
        """The citation as one line for people and models."""
        title, sections = self.metadata["document_title"], self.metadata["section_path"]
        names = [title, *headings_below(title, sections)]
        # Lines are those of the extracted text, which a reader of the file does not see.
        place = self.metadata["place"] or line_range(self.metadata["start_line"], self.metadata["end_line"])
        return f"{' > '.join(names)}, {place}"


def find_passages(
    searcher: Engine | Client,
    query: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    min_score: float = 0.0,
    merge: bool = False,
) -> list[Passage]:
    """Return the results of a search as passages, best first. `arguments` are those of the searcher's
    `search`.

    Results below `min_score` are left out; scores are comparable within one query only, so prefer
    `min_relevance` in `arguments`. With `merge`, results
    that adjoin or share a neighbour become one passage with the citation of the best. A query of only white
    space has no results. Raises the errors of the searcher, and TypeError for an AsyncClient.
    """
    if isinstance(searcher, AsyncClient):
        raise TypeError("an AsyncClient has to be awaited: use it in coroutines, or pass a Client")
    if not query.strip():
        return []
    response = searcher.search(query, **_with_scores(arguments))
    return passages_of(response, min_score=min_score, merge=merge)


async def find_passages_async(
    searcher: Engine | Client | AsyncClient,
    query: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    min_score: float = 0.0,
    merge: bool = False,
) -> list[Passage]:
    """Like find_passages, without blocking the event loop: a blocking searcher runs in a thread."""
    if not isinstance(searcher, AsyncClient):
        return await asyncio.to_thread(
            find_passages, searcher, query, arguments, min_score=min_score, merge=merge
        )
    if not query.strip():
        return []
    response = await searcher.search(query, **_with_scores(arguments))
    return passages_of(response, min_score=min_score, merge=merge)


def passages_of(response: SearchResponse, *, min_score: float = 0.0, merge: bool = False) -> list[Passage]:
    """Convert a response to passages, as find_passages does.

    `reefs` and `matched_terms` are empty if the search did not have `include_scores`.
    """
    results = [result for result in response.results if result.match_score >= min_score]
    groups = _group_adjoining(results) if merge else [[result] for result in results]
    return [_passage(group, response.trace_id) for group in groups]


def _with_scores(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"include_scores": True, **(arguments or {})}


def _group_adjoining(results: Sequence[SearchResult]) -> list[list[SearchResult]]:
    """Group the results by contiguous stretch of a document; groups are in the order of their best
    results."""
    groups: list[list[SearchResult]] = []
    for result in results:
        adjoining = [group for group in groups if any(_do_adjoin(result, other) for other in group)]
        if not adjoining:
            groups.append([result])
            continue
        # The result may join several groups.
        first, *others = adjoining
        first.append(result)
        for other in others:
            first += other
            groups.remove(other)
    return groups


def _do_adjoin(result: SearchResult, other: SearchResult) -> bool:
    if result.document_id != other.document_id:
        return False
    touched = {index + step for index in _chunk_indexes(result) for step in (-1, 0, 1)}
    return not touched.isdisjoint(_chunk_indexes(other))


def _chunk_indexes(result: SearchResult) -> set[int]:
    """The chunk indexes of a result with its neighbours, or with its evidence."""
    if result.evidence:
        return {chunk.chunk_index for chunk in result.evidence.chunks}
    first, last = result.chunk_index - len(result.before), result.chunk_index + len(result.after)
    return set(range(first, last + 1))


def _passage(group: Sequence[SearchResult], trace_id: str) -> Passage:
    best = max(group, key=lambda result: result.match_score)
    by_index: dict[int, SearchResult | ContextChunk] = {}
    for result in group:
        by_index |= {chunk.chunk_index: chunk for chunk in (*result.before, *result.after)}
    by_index |= {result.chunk_index: result for result in group}
    chunks: list[SearchResult | ContextChunk | EvidenceChunk]
    chunks = [by_index[index] for index in sorted(by_index)]
    timed = _in_time_order(group)
    if timed:
        chunks = [*timed]
    metadata = {name: _as_json(getattr(best, name)) for name in CITATION}
    metadata |= {
        "relevance": max(result.relevance for result in group),
        "term_coverage": _best_coverage(group),
        "document_metadata": dict(best.metadata),
        "start_line": min(chunk.start_line for chunk in chunks),
        "end_line": max(chunk.end_line for chunk in chunks),
        "place": best.place.label if best.place else None,
        "score": best.match_score,
        "scores": dataclasses.asdict(best.scores),
        "why": best.why,
        "labels": _distinct(label.reef_name for result in group for label in result.labels),
        "reefs": _distinct(
            reef.reef_name for result in group for reef in result.shared_reefs or () if reef.is_reason
        ),
        "matched_terms": _distinct(
            term.term for result in group for term in result.matched_terms or () if not term.same_stem
        ),
        "spans": [[chunk.start_char, chunk.end_char] for chunk in chunks],
        "trace_id": trace_id,
    }
    return Passage(
        id=f"{best.document_id}-{best.chunk_id}",
        text="\n".join(chunk.line for chunk in timed) or SEPARATOR.join(chunk.text for chunk in chunks),
        score=best.match_score,
        metadata=metadata,
    )


def _in_time_order(group: Sequence[SearchResult]) -> list[EvidenceChunk]:
    """The evidence of the results, each passage once; empty unless all have some."""
    if not all(result.evidence for result in group):
        return []
    by_id = {chunk.chunk_id: chunk for result in group if result.evidence for chunk in result.evidence.chunks}
    return sorted(by_id.values(), key=lambda chunk: (_by_clock(chunk.time_start), chunk.chunk_index))


def _by_clock(time: str) -> tuple[int, str]:
    """Sort HH:MM:SS; long recordings have three digits of hours."""
    return len(time), time


def _best_coverage(group: Sequence[SearchResult]) -> float | None:
    return max((result.term_coverage for result in group if result.term_coverage is not None), default=None)


def _distinct(names: Any) -> list[str]:
    return list(dict.fromkeys(names))


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
