"""What frameworks want of a result: its text, a score, an id, and where it is from. From a library in this process or
from a service, alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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
)


class Searcher(Protocol):
    """A `shoal.Engine` or a `shoal.client.Client`."""

    def search(self, query: str, **arguments: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Passage:
    """A result. `id` names it within its library; `metadata` is JSON: the citation, and `reefs`, the names of the
    reefs it shares with the query, those that add most first."""

    id: str
    text: str
    score: float
    metadata: Mapping[str, Any]


def find_passages(searcher: Searcher, query: str, arguments: Mapping[str, Any]) -> list[Passage]:
    """The results of a search, best first. `arguments` are those of `Engine.search` and of `POST /search`.

    A query of nothing but white space finds nothing. Raises what the searcher raises.
    """
    if not query.strip():
        return []
    answer = searcher.search(query, **{"include_scores": True, **arguments})
    results = (
        answer["results"] if isinstance(answer, Mapping) else [dataclasses.asdict(r) for r in answer.results]
    )
    return [_passage(result) for result in results]


def _passage(result: Mapping[str, Any]) -> Passage:
    metadata = {name: _plain(result[name]) for name in CITATION}
    metadata["reefs"] = [reef["reef_name"] for reef in result.get("shared_reefs") or ()]
    return Passage(
        id=f"{result['document_id']}-{result['chunk_id']}",
        text=_with_context(result),
        score=float(result["match_score"]),
        metadata=metadata,
    )


def _with_context(result: Mapping[str, Any]) -> str:
    """The text with its neighbours, where they were asked for (`context`)."""
    parts: Sequence[str] = [
        *(chunk["text"] for chunk in result.get("before") or ()),
        result["text"],
        *(chunk["text"] for chunk in result.get("after") or ()),
    ]
    return "\n\n".join(parts)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
