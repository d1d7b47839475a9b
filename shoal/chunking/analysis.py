"""A draft becomes chunks: parsed, cut where the topic changes, each chunk described by its reefs."""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, NamedTuple, Protocol

from lagoon import ReadText, SectionStart, Sentence, TextSentences
from shoal.chunking.profiles import SCORE_DIGITS, chunks_of
from shoal.errors import DocumentTooLargeError, EmptyDocumentError
from shoal.formats.parsing import parse
from shoal.models import (
    Chunk,
    DocumentDraft,
    LeftOut,
    ParsedDocument,
    ScoredDocument,
    Section,
)
from shoal.settings import Settings

# English prose of any age has a coverage over 0.8 (benchmarks/chunk_audit.py prints it); passages of German, French,
# Spanish, Italian and Latin had 0.18 to 0.39. A few words tell nothing; from two sentences on, hardly any English ones
# are below, and all German ones.
LOW_COVERAGE = 0.55
MIN_WORDS_TO_JUDGE = 20
NO_TEXT = "the document has no text besides headings, comments and rules"
LOW_COVERAGE_WARNING = "low coverage:"
# A comment or rule longer than this between two sentences parts two chunks, so that a chunk is mostly text.
MAX_GAP_CHARS = 400

MAX_CHUNKS = 65_536
"""Of a document; at 12 KiB of memory each."""

# "Title: Walden" is about Walden, not about titles.
_LABEL = re.compile(r"(?:title|author|year|date):\s+", re.IGNORECASE)


class Scorer(Protocol):
    """What chunking needs of lagoon.ReefScorer. Scores are rounded to SCORE_DIGITS."""

    @property
    def data_version(self) -> str: ...

    @property
    def data_checksum(self) -> str: ...

    def analyze(
        self,
        text: Sequence[str | Sentence],
        *,
        sensitivity: float,
        smooth_window: int,
        min_chunk_sentences: int,
        max_chunk_sentences: int,
        max_chunk_chars: int,
        sections: Sequence[SectionStart],
        context_weight: float,
        top_k: int,
    ) -> Any: ...


@dataclass(frozen=True, slots=True)
class AnalyzedDraft:
    """A draft, its structure, title and headings of each section as the scorer counted them, and lagoon's
    DocumentAnalysis; of several that were analysed at once, its TextSegments or, of drafts whose chunks were known, a
    CutAnalysis."""

    draft: DocumentDraft
    parsed: ParsedDocument
    contexts: tuple[str, ...]
    analysis: Any


def score_document(
    draft: DocumentDraft, scorer: Scorer, settings: Settings, *, vocabulary_version: int = 0
) -> ScoredDocument:
    """Chunks of a draft, ready to be stored. The result depends on nothing but the arguments.

    Raises EmptyDocumentError where nothing is left to make a chunk of.
    """
    analyzed = analyze(draft, scorer, settings)
    return scored_document(analyzed, scorer, vocabulary_version=vocabulary_version)


def analyze(draft: DocumentDraft, scorer: Scorer, settings: Settings) -> AnalyzedDraft:
    """A draft parsed, and cut where the topic changes.

    Raises EmptyDocumentError where nothing is left to make a chunk of, and DocumentTooLargeError.
    """
    parsed = parse(draft, max_block_chars=settings.max_chunk_chars)
    if not parsed.sentences:
        raise EmptyDocumentError(NO_TEXT)
    sections = _section_starts(draft.title, parsed, settings.heading_weight > 0)
    analysis = scorer.analyze(_sentences(parsed), sections=sections, **_options(settings))
    if len(analysis.boundaries) >= MAX_CHUNKS:
        raise DocumentTooLargeError(
            f"the document has more than {MAX_CHUNKS:,} passages, which is the limit; split it into several"
        )
    return AnalyzedDraft(draft, parsed, tuple(section.context for section in sections), analysis)


class AnalyzedDrafts(NamedTuple):
    """Drafts that were analysed at once, and lagoon's TextsAnalysis of them."""

    drafts: list[AnalyzedDraft]
    analysis: Any


def analyze_many(drafts: Sequence[DocumentDraft], scorer: Any, settings: Settings) -> AnalyzedDrafts:
    """As `analyze` of each draft by a scorer of lagoon; those with nothing to make a chunk of are left out. For notes
    this takes a fifth of the time."""
    parsed = [(draft, parse(draft, max_block_chars=settings.max_chunk_chars)) for draft in drafts]
    given = [
        (
            draft,
            one,
            TextSentences(_sentences(one), _section_starts(draft.title, one, settings.heading_weight > 0)),
        )
        for draft, one in parsed
        if one.sentences
    ]
    analysis = scorer.analyze_many([text for _, _, text in given], **_options(settings))
    return AnalyzedDrafts(
        [
            AnalyzedDraft(draft, one, tuple(section.context for section in text.sections), segments)
            for (draft, one, text), segments in zip(given, analysis, strict=True)
        ],
        analysis,
    )


