"""Statements: the sentences of a text and their clauses, which of them make claims, and what each cites.

A citation is written in square brackets: `[1]`, `[1, 3]`, `[1-3]` or `[^1]` for a label, `[chunk 12]` for a
chunk, `[document 3]` or `[document 3:120-480]` for a document or characters of it. It belongs to the sentence
that it is in. Between two sentences it belongs to the first of them, unless a line ends there.

A clause of a sentence ends where another begins, and is negated or not.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from lagoon.tokens import is_stop_word
from shoal.errors import DocumentTooLargeError, QueryError
from shoal.formats import markdown, plaintext
from shoal.formats.blocks import BlockKind, assemble
from shoal.formats.masking import mask
from shoal.grounding.english import (
    CLAUSE_OPENERS,
    CLAUSE_SIGNS,
    DOUBTS,
    SENTENCE_SIGNS,
    is_adverb_of_negation,
    is_negated_form,
)
from shoal.grounding.words import NEGATION, Kind, Part, Token, identity, make_part, with_inner_underscores
from shoal.models.documents import DocFormat, ParsedDocument
from shoal.models.verdicts import MAX_CITATIONS, MAX_STATEMENTS, StatementKind, Status
from shoal.words.analysis import folded, tokens_of

MAX_MARKER_CHARS = 64
MAX_QUOTATIONS = 8
"""Most quotations of one statement that are checked."""
MIN_QUOTED_WORDS = 3
"""Shorter quotations are names or words that the author keeps at a distance."""

_LABEL = r"\^?\d{1,9}(?:[ ]?[-–][ ]?\d{1,9})?"
_CHUNK = r"chunk[ :#]{1,2}\d{1,19}"
_DOCUMENT = r"document[ :#]{1,2}\d{1,19}(?:[ ]?:[ ]?\d{1,9}[ ]?-[ ]?\d{1,9})?"
_ITEM = rf"(?:{_LABEL}|{_CHUNK}|{_DOCUMENT})"
_MARKER = re.compile(rf"\[({_ITEM}(?:[ ]?[,;][ ]?{_ITEM})*)\]", re.IGNORECASE)
_SEPARATOR = re.compile(r"[ ]?[,;][ ]?")
_NUMBER = re.compile(r"\d+")
_FILLERS = frozenset({"yes", "yeah", "ok", "okay", "sure", "thanks", "hello"})
_QUOTATION = re.compile(r'"([^"]*)"|“([^“”]*)”|«([^«»]*)»')
_LINE_END = re.compile(r"[\r\n]")
_CLOSERS = " \t\r\n\"'”’»)]*_"
_CODE = re.compile(r"[>\s]*+(?:```|~~~)| {4}|\t")
MAX_PLACES = 16
"""Most places of a word that are compared, and most tokens before it among which its negator is sought."""
Clause = tuple[int, int]
"""The first token of a clause, and the one behind its last."""


class Citation(NamedTuple):
    """What a statement cites: a label, a chunk, or a document and perhaps characters of it.

    `text` is the citation as one item, without brackets.
    """

    text: str
    label: str | None = None
    chunk_id: int | None = None
    document_id: int | None = None
    start_char: int | None = None
    end_char: int | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, heading or block of a text: `content[start_char:end_char]`.

    plain       the text without markup and citations
    citations   what it cites, in order, each once
    quotations  what it quotes, if that is long enough to be checked
    """

    text: str
    start_char: int
    end_char: int
    kind: StatementKind
    plain: str
    citations: tuple[Citation, ...]
    quotations: tuple[str, ...]


def parse_statements(content: str, doc_format: DocFormat = DocFormat.markdown) -> list[Statement]:
    """Return the statements of a text in order. Raises QueryError if there are too many."""
    markers = list(_MARKER.finditer(content))
    # The parser takes footnote marks out of sentences; other citations take their form.
    uniform = _MARKER.sub(_footnote_mark, content)
    parsed, code = _parse(uniform, doc_format)
    spans = sorted(
        [(span.start_char, span.end_char, None) for span in parsed.sentences]
        + [(span.start_char, span.end_char, span.reason) for span in parsed.left_out]
    )
    if len(spans) > MAX_STATEMENTS:
        raise QueryError(
            "text", f"has {len(spans):,} statements; the limit is {MAX_STATEMENTS:,}: verify it in parts"
        )
    cited = _assign(content, markers, [(start, end) for start, end, _ in spans])
    statements = []
    for number, (start, end, reason) in enumerate(spans):
        plain = parsed.masked[start:end] if reason is None else uniform[start:end]
        plain = with_inner_underscores(plain, uniform[start:end])
        kind = _kind(plain, reason, is_code=start in code)
        citations = _distinct(cited.get(number, ()))
        quotations = _quotations(plain)
        statements.append(Statement(content[start:end], start, end, kind, plain, citations, quotations))
    return statements


