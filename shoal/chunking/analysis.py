"""Turn a draft into chunks: parse it, segment it by topic, and describe each chunk by its reefs."""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, NamedTuple

from lagoon import ReadText, SectionStart, Sentence, TextSentences
from shoal.chunking.profiles import SCORE_DIGITS, build_chunks
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
from shoal.scorer import LearningScorer, Scorer
from shoal.settings import Settings

# English prose of any age has a coverage over 0.8 (benchmarks/chunk_audit.py prints it); chunks of German,
# French, Spanish, Italian and Latin had 0.18 to 0.39. Texts of a few words are not judged. From two sentences
# on, hardly any English text and every German text falls below the limit.
LOW_COVERAGE = 0.55
MIN_WORDS_TO_JUDGE = 20
NO_TEXT = "the document has no text besides headings, comments and rules"
LOW_COVERAGE_WARNING = "low coverage:"
# A comment or rule longer than this ends a chunk, so that a chunk is mostly text.
MAX_GAP_CHARS = 400

MAX_CHUNKS = 65_536
"""Limit for one document; each chunk takes 12 KiB of memory."""

# The label is not part of the topic: "Title: Walden" is about Walden, not about titles.
_LABEL = re.compile(r"(?:title|author|year|date):\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AnalyzedDraft:
    """A draft, its structure, and lagoon's analysis of it.

    `contexts`: title and headings of each section, as the scorer counted them. `analysis`: a
    DocumentAnalysis; a TextSegments where several drafts were analyzed at once; a CutAnalysis where the chunk
    boundaries were given.
    """

    draft: DocumentDraft
    parsed: ParsedDocument
    contexts: tuple[str, ...]
    analysis: Any


def score_document(
    draft: DocumentDraft, scorer: Scorer, settings: Settings, *, vocabulary_version: int = 0
) -> ScoredDocument:
    """Chunk and score a draft, ready to be stored. Pure: the result depends on the arguments only.

    Raises EmptyDocumentError if the draft has no sentence, and DocumentTooLargeError.
    """
    analyzed = analyze(draft, scorer, settings)
    return scored_document(analyzed, scorer, vocabulary_version=vocabulary_version)


def analyze(draft: DocumentDraft, scorer: Scorer, settings: Settings) -> AnalyzedDraft:
    """Parse a draft and segment it where the topic changes.

    Raises EmptyDocumentError if the draft has no sentence, and DocumentTooLargeError.
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
    """Drafts that were analyzed at once, and lagoon's TextsAnalysis of them."""

    drafts: list[AnalyzedDraft]
    analysis: Any


def analyze_many(
    drafts: Sequence[DocumentDraft], scorer: LearningScorer, settings: Settings
) -> AnalyzedDrafts:
    """Analyze several drafts at once with a scorer of lagoon; drafts without a sentence are left out.

    Gives the same segments as `analyze` of each draft, for notes in a fifth of the time.
    """
    parsed = [(draft, parse(draft, max_block_chars=settings.max_chunk_chars)) for draft in drafts]
    texts = [
        (
            draft,
            document,
            TextSentences(
                _sentences(document), _section_starts(draft.title, document, settings.heading_weight > 0)
            ),
        )
        for draft, document in parsed
        if document.sentences
    ]
    analysis = scorer.analyze_many([text for _, _, text in texts], **_options(settings))
    return AnalyzedDrafts(
        [
            AnalyzedDraft(draft, document, tuple(section.context for section in text.sections), segments)
            for (draft, document, text), segments in zip(texts, analysis, strict=True)
        ],
        analysis,
    )


def _options(settings: Settings) -> dict[str, Any]:
    """Segmentation options of the scorer."""
    return {
        "sensitivity": settings.sensitivity,
        "smooth_window": settings.smooth_window,
        "min_chunk_sentences": settings.min_chunk_sentences,
        "max_chunk_sentences": settings.max_chunk_sentences,
        "max_chunk_chars": settings.max_chunk_chars,
        "context_weight": settings.heading_weight,
        "top_k": settings.reefs_per_chunk,
    }


def chunk_starts(analyzed: AnalyzedDraft) -> list[int]:
    """Start offsets of the chunks of an analyzed draft."""
    sentences = analyzed.parsed.sentences
    return [sentences[first].start_char for first in (0, *analyzed.analysis.boundaries)]


def analyze_cut(
    draft: DocumentDraft,
    cuts: Sequence[int],
    scorer: LearningScorer,
    settings: Settings,
    *,
    read: ReadDraft | None = None,
) -> AnalyzedDraft | None:
    """Score a draft with chunks that start at the offsets `cuts`; learned words do not move chunk boundaries.

    `read`: the parsed and tokenized draft, if an earlier stage has it. Returns None if an offset is not the
    start of
    a sentence, or the first offset is not the start of the first sentence: the text was parsed in another way
        then.
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
    segments = [Segment(*fields) for fields in zip(cut.firsts, ends, topics, strict=True)]
    return AnalyzedDraft(draft, cut.parsed, tuple(cut.contexts), CutAnalysis(segments))


class ReadDraft(NamedTuple):
    """A parsed draft with its tokenized text, if there is one. `parsed.masked` is empty then: it is no longer
    needed."""

    parsed: ParsedDocument
    text: ReadText | None

    @staticmethod
    def of(analyzed: AnalyzedDraft) -> ReadDraft:
        """Take both from the analysis of a single draft by a scorer of lagoon."""
        text = analyzed.analysis.read
        parsed = analyzed.parsed if text is None else dataclasses.replace(analyzed.parsed, masked="")
        return ReadDraft(parsed, text)


class CutDraft(NamedTuple):
    """A draft, the start offsets of its chunks, and the parsed document if an earlier stage has it."""

    draft: DocumentDraft
    cuts: Sequence[int]
    parsed: ParsedDocument | None


class CutAnalysis(NamedTuple):
    """The segments of a draft whose chunk boundaries were given."""

    segments: Sequence[Segment]


class Segment(NamedTuple):
    """Sentences start_idx..end_idx-1 of a draft and their topic, like lagoon's TopicSegment."""

    start_idx: int
    end_idx: int
    topic: Any


def analyze_cuts(
    drafts: Sequence[CutDraft], scorer: Scorer, settings: Settings
) -> list[AnalyzedDraft | None]:
    """Analyze several drafts with given chunk boundaries; each result equals that of `analyze_cut`.

    The drafts are scored as one text with a section border between them: for notes this takes a third of the
        time.
    """
    cut = [_cut(draft, settings) for draft in drafts]
    parsed_drafts = [draft for draft in cut if draft is not None]
    if not parsed_drafts:
        return [None] * len(drafts)
    sentences = [sentence for draft in parsed_drafts for sentence in _sentences(draft.parsed)]
    starts = list(accumulate((len(draft.parsed.sentences) for draft in parsed_drafts), initial=0))
    analysis = scorer.analyze(
        sentences,
        sensitivity=settings.sensitivity,
        smooth_window=settings.smooth_window,
        # All boundaries are given; these values disable the search for more.
        min_chunk_sentences=len(sentences) + 1,
        max_chunk_sentences=0,
        max_chunk_chars=0,
        sections=[
            SectionStart(start + first, context)
            for start, draft in zip(starts, parsed_drafts, strict=False)
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
            Segment(segment.start_idx - start, segment.end_idx - start, segment.topic)
            for segment in islice(segments, len(draft.firsts))
        ]
        return AnalyzedDraft(draft.draft, draft.parsed, tuple(draft.contexts), CutAnalysis(own))

    return [None if draft is None else analyzed(draft) for draft in cut]


class _CutDraft(NamedTuple):
    """A parsed draft with the first sentences of its chunks and the context of each."""

    draft: DocumentDraft
    parsed: ParsedDocument
    firsts: list[int]
    contexts: list[str]


def _cut(cut_draft: CutDraft, settings: Settings) -> _CutDraft | None:
    draft, cuts, parsed = cut_draft
    parsed = parsed or parse(draft, max_block_chars=settings.max_chunk_chars)
    numbers = {sentence.start_char: i for i, sentence in enumerate(parsed.sentences)}
    firsts = [numbers[cut] for cut in cuts if cut in numbers]
    if not firsts or firsts[0] != 0 or len(firsts) < len(cuts):
        return None
    section_contexts = [_context(draft.title, section) for section in parsed.sections]
    with_context = settings.heading_weight > 0
    contexts = [section_contexts[parsed.sentences[i].section] if with_context else "" for i in firsts]
    return _CutDraft(draft, parsed, firsts, contexts)


def scored_document(
    analyzed: AnalyzedDraft, scorer: Scorer, *, vocabulary_version: int = 0
) -> ScoredDocument:
    """Build the scored document of an analyzed draft; `scorer` supplies only the version of its data."""
    draft, parsed, analysis = analyzed.draft, analyzed.parsed, analyzed.analysis
    segments = analysis.segments
    chunks = build_chunks(draft.content, parsed.sentences, segments)
    topics = [segment.topic for segment in segments]
    n_words = sum(topic.n_words for topic in topics)
    matched = sum(topic.matched_words for topic in topics)
    coverage = round(matched / n_words, SCORE_DIGITS) if n_words else 0.0
    return ScoredDocument(
        draft=draft,
        sections=parsed.sections,
        chunks=chunks,
        left_out=_outside_chunks(parsed.left_out, chunks),
        n_sentences=len(parsed.sentences),
        coverage=coverage,
        warnings=(*_without_coverage_warnings(draft.warnings), *_coverage_warnings(coverage, n_words)),
        vocabulary_version=vocabulary_version,
        data_version=scorer.data_version,
        data_checksum=scorer.data_checksum,
    )


def _sentences(parsed: ParsedDocument) -> list[Sentence]:
    """Sentences for the scorer, with masked text."""
    masked = parsed.masked
    return [Sentence(masked[s.start_char : s.end_char], s.start_char, s.end_char) for s in parsed.sentences]


def _section_starts(title: str, parsed: ParsedDocument, with_context: bool) -> list[SectionStart]:
    """Sentences where a chunk must begin: the first of a section, and the first after a long left-out
    span."""
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
    """Title and headings, each once and as its own paragraph, so that no compound spans two of them."""
    named = {
        text.casefold(): text for text in (title, *(_LABEL.sub("", heading) for heading in section.path))
    }
    return "\n\n".join(named.values())


def _outside_chunks(left_out: Sequence[LeftOut], chunks: Sequence[Chunk]) -> tuple[LeftOut, ...]:
    """Left-out spans outside the text of all chunks, without headings, which the sections store."""
    starts = [chunk.start_char for chunk in chunks]

    def is_inside(span: LeftOut) -> bool:
        before = bisect_right(starts, span.start_char) - 1
        return before >= 0 and span.end_char <= chunks[before].end_char

    return tuple(span for span in left_out if span.reason != "heading" and not is_inside(span))


def _without_coverage_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """Drop the coverage warnings of an earlier scoring of the same draft."""
    return tuple(warning for warning in warnings if not warning.startswith(LOW_COVERAGE_WARNING))


def _coverage_warnings(coverage: float, n_words: int) -> tuple[str, ...]:
    if n_words < MIN_WORDS_TO_JUDGE or coverage >= LOW_COVERAGE:
        return ()
    return (f"{LOW_COVERAGE_WARNING} only {coverage:.0%} of {n_words:,} words are known; is this English?",)