def _options(settings: Settings) -> dict[str, Any]:
    """What the scorer is told about cutting a text."""
    return {
        "sensitivity": settings.sensitivity,
        "smooth_window": settings.smooth_window,
        "min_chunk_sentences": settings.min_chunk_sentences,
        "max_chunk_sentences": settings.max_chunk_sentences,
        "max_chunk_chars": settings.max_chunk_chars,
        "context_weight": settings.heading_weight,
        "top_k": settings.reefs_per_chunk,
    }


def cuts_of(analyzed: AnalyzedDraft) -> list[int]:
    """Where the chunks of an analysed draft begin, as offsets."""
    sentences = analyzed.parsed.sentences
    return [sentences[first].start_char for first in (0, *analyzed.analysis.boundaries)]


def analyze_cut(
    draft: DocumentDraft,
    cuts: Sequence[int],
    scorer: Any,
    settings: Settings,
    *,
    read: ReadDraft | None = None,
) -> AnalyzedDraft | None:
    """A draft parsed and read, unless that was done before, and cut at the given offsets: what a chunk is doesn't change
    with what is known of words.

    None where no sentence begins at one of them, or one begins before the first: the text was read in another way.
    """
    if read is None or read.text is None:
        return analyze_cuts([CutDraft(draft, cuts, read and read.parsed)], scorer, settings)[0]
    cut = _cut(CutDraft(draft, cuts, read.parsed), settings)
    if cut is None:
        return None
    topics = scorer.score_sections(
        read.text,
        [SectionStart(first, context) for first, context in zip(cut.firsts, cut.contexts, strict=True)],
        context_weight=settings.heading_weight,
        top_k=settings.reefs_per_chunk,
    )
    ends = [*cut.firsts[1:], len(cut.parsed.sentences)]
    segments = [Segment(*one) for one in zip(cut.firsts, ends, topics, strict=True)]
    return AnalyzedDraft(draft, cut.parsed, tuple(cut.contexts), CutAnalysis(segments))


class ReadDraft(NamedTuple):
    """How a draft is parsed and, if it is known, how it is read. `parsed.masked` is empty then: what was to be read of it
    has been."""

    parsed: ParsedDocument
    text: ReadText | None

    @staticmethod
    def of(analyzed: AnalyzedDraft) -> ReadDraft:
        """As found by an analysis by itself, with a scorer of lagoon."""
        text = analyzed.analysis.read
        parsed = analyzed.parsed if text is None else dataclasses.replace(analyzed.parsed, masked="")
        return ReadDraft(parsed, text)


class CutDraft(NamedTuple):
    """A draft, where its chunks begin, and how it is parsed if that is known."""

    draft: DocumentDraft
    cuts: Sequence[int]
    parsed: ParsedDocument | None


class CutAnalysis(NamedTuple):
    """The segments of one draft, of several that were analysed at once."""

    segments: Sequence[Segment]


class Segment(NamedTuple):
    """As lagoon's TopicSegment: sentences start_idx..end_idx-1 of a draft and what they are about."""

    start_idx: int
    end_idx: int
    topic: Any


def analyze_cuts(
    drafts: Sequence[CutDraft], scorer: Scorer, settings: Settings
) -> list[AnalyzedDraft | None]:
    """As `analyze_cut` of each draft. They are read one after the other as one text, whose parts don't touch one another:
    for notes this takes a third of the time."""
    cut = [_cut(draft, settings) for draft in drafts]
    there = [draft for draft in cut if draft is not None]
    if not there:
        return [None] * len(drafts)
    sentences = [sentence for draft in there for sentence in _sentences(draft.parsed)]
    starts = list(accumulate((len(draft.parsed.sentences) for draft in there), initial=0))
    analysis = scorer.analyze(
        sentences,
        sensitivity=settings.sensitivity,
        smooth_window=settings.smooth_window,
        # Every cut is given: none is to be looked for.
        min_chunk_sentences=len(sentences) + 1,
        max_chunk_sentences=0,
        max_chunk_chars=0,
        sections=[
            SectionStart(start + first, context)
            for start, draft in zip(starts, there, strict=False)
            for first, context in zip(draft.firsts, draft.contexts, strict=True)
        ],
        context_weight=settings.heading_weight,
        top_k=settings.reefs_per_chunk,
    )
    segments = iter(analysis.segments)
    start_of = iter(starts)

    def analyzed(draft: _CutDraft) -> AnalyzedDraft:
        start = next(start_of)
        own = [
            Segment(one.start_idx - start, one.end_idx - start, one.topic)
            for one in islice(segments, len(draft.firsts))
        ]
        return AnalyzedDraft(draft.draft, draft.parsed, tuple(draft.contexts), CutAnalysis(own))

    return [None if draft is None else analyzed(draft) for draft in cut]


