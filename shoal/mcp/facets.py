"""Facets of a search, for agents."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.mcp.document_results import FacetCount, FacetCounts
from shoal.models.search import SearchResponse
from shoal.support.quoting import in_line


def facets_of(response: SearchResponse) -> list[FacetCounts]:
    """The facets of a search, if it has any."""
    return [
        FacetCounts(
            field=in_line(facet.field),
            values=[
                FacetCount(value=in_line(str(each.name or each.value)), n_documents=each.count)
                for each in facet.values
            ],
        )
        for facet in response.facets or ()
    ]


def facet_lines(facets: Sequence[FacetCounts]) -> list[str]:
    """Facets in words, one a line."""
    return (
        [
            "\n".join(
                f"Documents by {facet.field}: "
                + ", ".join(f"{each.value} {each.n_documents}" for each in facet.values)
                for facet in facets
            )
        ]
        if facets
        else []
    )
