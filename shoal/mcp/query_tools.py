"""The tools for questions of several parts, and for the words of a query."""

from __future__ import annotations

from typing import Annotated

from mcp.types import CallToolResult
from pydantic import Field

from shoal.mcp.answers import answer
from shoal.mcp.backend import Backend
from shoal.mcp.citations import citation_list, citations_of
from shoal.mcp.document_results import FoundPassages, SynonymEntry, SynonymList
from shoal.mcp.document_tools import MAX_LISTED, TopK, nothing_found, warning_lines
from shoal.mcp.quoting import count
from shoal.support.quoting import clean, in_line

MAX_QUERIES = 20


class QueryTools:
    """The tools, over a backend. Each returns text and a structured result."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def search_many(
        self,
        queries: Annotated[
            list[str], Field(min_length=1, max_length=MAX_QUERIES, description="Parts of one question.")
        ],
        top_k: TopK = 10,
        filter: Annotated[  # noqa: A002 - the name of the argument
            str | None, Field(description="As in search_chunks.")
        ] = None,
    ) -> Annotated[CallToolResult, FoundPassages]:
        """Search for several queries at once and get one list of passages, those that most queries find
        first. Use it for a question of several parts; for one query, use search_chunks."""
        searches = [
            {"query": query, "expand": "time", **({"filter": filter} if filter else {})} for query in queries
        ]
        response = self._backend.search_many(searches, fused=True, top_k=top_k)
        for each in response.answers:
            if each.error is not None:
                raise each.error
        fused = [each.result for each in response.fused or ()]
        citations = citations_of(fused, self._backend)
        warnings = [
            in_line(warning)
            for each in response.answers
            for warning in (each.response.warnings if each.response else ())
        ]
        warnings = list(dict.fromkeys(warnings))
        shown = " · ".join(queries)
        message = count(len(citations), "passage") if citations else nothing_found(shown, {}, filter)
        found = FoundPassages(
            status="ok" if citations else "no_results",
            query=clean(shown),
            n_results=len(citations),
            results=citations,
            message=message,
            warnings=warnings,
        )
        text = citation_list(citations) if citations else message
        return answer("\n\n".join([text, *warning_lines(warnings)]), found)

    def list_synonyms(
        self,
        containing: Annotated[
            str | None, Field(description="Only entries with a word that has this.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED, description="Entries on a page.")] = 50,
        offset: Annotated[int, Field(ge=0, le=2**31 - 1, description="Entries to skip.")] = 0,
    ) -> Annotated[CallToolResult, SynonymList]:
        """List the words that searches take for each other. Use it to choose the words of a query."""
        page = self._backend.synonyms(q=containing or None, limit=limit, offset=offset)
        entries = [
            SynonymEntry(
                root=None if each.root is None else in_line(each.root),
                synonyms=[in_line(word) for word in each.synonyms],
            )
            for each in page.synonyms
        ]
        lines = [
            f"{each.root} also finds {', '.join(each.synonyms)}" if each.root else " = ".join(each.synonyms)
            for each in entries
        ]
        message = count(page.total, "synonym")
        return answer("\n".join([message, *lines]), SynonymList(total=page.total, entries=entries))