class _CutDraft(NamedTuple):
    """A parsed draft with the first sentences of its chunks and the context of each."""

    draft: DocumentDraft
    parsed: ParsedDocument
    firsts: list[int]
    contexts: list[str]


def _cut(given: CutDraft, settings: Settings) -> _CutDraft | None:
    draft, cuts, parsed = given
    parsed = parsed or parse(draft, max_block_chars=settings.max_chunk_chars)
    numbers = {sentence.start_char: i for i, sentence in enumerate(parsed.sentences)}
    firsts = [numbers[cut] for cut in cuts if cut in numbers]
    if not firsts or firsts[0] != 0 or len(firsts) < len(cuts):
        return None
    of_section = [_context(draft.title, section) for section in parsed.sections]
    with_context = settings.heading_weight > 0
    contexts = [of_section[parsed.sentences[i].section] if with_context else "" for i in firsts]
    return _CutDraft(draft, parsed, firsts, contexts)


def scored_document(
    analyzed: AnalyzedDraft, scorer: Scorer, *, vocabulary_version: int = 0
) -> ScoredDocument:
    """The chunks of an analysed draft; `scorer` is only asked for its data's version."""
    draft, parsed, analysis = analyzed.draft, analyzed.parsed, analyzed.analysis
    segments = analysis.segments
    chunks = chunks_of(draft.content, parsed.sentences, segments)
    topics = [segment.topic for segment in segments]
    n_words = sum(topic.n_words for topic in topics)
    matched = sum(topic.matched_words for topic in topics)
    coverage = round(matched / n_words, SCORE_DIGITS) if n_words else 0.0
    return ScoredDocument(
        draft=draft,
        sections=parsed.sections,
        chunks=chunks,
        left_out=_outside(parsed.left_out, chunks),
        n_sentences=len(parsed.sentences),
        coverage=coverage,
        warnings=(*_without_warnings(draft.warnings), *_warnings(coverage, n_words)),
        vocabulary_version=vocabulary_version,
        data_version=scorer.data_version,
        data_checksum=scorer.data_checksum,
    )


def _sentences(parsed: ParsedDocument) -> list[Sentence]:
    """The sentences as the scorer is to read them."""
    masked = parsed.masked
    return [Sentence(masked[s.start_char : s.end_char], s.start_char, s.end_char) for s in parsed.sentences]


def _section_starts(title: str, parsed: ParsedDocument, with_context: bool) -> list[SectionStart]:
    """Where a chunk must begin: at a section's first sentence, and behind a long span that is left out."""
    starts: list[SectionStart] = []
    section = -1
    end = 0
    for i, sentence in enumerate(parsed.sentences):
        if sentence.section != section or sentence.start_char - end > MAX_GAP_CHARS:
            section = sentence.section
            starts.append(SectionStart(i, _context(title, parsed.sections[section]) if with_context else ""))
        end = sentence.end_char
    return starts


def _context(title: str, section: Section) -> str:
    """Title and headings, each once and as a paragraph, so that no compound is read across them."""
    named = {
        text.casefold(): text for text in (title, *(_LABEL.sub("", heading) for heading in section.path))
    }
    return "\n\n".join(named.values())


def _outside(left_out: Sequence[LeftOut], chunks: Sequence[Chunk]) -> tuple[LeftOut, ...]:
    """The left-out spans that are in no chunk's text, but for headings, which the sections hold."""
    starts = [chunk.start_char for chunk in chunks]

    def is_inside(span: LeftOut) -> bool:
        before = bisect_right(starts, span.start_char) - 1
        return before >= 0 and span.end_char <= chunks[before].end_char

    return tuple(span for span in left_out if span.reason != "heading" and not is_inside(span))


def _without_warnings(given: Sequence[str]) -> tuple[str, ...]:
    """What was said of a text before it was scored, where it may have been scored before."""
    return tuple(warning for warning in given if not warning.startswith(LOW_COVERAGE_WARNING))


def _warnings(coverage: float, n_words: int) -> tuple[str, ...]:
    if n_words < MIN_WORDS_TO_JUDGE or coverage >= LOW_COVERAGE:
        return ()
    return (f"{LOW_COVERAGE_WARNING} only {coverage:.0%} of {n_words:,} words are known; is this English?",)
