"""Verification of a text: each statement against the passages that it cites.

No model is asked. A statement is supported if the passages that it cites have its words (`MIN_COVERAGE`), its
numbers, codes and names, what it quotes, its negations, and its order. This rejects what the passages do not
mention and what they say otherwise. Where the words are put together in a way that may mean something else,
the verdict is that the check cannot tell.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shoal.declared.arguments import check_choice
from shoal.errors import QueryError
from shoal.filters.tree import check_characters
from shoal.grounding.references import (
    CitableText,
    CitedPassage,
    Range,
    Reference,
    find_quotation,
    make_references,
)
from shoal.grounding.statements import (
    Statement,
    make_statement,
    parse_statements,
)
from shoal.grounding.support import Support, WeightOf, find_support
from shoal.grounding.words import NAME, Kind, Part
from shoal.index.matching import count_roughly
from shoal.index.scoring import idf
from shoal.models.documents import DocFormat
from shoal.models.verdicts import (
    MAX_CITATIONS,
    MAX_PARTS,
    MAX_STATEMENT_CHARS,
    MAX_STATEMENTS,
    MAX_TEXT_CHARS,
    MIN_COVERAGE,
    CheckedPart,
    Evidence,
    Problem,
    QuotationCheck,
    StatementKind,
    StatementVerdict,
    Status,
    Verdict,
    Verification,
)
from shoal.search.library_index import IndexCache, LibraryIndex
from shoal.search.request import check_fraction
from shoal.storage.database import Database

MAX_READ_CHARS = 4_000_000
"""Most characters of all cited passages, each counted once."""
MAX_COMPARED_CHARS = 20_000_000
"""Most characters that all statements are compared with; a passage counts for each that cites it."""
_EXACT = frozenset(kind.value for kind in Kind) - {Kind.word.value, Kind.sign.value}
_MESSAGES = {
    Status.missing: "the references do not have the {kind} there: {texts}",
    Status.differs: "the references say it otherwise ({kind}): {texts}",
    Status.unclear: "the check cannot tell whether the references mean the same ({kind}): {texts}",
}
MAX_NAMED = 5
"""Most parts that the message of a problem names."""
MAX_MISSING = 20
"""Most missing words of a verdict; the coverage has all of them."""


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """The arguments of `Engine.verify`, validated. Without `references`, the whole library may be cited."""

    statements: Sequence[Statement]
    references: tuple[Reference, ...] | None
    min_coverage: float


def make_verify_request(
    text: object,
    *,
    statements: object = None,
    references: object = None,
    doc_format: object = DocFormat.markdown,
    min_coverage: object = MIN_COVERAGE,
) -> VerifyRequest:
    """Validate the arguments of a verification. Raises QueryError for the first invalid one."""
    if (text is None) == (statements is None):
        raise QueryError("text", "must be given, or statements, and not both")
    kind = check_choice("format", doc_format, DocFormat)
    parsed = _given(statements) if text is None else parse_statements(_text(text), kind)
    return VerifyRequest(parsed, make_references(references), check_fraction("min_coverage", min_coverage))


def verify(
    database: Database, request: VerifyRequest, index_cache: IndexCache, *, trace_id: str | None = None
) -> Verification:
    """Compare each statement with what it cites. Raises QueryError if that is too much text."""
    started = time.perf_counter()
    index_cache.prepare()
    with database.snapshot() as snapshot:
        citations = [citation for statement in request.statements for citation in statement.citations]
        reader = _Reader(CitableText(snapshot, request.references, citations))
        found = [reader.passages_of(statement) for statement in request.statements]
        weight_of = rarity(index_cache.of(snapshot))
    verdicts = tuple(
        _judge(statement, cited, weight_of, request.min_coverage)
        for statement, cited in zip(request.statements, found, strict=True)
    )
    counts = {verdict: sum(each.verdict is verdict for each in verdicts) for verdict in Verdict}
    n_claims = len(verdicts) - counts[Verdict.no_claim]
    return Verification(
        accepted=n_claims == counts[Verdict.supported],
        n_claims=n_claims,
        n_supported=counts[Verdict.supported],
        n_unsupported=counts[Verdict.unsupported],
        n_unclear=counts[Verdict.unclear],
        n_unreferenced=counts[Verdict.unreferenced],
        statements=verdicts,
        trace_id=trace_id or uuid.uuid4().hex,
        took_ms=round((time.perf_counter() - started) * 1000, 3),
    )


def rarity(library: LibraryIndex) -> WeightOf:
    """Return the inverse document frequency of stems in a library, each looked up once."""
    weights: dict[str, float] = {}

    def weight_of(stem: str) -> float:
        weight = weights.get(stem)
        if weight is None:
            n_chunks = library.n_chunks
            weight = weights[stem] = idf(n_chunks, min(count_roughly(library.index, stem), n_chunks))
        return weight

    return weight_of


def _text(text: object) -> str:
    if not isinstance(text, str):
        raise QueryError("text", "must be a string")
    if not text.strip():
        raise QueryError("text", "is empty")
    if len(text) > MAX_TEXT_CHARS:
        raise QueryError("text", f"has {len(text):,} characters; the limit is {MAX_TEXT_CHARS:,}")
    return check_characters("text", text)


def _given(statements: object) -> list[Statement]:
    """Validate statements that the caller took apart: texts, or objects with `text` and `references`."""
    if isinstance(statements, str | bytes | Mapping) or not isinstance(statements, Iterable):
        raise QueryError("statements", "must be a list")
    items = list(statements)
    if not 0 < len(items) <= MAX_STATEMENTS:
        raise QueryError("statements", f"must have 1 to {MAX_STATEMENTS:,} items")
    return [_statement(f"statements.{place}", item) for place, item in enumerate(items)]


def _statement(field: str, item: object) -> Statement:
    given = item if isinstance(item, Mapping) else {"text": item}
    unknown = next((name for name in given if name not in ("text", "references")), None)
    if unknown is not None:
        raise QueryError(f"{field}.{str(unknown)[:40]}", "is unknown; known are text, references")
    text, cited = given.get("text"), given.get("references") or ()
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_STATEMENT_CHARS:
        raise QueryError(f"{field}.text", f"must be a string of 1 to {MAX_STATEMENT_CHARS:,} characters")
    check_characters(f"{field}.text", text)
    if isinstance(cited, str | bytes) or not isinstance(cited, Sequence) or len(cited) > MAX_CITATIONS:
        raise QueryError(f"{field}.references", f"must be a list of at most {MAX_CITATIONS} items")
    if not all(isinstance(each, str | int) and not isinstance(each, bool) for each in cited):
        raise QueryError(f"{field}.references", "must have items such as 1, chunk 12 or document 3:120-480")
    try:
        return make_statement(text, [str(each) for each in cited])
    except QueryError as error:
        raise QueryError(f"{field}.references", str(error)) from None


class _Reader:
    """Reads each cited passage once, within the limits of a verification."""

    def __init__(self, citable: CitableText) -> None:
        self._citable = citable
        self._passages: dict[Range, CitedPassage | None] = {}
        self._n_read = 0
        self._n_compared = 0

    def passages_of(self, statement: Statement) -> dict[str, CitedPassage | None]:
        """Return what each citation of a claim stands for, None if that may not be cited."""
        if statement.kind is not StatementKind.claim or len(statement.citations) > MAX_CITATIONS:
            return {}
        ranges = {citation.text: self._citable.find(citation) for citation in statement.citations}
        return {text: None if cited is None else self._read(cited) for text, cited in ranges.items()}

    def _read(self, cited: Range) -> CitedPassage | None:
        if cited not in self._passages:
            found = self._passages[cited] = self._citable.read(cited)
            self._n_read += len(found.passage.text) if found else 0
        found = self._passages[cited]
        self._n_compared += len(found.passage.text) if found else 0
        if self._n_read > MAX_READ_CHARS or self._n_compared > MAX_COMPARED_CHARS:
            raise QueryError(
                "text",
                f"cites passages of more than {MAX_READ_CHARS:,} characters, or the same ones too often; "
                "verify it in parts, or cite shorter passages",
            )
        return found


def _judge(
    statement: Statement,
    found: Mapping[str, CitedPassage | None],
    weight_of: WeightOf,
    min_coverage: float,
) -> StatementVerdict:
    references = tuple(citation.text for citation in statement.citations)
    place = (statement.text, statement.start_char, statement.end_char, statement.kind)
    if statement.kind is not StatementKind.claim:
        return StatementVerdict(*place, Verdict.no_claim, references)
    if not references:
        problem = Problem("unreferenced", "it cites nothing")
        return StatementVerdict(*place, Verdict.unreferenced, problems=(problem,))
    if len(references) > MAX_CITATIONS:
        problem = Problem("citations", f"it cites more than {MAX_CITATIONS} references")
        return StatementVerdict(*place, Verdict.unsupported, references[:MAX_CITATIONS], problems=(problem,))
    problems = [
        Problem("reference", f"it cites {text}, which is not among the references or does not exist")
        for text, cited in found.items()
        if cited is None
    ]
    cited = {text: passage for text, passage in found.items() if passage is not None}
    if not cited:
        return StatementVerdict(*place, Verdict.unsupported, references, problems=tuple(problems))
    support = find_support(statement.plain, [each.passage for each in cited.values()], weight_of)
    quotations = tuple(_check_quotation(text, cited) for text in statement.quotations)
    lacking = [part for part in support.parts if part.status is not Status.found]
    unclear = _part_problems([part for part in lacking if part.status is Status.unclear], cited)
    problems += _part_problems([part for part in lacking if part.status is not Status.unclear], cited)
    problems += _problems(support, quotations, min_coverage)
    verdict = Verdict.unsupported if problems else Verdict.unclear if unclear else Verdict.supported
    problems += unclear
    return StatementVerdict(
        *place,
        verdict,
        references,
        supported_by=() if problems else _supporters(list(cited), support, min_coverage),
        coverage=support.coverage,
        evidence=_evidence(*list(cited.items())[support.best], support),
        quotations=quotations,
        missing_words=support.missing_words[:MAX_MISSING],
        missing_numbers=_missing(part for part in lacking if part.kind in _EXACT),
        missing_names=_missing(part for part in lacking if part.kind == NAME),
        parts=_checked(statement, support.parts, cited),
        problems=tuple(problems),
    )


def _part_problems(parts: Sequence[Part], cited: Mapping[str, CitedPassage]) -> list[Problem]:
    """One problem for each kind and status, which names its first MAX_NAMED parts."""
    passages = list(cited.items())
    grouped: dict[tuple[str, Status], list[str]] = {}
    for part in parts:
        text = repr(_short(part.text))
        if part.found is not None and part.passage is not None and part.passage_start is not None:
            reference, passage = passages[part.passage]
            line = passage.start_line + passage.passage.text.count("\n", 0, part.passage_start)
            text = f"{text} where {reference} has {_short(part.found)!r} (line {line:,})"
        grouped.setdefault((part.kind, part.status), []).append(text)
    return [
        Problem(kind, _MESSAGES[status].format(kind=kind, texts=", ".join(texts[:MAX_NAMED])))
        for (kind, status), texts in grouped.items()
    ]


def _missing(parts: Iterable[Part]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.text for part in parts))


def _checked(
    statement: Statement, parts: Sequence[Part], cited: Mapping[str, CitedPassage]
) -> tuple[CheckedPart, ...]:
    """The parts with their places in the text and in the documents."""
    passages = list(cited.items())
    kept = sorted(parts, key=lambda part: part.status is Status.found)[:MAX_PARTS]
    checked = []
    for part in sorted(kept, key=lambda part: part.start_char):
        own = (
            part.kind,
            part.text,
            statement.start_char + part.start_char,
            statement.start_char + part.end_char,
        )
        if part.passage is None or part.passage_start is None or part.passage_end is None:
            checked.append(CheckedPart(*own, part.status))
            continue
        reference, passage = passages[part.passage]
        start = passage.range.start
        checked.append(
            CheckedPart(
                *own,
                part.status,
                part.found,
                reference,
                passage.range.document_id,
                start + part.passage_start,
                start + part.passage_end,
            )
        )
    return tuple(checked)


def _problems(
    support: Support, quotations: Sequence[QuotationCheck], min_coverage: float
) -> Iterable[Problem]:
    for quotation in quotations:
        if quotation.reference is None:
            yield Problem("quotation", f"the references do not have the quotation {_short(quotation.text)!r}")
    if support.is_quoted:
        return
    if support.coverage < min_coverage:
        words = ", ".join(support.missing_words[:MAX_MISSING])
        yield Problem(
            "coverage",
            f"the references have {support.coverage:.0%} of its words, and {min_coverage:.0%} are needed; "
            f"missing: {words}",
        )


def _supporters(references: Sequence[str], support: Support, min_coverage: float) -> tuple[str, ...]:
    by_coverage = list(zip(references, support.coverages, strict=True))
    alone = tuple(reference for reference, coverage in by_coverage if coverage >= min_coverage)
    return alone or tuple(reference for reference, coverage in by_coverage if coverage > 0)


def _check_quotation(text: str, cited: Mapping[str, CitedPassage]) -> QuotationCheck:
    for reference, each in cited.items():
        if find_quotation(text, each.passage.text):
            return QuotationCheck(text, reference)
    return QuotationCheck(text, None)


def _evidence(reference: str, cited: CitedPassage, support: Support) -> Evidence:
    window, text = support.windows[support.best], cited.passage.text
    start, end = window.sentence_start, window.sentence_end
    return Evidence(
        reference=reference,
        document_id=cited.range.document_id,
        document_title=cited.title,
        chunk_id=cited.range.chunk_id,
        text=text[start:end],
        start_char=cited.range.start + start,
        end_char=cited.range.start + end,
        start_line=cited.start_line + text.count("\n", 0, start),
        end_line=cited.start_line + text.count("\n", 0, max(end - 1, start)),
        coverage=support.coverages[support.best],
    )


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"
