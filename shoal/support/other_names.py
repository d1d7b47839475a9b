"""The known name that is meant by an unknown one: another engine's name for it, or a misspelling."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

COMPARED_CHARS = 40
"""Most characters of an unknown name that are compared."""

SAME_MEANING: Sequence[Sequence[str]] = (
    (
        "top_k", "limit", "k", "n", "size", "count", "rows", "top", "top_n", "n_results", "num_results",
        "max_results", "max_num_results", "similarity_top_k", "hits_per_page", "page_size", "per_page",
    ),
    ("query", "q", "query_text", "query_texts", "query_string", "search", "search_query", "question"),
    ("filter", "where", "filter_by", "filter_query", "query_filter", "post_filter", "expr", "fq"),
    ("offset", "from", "skip", "start"),
    ("cursor", "search_after", "page_token", "next_page_token", "scroll_id"),
    (
        "min_relevance", "threshold", "min_score", "score_threshold", "similarity_threshold", "cutoff",
        "ranking_score_threshold",
    ),
    ("sort", "sort_by", "order_by", "ordering"),
    ("facets", "facet_by", "aggs", "aggregations"),
    ("include", "fields", "_source", "select", "output_fields", "include_fields", "attributes_to_retrieve"),
    ("exclude", "exclude_fields"),
    ("group_by", "collapse", "group_by_field"),
    ("rerank", "reranker", "reranking"),
    ("syntax", "query_type", "parser", "def_type", "query_parser"),
    ("typos", "num_typos", "fuzziness", "fuzzy", "typo_tolerance"),
)  # fmt: skip
"""Names that search engines give one thing. Of those that a call takes, the first is suggested."""


def meant_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` means, misspells, abbreviates or extends; None if there is none."""
    known = list(known)
    written = name[:COMPARED_CHARS].lower()
    plain = _plain(written)
    by_plain = {_plain(each): each for each in reversed(known)}
    for names in SAME_MEANING:
        if plain in map(_plain, names):
            same = next((by_plain[_plain(each)] for each in names if _plain(each) in by_plain), None)
            if same is not None:
                return same
    near = difflib.get_close_matches(written, known, n=1)
    if near:
        return near[0]
    # Such as `doc` for `document_ids`.
    starts = (each for each in known if written and (each.startswith(written) or written.startswith(each)))
    return next(starts, None)


def _plain(name: str) -> str:
    """A name without the marks between its words: `hitsPerPage` and `--hits-per-page` are one."""
    return name.lower().replace("_", "").replace("-", "")
