"""What surfaces of a search do not take, or what has no effect there, and why."""

from __future__ import annotations

from collections.abc import Mapping

from searched_library import ARGUMENTS

FILTERS = frozenset(name for name in ARGUMENTS if name.startswith("filters."))
OF_FORM = {"filters.tags", "filters.format", "filters.archipelago", "filters.document_ids"} | {
    "filters.min_confidence"
}
"""Filters that the form of the console has."""
OF_TOOL = {"top_k", "filter", "sort", "fold_similar", "mode", "rerank", "facets", "max_per_document"} | {
    "filters.file_type",
    "filters.name_contains",
}


def reasons(reason: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, reason)


SHORTHANDS = reasons("a shorthand of the member of `filters`", "tags", "min_confidence")
IN_EXPRESSIONS = reasons("a `filter` expression says the same", *FILTERS)
SHAPES = reasons(
    "shapes the results, of which an explanation has none",
    *("include_scores", "context", "expand", "facets", "facet_limit", "text", "max_tokens", "prompt"),
)
COMMAND = {
    **IN_EXPRESSIONS,
    "context": "`shoal show` prints the passages around one",
    "include_scores": "`--json` always has them; test_cli_query_analysis.py has `--scores` for people",
}
OF_PASSAGES = reasons(
    "notes cannot meet it; docs/notes.md",
    *("rerank", "sort", "decay", "boosts", "group_by", "fold_similar", "cursor", "max_tokens", "prompt"),
    *("facets", "facet_limit", "text", "shortlist"),
)
WITH_NOTES = {**OF_PASSAGES, "pins": "searches of notes are without pins; docs/pins.md"}
SAVED = {
    **SHORTHANDS,
    **reasons(
        "only shapes an answer; docs/saved-searches.md",
        *(
            "top_k",
            "offset",
            "cursor",
            "include_scores",
            "context",
            "expand",
            "facets",
            "facet_limit",
            "text",
        ),
        *("max_tokens", "prompt", "group_by", "fold_similar", "rerank"),
    ),
    "pins": "a match is what the query finds, not what somebody put first",
    "shortlist": "whether a document is a match does not depend on better ones",
}
BY_HAND = "for people: the options that most saved searches need; the API takes the others"

EXCLUDED: Mapping[str, Mapping[str, str]] = {
    "POST /search": SHORTHANDS,
    "POST /search, lines": SHORTHANDS,
    "shoal search": COMMAND,
    "shoal search --server": COMMAND,
    "shoal search --batch": COMMAND,
    "shoal search --batch, line": {"include_scores": COMMAND["include_scores"]},
    "search_chunks": reasons(
        "each argument of a tool costs every agent that reads its schema; the tool has those for questions",
        *(ARGUMENTS - OF_TOOL),
    ),
    "console": {
        **reasons("a `filter` expression says the same", *(FILTERS - OF_FORM)),
        **reasons("ten results a page, with links to the others", "top_k", "cursor", "max_per_document"),
        **reasons("for programs", "context", "text", "prompt"),
        "max_tokens": "that of the tool counts the whole answer; test_mcp_tools.py",
        **reasons("on every page", "expand", "include_scores", "facet_limit"),
        **reasons("presets are for people", "weights", "fusion"),
        "prefix": "the search box suggests whole words",
        "language": "the words of a query say it; the address of a page takes no other",
    },
    "POST /saved-searches": SAVED,
    "shoal saved-search create": {
        **{name: reason for name, reason in SAVED.items() if name != "tags"},
        **IN_EXPRESSIONS,
        "min_confidence": "a `filter` expression says the same",
    },
    "console, saved searches": reasons(BY_HAND, *(ARGUMENTS - {"filter", "min_relevance"})),
    "POST /explain": {**SHORTHANDS, **SHAPES},
    "Client.explain": SHAPES,
    "shoal explain": {**IN_EXPRESSIONS, **SHAPES},
    "POST /search with notes": {**SHORTHANDS, **WITH_NOTES},
    "GET /search with notes": WITH_NOTES,
    "Client.search_units": WITH_NOTES,
    "shoal search --units": {**COMMAND, **WITH_NOTES},
}
"""By surface and argument. A surface that is not named here takes every argument."""