def make_statement(text: str, citations: Sequence[str]) -> Statement:
    """Return a statement with citations given as items such as `1` or `chunk 12`. Raises QueryError."""
    items: list[Citation] = []
    for item in citations:
        marker = _MARKER.fullmatch(f"[{item.strip()}]")
        if marker is None or len(item) > MAX_MARKER_CHARS:
            raise QueryError("references", f"{item[:40]!r} is not like 1, chunk 12 or document 3:120-480")
        items += _read_marker(marker)
    without_markers = _MARKER.sub(lambda marker: " " * len(marker[0]), text)
    plain = with_inner_underscores(mask(without_markers), without_markers)
    items += [citation for marker in _MARKER.finditer(text) for citation in _read_marker(marker)]
    return Statement(text, 0, len(text), StatementKind.claim, plain, _distinct(items), _quotations(plain))


def _parse(content: str, doc_format: DocFormat) -> tuple[ParsedDocument, frozenset[int]]:
    """The parsed text, and where its blocks of code begin. Raises QueryError if it has too many parts."""
    try:
        if doc_format is DocFormat.plaintext:
            return plaintext.parse_plaintext(content, keep_boilerplate=True), frozenset()
        blocks, marks = markdown.read_blocks(content)
        parsed = assemble(content, mask(content, marks), blocks, keep_boilerplate=True)
    except DocumentTooLargeError as error:
        raise QueryError("text", str(error)) from None
    code = [
        (block.start, block.end)
        for block in blocks
        if block.kind is BlockKind.verbatim and _CODE.match(content, block.start)
    ]
    starts = [start for start, _ in code]
    inside = frozenset(
        span.start_char
        for span in parsed.sentences
        for at in [bisect_right(starts, span.start_char) - 1]
        if at >= 0 and span.start_char < code[at][1]
    )
    return parsed, inside


def _footnote_mark(marker: re.Match[str]) -> str:
    """A footnote mark of the same length."""
    return "[1]" if len(marker[1]) == 1 else f"[^{'1' * (len(marker[1]) - 1)}]"


def _assign(
    content: str, markers: Sequence[re.Match[str]], spans: Sequence[tuple[int, int]]
) -> dict[int, list[Citation]]:
    """The citations of each span by its number."""
    starts = [start for start, _ in spans]
    cited: dict[int, list[Citation]] = {}
    opened = 0  # where the last citation ends that has only citations before it in its span
    for marker in markers:
        # Every character that is not white space is in a span.
        number = bisect_right(starts, marker.start()) - 1
        if not content[max(starts[number], opened) : marker.start()].strip():
            opened = marker.end()
            is_same_line = number > 0 and not _LINE_END.search(content, spans[number - 1][1], starts[number])
            number -= is_same_line
        cited.setdefault(number, []).extend(_read_marker(marker))
    return cited


def _read_marker(marker: re.Match[str]) -> Iterator[Citation]:
    for item in islice(_SEPARATOR.split(marker[1]), MAX_CITATIONS + 1):
        numbers = [int(number) for number in _NUMBER.findall(item)]
        name = item[:1].lower()
        if name == "c":
            yield Citation(item, chunk_id=numbers[0])
        elif name == "d":
            yield Citation(item, None, None, *numbers)
        elif len(numbers) == 1:
            yield Citation(str(numbers[0]), label=str(numbers[0]))
        else:
            first, last = numbers
            labels = range(first, last + 1)[: MAX_CITATIONS + 1] or range(first, first + 1)
            yield from (Citation(str(label), label=str(label)) for label in labels)


def _distinct(citations: Sequence[Citation]) -> tuple[Citation, ...]:
    return tuple(dict.fromkeys(citations))


def _kind(plain: str, reason: str | None, *, is_code: bool) -> StatementKind:
    if reason is not None:
        return StatementKind.heading if reason == "heading" else StatementKind.other
    if is_code:
        return StatementKind.code
    if plain.rstrip(_CLOSERS).endswith("?"):
        return StatementKind.question
    words = (folded(token) for token in tokens_of(plain) if len(token) > 1)
    has_words = any(not is_stop_word(word) and word not in _FILLERS for word in words)
    has_number = any(map(str.isdigit, plain))
    return StatementKind.claim if has_words or has_number else StatementKind.other


