"""Generate docs/rights.md from the table of operations: `python tests/docs/rights_page.py` writes it."""

from __future__ import annotations

from pathlib import Path

from shoal.access.operations import OPERATIONS
from shoal.access.rights import EVERYWHERE, SERVICE, Access, Scope, judge
from shoal.declared.operations.drop_in import DIFY, OPENAI
from shoal.models.keys import Needed, Right

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rights.md"

INTRODUCTION = """\
# Who may do what

What each [key](keys.md) may do, as the service decides it. A test sends every operation with every kind of key, in the
collection of the key, in another one and in one that does not exist. A [search token](search-tokens.md) may do what is
marked, in its collections, and nothing else: 403. The paths that do not begin with `/api/` and are no pages are those of
[drop-in endpoints](drop-in-endpoints.md), which name their collection by themselves, and those of the service.

"""

OWN, OTHER = "own", "other"
"""Ids of collections: that of the keys for one collection, and any other."""

CALLERS: dict[str, Access | None] = {
    "no valid key": None,
    **{f"`COLLECTION:{right}`": Access("k", (Scope(OWN, right),)) for right in Right},
    **{f"`*:{right}`": Access("k", (Scope(EVERYWHERE, right),)) for right in Right},
    "`write` of settings": Access("k", (Scope(EVERYWHERE, Right.admin),), may_grant=False),
}

MEANINGS = {
    Needed.public: "Public: health checks, and the description of the API.",
    Needed.any_key: "Any key: what the answer holds depends on the key.",
    Needed.read: "Read: search, and everything else that changes nothing.",
    Needed.write: "Write: documents, notes, synonyms and jobs.",
    Needed.admin: "Administer a collection: saved searches with their webhooks, and what people searched for.",
    Needed.overview: "About all collections.",
    Needed.manage: "Change which collections there are.",
    Needed.grant: "Grant access to others. Keys of `SHOAL_API_KEYS` need `admin:` for it.",
}

TABLE = """\
## The table

`ok` is allowed, the other cells are the status of the response. With a key for one collection, another one is like one
that does not exist: 404.

"""


def page() -> str:
    """Return the whole page as Markdown."""
    return INTRODUCTION + TABLE + _table() + "\n" + "\n".join(map(_section, Needed))


def _table() -> str:
    heads = ["needs", "in", *CALLERS]
    lines = [_row(heads), _row(["---"] * len(heads))]
    for needed in Needed:
        places = [("its collection", OWN), ("another", OTHER)]
        if needed in (Needed.any_key, Needed.overview, Needed.grant):
            places = [("the service", SERVICE)]
        elif needed is Needed.public:
            places = [("any", OWN)]
        for place, collection in places:
            verdicts = [judge(needed, access, collection) for access in CALLERS.values()]
            cells = ["ok" if verdict.status == 200 else str(verdict.status) for verdict in verdicts]
            lines.append(_row([f"[{needed}](#{needed})", place, *cells]))
    return "\n".join(lines) + "\n"


def _section(needed: Needed) -> str:
    listed = [
        "- files below `/static/`"
        if operation.path.startswith("/static/")
        else f"- `{operation.method} {operation.path}`{', also with a search token' * operation.for_tokens}"
        if operation.path.startswith(
            ("/api/", "/health", "/ready", "/docs", "/openapi", "/metrics", DIFY, OPENAI)
        )
        else f"- the page `{operation.path}`, {operation.method}"
        for operation in OPERATIONS
        if operation.needed is needed
    ]
    return "\n".join([f"## {needed}", "", MEANINGS[needed], "", *listed, ""])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
