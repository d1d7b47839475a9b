"""The page that verifies a text: each statement with its verdict, what it cites, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flask
from werkzeug.wrappers import Response

from shoal.errors import QueryError
from shoal.grounding.references import CitedPassage, parse_references
from shoal.grounding.support import content_words
from shoal.models.search import SearchResult
from shoal.models.verdicts import MIN_COVERAGE, Evidence, StatementVerdict, Status, Verdict, Verification
from shoal.search.matched_terms import Highlighter, Spans, find_highlights
from shoal.words.analysis import folded, tokens_of
from shoal_api import service
from shoal_api.console.figures import runs
from shoal_api.console.layout import SHOWN_CHARS, blueprint, page, respond
from shoal_api.console.notes import typed_text
from shoal_api.console.rendered import Run
from shoal_api.trace import trace_id

MAX_CHARS = 100_000
"""Longest text of the form; POST /api/v1/verify takes ten times as much."""
STATEMENTS = 300
"""Statements on the page, the rejected ones first."""
PASSAGES = 4
"""Passages shown of the up to 16 that a statement cites."""
PASSAGE_CHARS = 2_000
"""Characters of a passage that are searched for the words of a statement and may be shown."""
BEFORE = 300
"""Characters shown before the sentence that supports a statement best, in an abridged passage."""


class ShownPassage(NamedTuple):
    """A cited passage: characters from `start_line`, marked where they have words of the statement."""

    reference: str
    title: str
    document_id: int
    chunk_index: int | None
    start_line: int
    text: str
    highlights: Spans
    is_best: bool


class ShownStatement(NamedTuple):
    """A statement in runs, marked where the passages lack its words, and the passages that it cites."""

    verdict: StatementVerdict
    line: int
    runs: Sequence[Run]
    passages: Sequence[ShownPassage]


@blueprint.get("/verify")
@page("references")
def verification() -> tuple[str, Mapping[str, Any]]:
    """Show the form for a text; `references` of the address are those of the form."""
    given = {"references": flask.request.args.get("references", "")}
    return "verification.html", _values(given)


@blueprint.post("/verify")
@page()
def verify_text() -> Response:
    """Verify the text of the form; if that is not possible, say why, with the form as it was sent."""
    form = flask.request.form
    given = {name: typed_text(form[name]) for name in ("text", "references", "min_coverage")}
    try:
        return respond("verification.html", _values(given) | _verified(given))
    except QueryError as error:
        field = "text" if error.field.startswith("text") else error.field
        return respond("verification.html", _values(given) | {"problem": f"{field}: {error}"}, status=422)


def _values(given: Mapping[str, str]) -> dict[str, Any]:
    return {
        "given": given,
        "min_coverage": MIN_COVERAGE,
        "max_chars": MAX_CHARS,
        "problem": None,
        "verification": None,
    }


def _verified(given: Mapping[str, str]) -> dict[str, Any]:
    text = given["text"]
    if len(text) > MAX_CHARS:
        raise QueryError(
            "text",
            f"has {len(text):,} characters; the limit of this page is {MAX_CHARS:,}, and POST /api/v1/verify "
            "takes more",
        )
    engine = service.current().engine
    references = parse_references(given["references"].split("\n")) or None
    verified = engine.verify(
        text, references=references, min_coverage=_coverage(given["min_coverage"]), trace_id=trace_id()
    )
    chosen = _chosen(verified)
    citations = {text for each in chosen for text in _shown_references(each)}
    cited = engine.cited_passages(sorted(citations), references=references)
    indexes = engine.documents.chunk_indexes(
        {each.range.chunk_id for each in cited.values() if each.range.chunk_id is not None}
    )
    return {
        "verification": verified,
        "statements": [_shown(text, each, cited, indexes) for each in chosen],
    }


def _coverage(given: str) -> float:
    try:
        return float(given.strip() or MIN_COVERAGE)
    except ValueError:
        raise QueryError("min_coverage", f"{given[:SHOWN_CHARS]!r} is not a number from 0 to 1") from None


def _chosen(verified: Verification) -> Sequence[StatementVerdict]:
    """The statements to show, in the order of the text: of too many, the rejected ones first."""
    by_need = sorted(
        verified.statements, key=lambda each: (not each.problems, each.verdict is Verdict.no_claim)
    )
    return sorted(by_need[:STATEMENTS], key=lambda each: each.start_char)


def _shown_references(verdict: StatementVerdict) -> Sequence[str]:
    """The citations whose passages are shown, the one that supports the statement best first."""
    best = [verdict.evidence.reference] if verdict.evidence else []
    return list(dict.fromkeys([*best, *verdict.references]))[:PASSAGES]


def _shown(
    text: str,
    verdict: StatementVerdict,
    cited: Mapping[str, CitedPassage],
    indexes: Mapping[int, int],
) -> ShownStatement:
    words = frozenset(map(folded, content_words(verdict.text).values()))
    passages = [
        _passage(reference, cited[reference], verdict.evidence, indexes)
        for reference in _shown_references(verdict)
        if verdict.verdict is not Verdict.no_claim and reference in cited
    ]
    spans = find_highlights([each.text for each in passages], Highlighter(words, ()))
    lacking = (part.text for part in verdict.parts if part.status is not Status.found)
    missing = frozenset(
        folded(token) for each in (*verdict.missing_words, *lacking) for token in tokens_of(each)
    )
    [lacks] = find_highlights([verdict.text], Highlighter(missing, ()))
    return ShownStatement(
        verdict,
        text.count("\n", 0, verdict.start_char) + 1,
        runs(verdict.text, lacks),
        [each._replace(highlights=own) for each, own in zip(passages, spans, strict=True)],
    )


def _passage(
    reference: str, cited: CitedPassage, evidence: Evidence | None, indexes: Mapping[int, int]
) -> ShownPassage:
    text, is_best = cited.passage.text, evidence is not None and evidence.reference == reference
    start = 0
    if is_best and evidence is not None and len(text) > PASSAGE_CHARS:
        start = max(0, evidence.start_char - cited.range.start - BEFORE)
    chunk_id = cited.range.chunk_id
    return ShownPassage(
        reference,
        cited.title,
        cited.range.document_id,
        None if chunk_id is None else indexes.get(chunk_id),
        cited.start_line + text.count("\n", 0, start),
        text[start : start + PASSAGE_CHARS],
        (),
        is_best,
    )


@blueprint.app_template_global()
def verify_address(results: Sequence[SearchResult]) -> str:
    """Return the URL of the form with the passages of results as its references, in their order."""
    references = "\n".join(f"chunk {result.chunk_id}" for result in results)
    return flask.url_for("console.verification", references=references)