def _quotations(plain: str) -> tuple[str, ...]:
    quoted = (next(filter(None, match.groups()), "") for match in _QUOTATION.finditer(plain))
    return tuple(
        islice((text for text in quoted if len(tokens_of(text)) >= MIN_QUOTED_WORDS), MAX_QUOTATIONS)
    )


def clauses(tokens: Sequence[Token]) -> list[Clause]:
    """Return the clauses of a sentence: they end at a comma or other sign, and before "and", "which" …"""
    starts = [0]
    for place, token in enumerate(tokens):
        if token.kind is Kind.sign and token.text in CLAUSE_SIGNS:
            starts.append(place + 1)
        elif token.kind is Kind.word and token.form in CLAUSE_OPENERS:
            starts.append(place)
    ends = [*starts[1:], len(tokens)]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]


def is_meaningful(token: Token) -> bool:
    """Whether a token says something: no sign, stop word or negator."""
    return token.kind is not Kind.sign and not token.is_common and not is_negated_form(token.form)


def negated_places(tokens: Sequence[Token]) -> set[int]:
    """Return the places of meaningful tokens in negated clauses.

    "Not" at the end of its clause, as in "he did not, however, go", negates the next clause too. "It is not
    true that" negates the clause behind it.
    """
    negated: set[int] = set()
    carried = doubted = False
    for start, end in clauses(tokens):
        negators = [place for place in range(start, end) if is_negated_form(tokens[place].form)]
        doubts = sum(tokens[place].form in DOUBTS for place in range(start, end))
        carried = carried or (doubted and tokens[start].form == "that")
        doubted = (len(negators) + doubts) % 2 == 1
        meaningful = [place for place in range(start, end) if is_meaningful(tokens[place])]
        if len(negators) % 2 != carried:
            negated.update(meaningful)
        if negators:
            ends_clause = not any(place > negators[-1] for place in meaningful)
            carried = ends_clause and is_adverb_of_negation(tokens[negators[-1]].form)
        elif meaningful:
            carried = False
    return negated


def compare_negation(statement: Sequence[Token], source: Sequence[Token], passage: int) -> Iterator[Part]:
    """Yield each clause of a statement that is negated where most of its words in the source are not, or the
    reverse."""
    negated_in_source = negated_places(source)
    in_source: dict[str, list[int]] = {}
    for place, token in enumerate(source):
        if is_meaningful(token):
            in_source.setdefault(identity(token), []).append(place)
    negated = negated_places(statement)
    for start, end in clauses(statement):
        known = [
            (place, in_source[identity(statement[place])])
            for place in range(start, end)
            if is_meaningful(statement[place]) and identity(statement[place]) in in_source
        ]
        differing = [
            (own, others[0])
            for own, others in known
            if all((own in negated) is not (other in negated_in_source) for other in others[:MAX_PLACES])
        ]
        if 2 * len(differing) > len(known):
            own, other = differing[0]
            yield make_part(
                _negator_before(statement, own),
                Status.differs,
                _negator_before(source, other),
                passage,
                NEGATION,
            )


def _negator_before(tokens: Sequence[Token], place: int) -> Token:
    """The last negator before a token in its sentence, or the token."""
    for token in reversed(tokens[max(place - MAX_PLACES, 0) : place]):
        if token.kind is Kind.sign and token.text in SENTENCE_SIGNS:
            break
        if is_negated_form(token.form):
            return token
    return tokens[place]


def is_asserted(source: Sequence[Token], first: int, last: int) -> bool:
    """Whether a source says the tokens first..last itself.

    It neither negates nor doubts them, and the last is not the beginning of a range.
    """
    before = list(_before_in_sentence(source, first))
    for place, token in enumerate(before):
        if token.kind is Kind.sign and token.text in CLAUSE_SIGNS and token.text != ",":
            break
        if is_negated_form(token.form) or token.form in DOUBTS:
            return False
        opens_clause = token.form in CLAUSE_OPENERS and token.form != "that"
        if opens_clause or (token.text == "," and place > 0):
            break
    if last + 2 < len(source) and source[last].kind is Kind.number and source[last + 2].kind is Kind.number:
        return source[last + 1].text not in ("-", "–", "—")
    return True


def _before_in_sentence(source: Sequence[Token], first: int) -> Iterator[Token]:
    for place in range(first - 1, -1, -1):
        if source[place].kind is Kind.sign and source[place].text in SENTENCE_SIGNS:
            return
        yield source[place]
