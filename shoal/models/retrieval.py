"""Passages in the form that many agents expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

DEFAULT_TOP_K = 5
MAX_TOP_K = 50


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A passage. `metadata`: that of its document, with its place; `similarity`: its relevance, 0 to 1."""

    content: Annotated[str, "text of the passage"]
    metadata: Annotated[
        Mapping[str, Any],
        "that of the document, with `source` (source path, else title), `title`, `section`, `start_line`, "
        "`end_line`, `document_id`, `chunk_id`, and of a file `place`, of a PDF `page`",
    ]
    similarity: Annotated[float, "the `relevance` of a search: probability that it answers the query, 0 to 1"]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Passages, pinned ones first and then the most similar, and the same in words."""

    results: Annotated[tuple[Retrieved, ...], "best first"]
    query: Annotated[str, "as it was sent"]
    total_results: Annotated[int, "number of results"]
    message: Annotated[str, "what was found, in words"]
    results_summary: Annotated[
        str, "a line for each result: source, similarity, beginning; one counts weaker results"
    ]
