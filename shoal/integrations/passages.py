"""Results as what is put before a language model: a text, a score, an id, and where it is from. From a
library in this process or from a service, alike; needs no framework."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.client import AsyncClient, Client
from shoal.integrations.quotations import lines
from shoal.models import ContextChunk, SearchResponse, SearchResult

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
    "section_path",
    "tags",
    "top_reef_name",
    "confidence",
    "coverage",
    "provenance",
)
"""Fields of a result that are metadata of its passage as they are."""
BETWEEN = "\n\n"
"""Between chunks that are one passage, in place of the blank line or the heading that stands there."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A result, with the neighbours that were asked for. `id` names it within its library.

    `metadata` is JSON: the citation of the result, but `start_line` and `end_line` are those of `text`;
    `score`, and `scores` by its parts; `reefs`, the names of those it shares with the query, those that add
    most first; `matched_terms`, the words of the query that it holds, and `term_coverage`, how large a share of
    the query they are; `spans`, the `[start_char, end_char)` of the document that `text` is made of;
    `document_metadata`, what was handed in with it; `trace_id`, of the search.
    """

    id: str
    text: str
    score: float
    metadata: Mapping[str, Any]

    @property
    def place(self) -> str:
        """Where it is from, in a line for people and models."""
        title, sections = self.metadata["document_title"], self.metadata["section_path"]
        # The first heading of many documents is their title.
        names = sections if sections[:1] == [title] else [title, *sections]
        return f"{' > '.join(names)}, {lines(self.metadata['start_line'], self.metadata['end_line'])}"


def find_passages(
    searcher: Engine | Client,
    query: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    min_score: float = 0.0,
    merge: bool = False,
) -> list[Passage]:
    """The results of a search, best first. `arguments` are those of `Engine.search` and of `Client.search`.

    Results with less than `min_score` are left out; scores compare the results of one query only. With
    `merge`, those that adjoin or share a neighbour are one passage, under the citation of the best. A query
    of nothing but white space finds nothing. Raises what the searcher raises, TypeError for an AsyncClient.
    """
    if isinstance(searcher, AsyncClient):
        raise TypeError("an AsyncClient has to be awaited: use it in coroutines, or give a Client")
    if not query.strip():
        return []
    answer = searcher.search(query, **_arguments(arguments))
    return passages_of(answer, min_score=min_score, merge=merge)


async def find_passages_async(
    searcher: Engine | Client | AsyncClient,
    query: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    min_score: float = 0.0,
    merge: bool = False,
) -> list[Passage]:
    """As find_passages, while the event loop goes on: what blocks searches in a thread of its own."""
    if not isinstance(searcher, AsyncClient):
        return await asyncio.to_thread(
            find_passages, searcher, query, arguments, min_score=min_score, merge=merge
        )
    if not query.strip():
        return []
    answer = await searcher.search(query, **_arguments(arguments))
    return passages_of(answer, min_score=min_score, merge=merge)


def passages_of(answer: SearchResponse, *, min_score: float = 0.0, merge: bool = False) -> list[Passage]:
    """The passages of an answer, as find_passages gives them. `reefs` and `matched_terms` are empty where the
    search did not `include_scores`."""
    results = [result for result in answer.results if result.match_score >= min_score]
    groups = _adjoining(results) if merge else [[result] for result in results]
    return [_passage(group, answer.trace_id) for group in groups]


def _arguments(given: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"include_scores": True, **(given or {})}


def _adjoining(results: Sequence[SearchResult]) -> list[list[SearchResult]]:
    """Results in groups, each of one stretch of a document; a group stands where its best result does."""
    groups: list[list[SearchResult]] = []
    for result in results:
        near = [group for group in groups if any(_is_near(result, other) for other in group)]
        if not near:
            groups.append([result])
            continue
        # It may be what lies between two groups.
        first, *others = near
        first.append(result)
        for other in others:
            first += other
            groups.remove(other)
    return groups


def _is_near(one: SearchResult, other: SearchResult) -> bool:
    if one.document_id != other.document_id:
        return False
    (first, last), (other_first, other_last) = _reach(one), _reach(other)
    return first <= other_last + 1 and other_first <= last + 1


def _reach(result: SearchResult) -> tuple[int, int]:
    """The first and the last chunk, by index, of a result with its neighbours."""
    return result.chunk_index - len(result.before), result.chunk_index + len(result.after)


def _passage(group: Sequence[SearchResult], trace_id: str) -> Passage:
    best = max(group, key=lambda result: result.match_score)
    pieces: dict[int, SearchResult | ContextChunk] = {}
    for result in group:
        pieces |= {chunk.chunk_index: chunk for chunk in (*result.before, *result.after)}
    pieces |= {result.chunk_index: result for result in group}
    in_order = [pieces[index] for index in sorted(pieces)]
    metadata = {name: _plain(getattr(best, name)) for name in CITATION}
    metadata |= {
        "term_coverage": _most_held(group),
        "document_metadata": dict(best.metadata),
        "start_line": min(piece.start_line for piece in in_order),
        "end_line": max(piece.end_line for piece in in_order),
        "score": best.match_score,
        "scores": dataclasses.asdict(best.scores),
        "reefs": _once(reef.reef_name for result in group for reef in result.shared_reefs or ()),
        "matched_terms": _once(term.term for result in group for term in result.matched_terms or ()),
        "spans": [[piece.start_char, piece.end_char] for piece in in_order],
        "trace_id": trace_id,
    }
    return Passage(
        id=f"{best.document_id}-{best.chunk_id}",
        text=BETWEEN.join(piece.text for piece in in_order),
        score=best.match_score,
        metadata=metadata,
    )


def _most_held(group: Sequence[SearchResult]) -> float | None:
    return max((result.term_coverage for result in group if result.term_coverage is not None), default=None)


def _once(names: Any) -> list[str]:
    return list(dict.fromkeys(names))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
