"""Turn a draft into chunks: parse it, segment it by topic, and describe each chunk by its reefs.

A chunk has its offsets and lines, its place in the original file, the packed profile and the labels.
"""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from lagoon import DocumentAnalysis, ReadText, SectionStart, Sentence, TextsAnalysis, TextSentences
from lagoon.compounds import code_points
from shoal.chunking.token_ranges import CHARS_PER_TOKEN, SentenceSizes, cut_in_range
from shoal.errors import DocumentTooLargeError, EmptyDocumentError
from shoal.formats.masking import mask_inline
from shoal.formats.parsing import find_windows, parse, windows_of
from shoal.models.documents import (
    Chunk,
    DocumentDraft,
    LeftOut,
    ParsedDocument,
    ScoredDocument,
    SentenceSpan,
)
from shoal.models.files import FilePlace, Locator, LocatorKind, TokenRange
from shoal.models.vocabulary import Reef
from shoal.scorer import AnalysisOptions, Scorer, Topic
from shoal.settings import Settings
from shoal.storage.profiles import PROBABILITY_STEPS, Profiles
from shoal.storage.staleness import pack_words
from shoal.support.languages import ENGLISH
from shoal.words.detection import languages_of_passages

# English prose of any age has a coverage over 0.8 (benchmarks/chunk_audit.py prints it); chunks of German,
# French, Spanish, Italian and Latin had 0.18 to 0.39. Texts of a few words are not judged. From two sentences
# on, hardly any English text and every German text falls below the limit.
LOW_COVERAGE = 0.55
MIN_WORDS_TO_JUDGE = 20
NO_TEXT = "the document has no text besides comments, rules and boilerplate"
LOW_COVERAGE_WARNING = "low coverage:"
# A comment or rule longer than this ends a chunk, so that a chunk is mostly text.
MAX_GAP_CHARS = 400

MAX_LEFT_OUT = 1000
"""Left-out spans that a report lists, besides headings; a text of rules or marks has millions."""

MAX_CHUNKS = 65_536
"""Limit for one document; each chunk takes 12 KiB of memory."""

_CONTEXT_BREAK = "\n\n"
# The label is not part of the topic: "Title: Walden" is about Walden, not about titles.
_LABEL = re.compile(r"\A(?:title|author|year|date):\s+", re.IGNORECASE)
# lagoon rounds scores to this many digits. Values computed from them are rounded alike, so that the same
# document gives the same rows on every machine.
SCORE_DIGITS = 6


@dataclass(frozen=True, slots=True)
class AnalyzedDocument:
    """A parsed draft, cut into segments that become chunks.

    firsts    number of the first sentence of each segment
    contexts  title and headings above each segment, as the scorer counts them
    topics    profile of each segment; empty before they are scored
    read      the tokens, with which `rescore` saves reading the text again; None for a short text
    analysis  what lagoon found out besides, about a draft that was analyzed alone
    """

    draft: DocumentDraft
    parsed: ParsedDocument
    firsts: Sequence[int]
    contexts: Sequence[str]
    topics: Sequence[Topic] = ()
    read: ReadText | None = None
    analysis: DocumentAnalysis | None = None

    @property
    def cuts(self) -> list[int]:
        """Start offsets of the chunks."""
        return [self.parsed.sentences[first].start_char for first in self.firsts]

    @property
    def sections(self) -> list[SectionStart]:
        """The segments as sections, which makes the scorer keep them."""
        return list(map(SectionStart, self.firsts, self.contexts))

    def without_topics(self) -> AnalyzedDocument:
        """The same before it was scored: all that `rescore` needs, in a small part of the memory."""
        return dataclasses.replace(self, topics=(), analysis=None)


def score_document(
    draft: DocumentDraft, scorer: Scorer, settings: Settings, *, vocabulary_version: int = 0
) -> ScoredDocument:
    """Chunk and score a draft, ready to be stored. Pure: the result depends on the arguments only.

    Raises EmptyDocumentError if the draft has no sentence, and DocumentTooLargeError.
    """
    analyzed = analyze(draft, scorer, settings)
    return scored_document(analyzed, scorer, vocabulary_version=vocabulary_version)


def analyze(
    draft: DocumentDraft, scorer: Scorer, settings: Settings, *, parsed_now: Callable[[], None] = lambda: None
) -> AnalyzedDocument:
    """Parse a draft, segment it where the topic changes, and score the segments.

    `parsed_now` is called after the first of these steps. Raises EmptyDocumentError if the draft has no
    sentence, and DocumentTooLargeError.
    """
    text = _read_text(draft, scorer, settings)
    parsed_now()
    if not text.parsed.sentences:
        raise EmptyDocumentError(NO_TEXT)
    analysis = scorer.analyze(_sentences(text.parsed), sections=text.sections(), **text.options(settings))
    document = text.segmented(analysis.boundaries, analysis.topics)
    if not isinstance(analysis, DocumentAnalysis):
        return document
    return dataclasses.replace(document, read=analysis.read, analysis=analysis)


class AnalyzedTexts(NamedTuple):
    """Documents that were analyzed at once, and lagoon's analysis of them."""

    documents: list[AnalyzedDocument]
    analysis: TextsAnalysis


def analyze_many(drafts: Sequence[DocumentDraft], scorer: Scorer, settings: Settings) -> list[AnalyzedTexts]:
    """Analyze several drafts at once: those that are cut by default, and the others. Drafts without a
    sentence are left out.

    Gives the same segments as `analyze` of each draft, for notes in a fifth of the time.
    """
    groups: dict[bool, list[_Text]] = defaultdict(list)
    for draft in drafts:
        text = _read_text(draft, scorer, settings)
        if text.parsed.sentences:
            groups[text.firsts is None].append(text)
    return [_analyzed_together(texts, scorer, settings) for texts in groups.values()]


def _analyzed_together(texts: Sequence[_Text], scorer: Scorer, settings: Settings) -> AnalyzedTexts:
    """Analyze texts that are all cut by default, or none of them."""
    options = max((text.options(settings) for text in texts), key=lambda each: each["min_chunk_sentences"])
    analysis = scorer.analyze_many(
        [TextSentences(_sentences(text.parsed), text.sections()) for text in texts], **options
    )
    documents = [
        text.segmented(segments.boundaries, segments.topics)
        for text, segments in zip(texts, analysis, strict=True)
    ]
    return AnalyzedTexts(documents, analysis)


class _Text(NamedTuple):
    """A parsed draft. `contexts`: of each section. `firsts`: the first sentence of each chunk if its caller
    or a range of tokens decides it, else None."""

    draft: DocumentDraft
    parsed: ParsedDocument
    contexts: Sequence[str]
    firsts: Sequence[int] | None

    def sections(self) -> list[SectionStart]:
        """Where the scorer must begin a segment."""
        if self.firsts is None:
            return _section_starts(self.draft, self.parsed, self.contexts)
        contexts = segment_contexts(self.parsed.sentences, self.firsts, self.contexts)
        return list(map(SectionStart, self.firsts, contexts))

    def options(self, settings: Settings) -> AnalysisOptions:
        """Options of the scorer: it looks for further boundaries in a text that is cut by default."""
        if self.firsts is None:
            return _options(settings)
        return _without_search(settings, len(self.parsed.sentences))

    def segmented(self, boundaries: Sequence[int], topics: Sequence[Topic]) -> AnalyzedDocument:
        return _segmented(self.draft, self.parsed, self.contexts, boundaries, topics)


def _read_text(draft: DocumentDraft, scorer: Scorer, settings: Settings) -> _Text:
    parsed = _parse(draft, settings)
    firsts = _decided_firsts(draft, parsed, scorer, settings) if parsed.sentences else None
    return _Text(draft, parsed, section_contexts(draft, parsed, settings), firsts)


def cut(
    draft: DocumentDraft, cuts: Sequence[int], settings: Settings, *, keep_boilerplate: bool = False
) -> AnalyzedDocument | None:
    """Parse a draft whose chunks start at the offsets `cuts`; `rescore` scores them.

    Returns None if an offset is not the start of a sentence, or the first is not that of the first sentence:
    the text was parsed in another way then.
    """
    parsed = _parse(draft, settings, keep_boilerplate=keep_boilerplate)
    numbers = {sentence.start_char: i for i, sentence in enumerate(parsed.sentences)}
    firsts = [numbers[offset] for offset in cuts if offset in numbers]
    if not firsts or firsts[0] != 0 or len(firsts) < len(cuts):
        return None
    return _segmented(draft, parsed, section_contexts(draft, parsed, settings), firsts[1:])


def rescore(document: AnalyzedDocument, scorer: Scorer, settings: Settings) -> AnalyzedDocument:
    """Score the segments of a document; learned words do not move their boundaries."""
    if document.read is None:
        return rescore_many([document], scorer, settings)[0]
    topics = scorer.score_sections(
        document.read,
        document.sections,
        context_weight=settings.heading_weight,
        top_k=settings.reefs_per_chunk,
    )
    return dataclasses.replace(document, topics=topics, analysis=None)


def rescore_many(
    documents: Sequence[AnalyzedDocument], scorer: Scorer, settings: Settings
) -> list[AnalyzedDocument]:
    """Score the segments of several documents with their masked text; each result equals that of `rescore`.

    The documents are scored as one text with a section border between them: for notes this takes a third of
    the time.
    """
    if not documents:
        return []
    sentences = [sentence for document in documents for sentence in _sentences(document.parsed)]
    starts = accumulate((len(document.parsed.sentences) for document in documents), initial=0)
    sections = [
        SectionStart(start + first, context, begins_document=first == 0)
        for start, document in zip(starts, documents, strict=False)
        for first, context, _ in document.sections
    ]
    options = _without_search(settings, len(sentences))
    topics = iter(scorer.analyze(sentences, sections=sections, **options).topics)
    return [
        dataclasses.replace(document, topics=list(islice(topics, len(document.firsts))), analysis=None)
        for document in documents
    ]


def passage_profile(text: str, title: str, path: Sequence[str], scorer: Scorer, settings: Settings) -> bytes:
    """Return the packed profile of a passage below a title and headings. Its probabilities are those of a
    passage without neighbours; its z-scores do not depend on them."""
    context = _context(title, path) if settings.heading_weight > 0 else ""
    sentences = [Sentence(mask_inline(text), 0, len(text))]
    options = _without_search(settings, len(sentences))
    topics = list(scorer.analyze(sentences, sections=[SectionStart(0, context)], **options).topics)
    (profile,) = profiles_of(topics, scorer.reefs)
    return profile["profile"]


def _parse(draft: DocumentDraft, settings: Settings, *, keep_boilerplate: bool = False) -> ParsedDocument:
    most = settings.max_chunk_chars
    if (tokens := _token_range(draft)) is not None:
        most = min(most, CHARS_PER_TOKEN * tokens.high)
    return parse(draft, max_block_chars=most, keep_boilerplate=keep_boilerplate)


def _token_range(draft: DocumentDraft) -> TokenRange | None:
    """The range of tokens that the chunks of a draft must keep to, if any."""
    return None if draft.passages else TokenRange.of(draft.chunk_tokens)


def _decided_firsts(
    draft: DocumentDraft, parsed: ParsedDocument, scorer: Scorer, settings: Settings
) -> list[int] | None:
    """The first sentence of each chunk of a draft that its caller has cut, or that is cut within a range of
    tokens; None for a draft that is cut by default."""
    if draft.passages:
        begins = {passage.start_char for passage in draft.passages}
        return [i for i, sentence in enumerate(parsed.sentences) if sentence.start_char in begins]
    tokens = _token_range(draft)
    if tokens is None:
        return None
    sizes = SentenceSizes(draft.content, parsed.sentences)
    if sizes.total < tokens.low:
        return None
    windows = windows_of(parsed.sentences, find_windows(draft.content, draft.locators))
    forced = _run_starts(parsed, windows)
    headings = _run_starts(parsed, (sentence.section for sentence in parsed.sentences))
    if sizes.total < 2 * tokens.low:
        return forced
    cosines = scorer.gap_cosines(_sentences(parsed), smooth_window=settings.smooth_window)
    return cut_in_range(sizes, cosines, headings, forced, tokens)


def _options(settings: Settings) -> AnalysisOptions:
    """Options of the scorer."""
    return {
        "sensitivity": settings.sensitivity,
        "smooth_window": settings.smooth_window,
        "min_chunk_sentences": settings.min_chunk_sentences,
        "max_chunk_sentences": settings.max_chunk_sentences,
        "max_chunk_chars": settings.max_chunk_chars,
        "context_weight": settings.heading_weight,
        "top_k": settings.reefs_per_chunk,
    }


def _without_search(settings: Settings, n_sentences: int) -> AnalysisOptions:
    """Options of the scorer for sentences whose boundaries are all given."""
    return {
        **_options(settings),
        "min_chunk_sentences": n_sentences + 1,
        "max_chunk_sentences": 0,
        "max_chunk_chars": 0,
    }


def _segmented(
    draft: DocumentDraft,
    parsed: ParsedDocument,
    contexts: Sequence[str],
    boundaries: Sequence[int],
    topics: Sequence[Topic] = (),
) -> AnalyzedDocument:
    """The document with its first segment and those that start at `boundaries`. `contexts`: by section."""
    if len(boundaries) >= MAX_CHUNKS:
        raise DocumentTooLargeError(
            f"the document has more than {MAX_CHUNKS:,} passages, which is the limit; split it into several"
        )
    firsts = (0, *boundaries)
    of_segments = segment_contexts(parsed.sentences, firsts, contexts)
    return AnalyzedDocument(draft, parsed, firsts, of_segments, topics)


def segment_contexts(
    sentences: Sequence[SentenceSpan], firsts: Sequence[int], contexts: Sequence[str]
) -> list[str]:
    """The context of each segment: those of the sections it is in, each heading once. `contexts`: by
    section."""
    found = []
    for first, end in pairwise([*firsts, len(sentences)]):
        sections = range(sentences[first].section, sentences[end - 1].section + 1)
        if len(sections) == 1:
            found.append(contexts[sections[0]])
        else:
            headings = (
                heading for section in sections for heading in contexts[section].split(_CONTEXT_BREAK)
            )
            found.append(_CONTEXT_BREAK.join(dict.fromkeys(filter(None, headings))))
    return found


def scored_document(
    analyzed: AnalyzedDocument, scorer: Scorer, *, vocabulary_version: int = 0
) -> ScoredDocument:
    """Build the scored document of an analyzed one; `scorer` supplies only its reefs and versions."""
    return scored_documents([analyzed], scorer, vocabulary_version=vocabulary_version)[0]


def scored_documents(
    analyzed: Sequence[AnalyzedDocument], scorer: Scorer, *, vocabulary_version: int = 0
) -> list[ScoredDocument]:
    """Build the scored documents of several analyzed ones, which for notes saves a third of the time."""
    # lagoon computes profiles on access.
    topics = [list(document.topics) for document in analyzed]
    profiles = profiles_of(list(chain.from_iterable(topics)), scorer.reefs)
    return [
        _scored_document(document, of_document, profiles, scorer, vocabulary_version)
        for document, of_document in zip(analyzed, topics, strict=True)
    ]


def _scored_document(
    analyzed: AnalyzedDocument,
    topics: Sequence[Topic],
    profiles: Iterator[Profile],
    scorer: Scorer,
    vocabulary_version: int,
) -> ScoredDocument:
    """Build a scored document, and take the profiles of its topics from `profiles`."""
    draft, parsed = analyzed.draft, analyzed.parsed
    chunks = build_chunks(draft.content, parsed.sentences, analyzed.firsts, topics, profiles, draft.locators)
    language, of_chunks = languages_of_passages([chunk.text for chunk in chunks], draft.language)
    if any(code != ENGLISH for code in of_chunks):
        chunks = _in_languages(chunks, of_chunks, scorer.reefs)
    left_out = _outside_chunks(parsed.left_out, chunks)
    n_words = sum(topic.n_words for topic in topics)
    matched = sum(topic.matched_words for topic in topics)
    coverage = round(matched / n_words, SCORE_DIGITS) if n_words else 0.0
    return ScoredDocument(
        draft=draft,
        sections=parsed.sections,
        chunks=chunks,
        left_out=left_out[:MAX_LEFT_OUT],
        n_left_out=Counter(span.reason for span in left_out),
        n_sentences=len(parsed.sentences),
        coverage=coverage,
        warnings=(
            *_without_coverage_warnings(draft.warnings),
            *_coverage_warnings(coverage, n_words, language),
        ),
        vocabulary_version=vocabulary_version,
        data_version=scorer.data_version,
        data_checksum=scorer.data_checksum,
        reefs=scorer.reefs,
        islands=scorer.islands,
        unknown_words=_unknown_words(analyzed.contexts, topics, scorer) if scorer.can_learn else None,
        language=language,
    )


def _in_languages(chunks: Sequence[Chunk], codes: Sequence[str], reefs: Sequence[Reef]) -> tuple[Chunk, ...]:
    """Give each chunk its language. One that is not English has no labels: its words that look English mean
    something else."""
    unlabelled = _profile_fields(Profiles.of([chunk.profile for chunk in chunks]).without_labels(), reefs)
    return tuple(
        chunk if code == ENGLISH else dataclasses.replace(chunk, language=code, **fields)
        for chunk, code, fields in zip(chunks, codes, unlabelled, strict=True)
    )


def _unknown_words(contexts: Sequence[str], topics: Sequence[Any], scorer: Scorer) -> bytes:
    """The packed keys of the words of each chunk, and of the headings above it, that may be learned."""
    of_context = {context: scorer.unknown_keys(context) for context in set(contexts)}
    return pack_words(
        [(topic.unknown_keys, of_context[context]) for topic, context in zip(topics, contexts, strict=True)]
    )


def _sentences(parsed: ParsedDocument) -> list[Sentence]:
    """Sentences for the scorer, with masked text."""
    masked = parsed.masked
    return [Sentence(masked[s.start_char : s.end_char], s.start_char, s.end_char) for s in parsed.sentences]


def _section_starts(
    draft: DocumentDraft, parsed: ParsedDocument, contexts: Sequence[str]
) -> list[SectionStart]:
    """Sentences where a chunk must begin: the first of a section, the first of a recording's window and the
    first after it, and the first after a long left-out span."""
    windows = windows_of(parsed.sentences, find_windows(draft.content, draft.locators))
    keys = [(sentence.section, window) for sentence, window in zip(parsed.sentences, windows, strict=True)]
    return [SectionStart(i, contexts[parsed.sentences[i].section]) for i in _run_starts(parsed, keys)]


def _run_starts(parsed: ParsedDocument, keys: Iterable[Hashable]) -> list[int]:
    """Sentences whose key differs from that of the one before, and those after a long left-out span."""
    starts: list[int] = []
    previous: Hashable = None
    end = 0
    for i, (sentence, key) in enumerate(zip(parsed.sentences, keys, strict=True)):
        if not starts or key != previous or sentence.start_char - end > MAX_GAP_CHARS:
            previous = key
            starts.append(i)
        end = sentence.end_char
    return starts


def section_contexts(draft: DocumentDraft, parsed: ParsedDocument, settings: Settings) -> list[str]:
    """The context of each section; all are empty if headings have no weight."""
    if not settings.heading_weight > 0:
        return [""] * len(parsed.sections)
    return [_context(draft.title, section.path) for section in parsed.sections]


def _context(title: str, path: Sequence[str]) -> str:
    """Title and headings, each once and as its own paragraph, so that no compound spans two of them."""
    named = {text.casefold(): text for text in (title, *(_LABEL.sub("", heading) for heading in path))}
    return _CONTEXT_BREAK.join(named.values())


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


def _coverage_warnings(coverage: float, n_words: int, language: str) -> tuple[str, ...]:
    if n_words < MIN_WORDS_TO_JUDGE or coverage >= LOW_COVERAGE:
        return ()
    if language != ENGLISH:
        return (f"{LOW_COVERAGE_WARNING} its language is {language}, and only English words have topics",)
    return (f"{LOW_COVERAGE_WARNING} only {coverage:.0%} of {n_words:,} words are known; is this English?",)


def build_chunks(
    content: str,
    sentences: Sequence[SentenceSpan],
    firsts: Sequence[int],
    topics: Sequence[Topic],
    profiles: Iterable[Profile],
    locators: Sequence[Locator] = (),
) -> tuple[Chunk, ...]:
    """Build one chunk from each segment of a draft, in order. `firsts`: the first sentence of each;
    `profiles` begins with theirs; `locators`: those of the file that the content was converted from. If they
    are lines, the lines of a chunk are those of the file, otherwise those of the content."""
    segments = [sentences[first:end] for first, end in pairwise([*firsts, len(sentences)])]
    starts = np.array([segment[0].start_char for segment in segments], dtype=np.int64)
    ends = np.array([segment[-1].end_char for segment in segments], dtype=np.int64)
    line_starts = _line_starts(content)
    first_lines = np.searchsorted(line_starts, starts, side="right").tolist()
    last_lines = np.searchsorted(line_starts, ends - 1, side="right").tolist()
    places = file_places(locators, list(zip(starts.tolist(), ends.tolist(), strict=True)))
    # `profiles` is last, so that none is taken beyond the last segment.
    parts = zip(segments, first_lines, last_lines, topics, places, profiles, strict=False)
    return tuple(_chunk(content, index, *part) for index, part in enumerate(parts))


def _line_starts(content: str) -> NDArray[np.int64]:
    """Start offsets of lines; a line ends with a line feed, a carriage return, or both."""
    codes = code_points(content)
    is_end = codes == ord("\n")
    if "\r" in content:
        is_end[:-1] |= (codes[:-1] == ord("\r")) & ~is_end[1:]
        is_end[-1:] |= codes[-1:] == ord("\r")
    ends = np.flatnonzero(is_end)
    starts = np.zeros(len(ends) + 1, dtype=np.int64)
    np.add(ends, 1, out=starts[1:])
    return starts


def _chunk(
    content: str,
    index: int,
    segment: Sequence[SentenceSpan],
    first_line: int,
    last_line: int,
    topic: Topic,
    place: FilePlace | None,
    profile: Profile,
) -> Chunk:
    start, end = segment[0].start_char, segment[-1].end_char
    if place is not None and place.kind is LocatorKind.line:
        first_line, last_line = int(place.first), int(place.last)
    natural, physical, abstract, social = topic.arch_scores
    return Chunk(
        chunk_index=index,
        section=segment[0].section,
        text=content[start:end],
        start_char=start,
        end_char=end,
        start_line=first_line,
        end_line=last_line,
        sentence_count=len(segment),
        confidence=topic.confidence,
        coverage=topic.coverage,
        matched_words=topic.matched_words,
        arch_scores=(natural, physical, abstract, social),
        place=place,
        **profile,
    )


class Profile(TypedDict):
    """The fields of a chunk that hold its profile or follow from it."""

    profile: bytes
    norm: float
    top_reef_id: int | None
    top_reef_name: str | None
    top_reef_probability: float


def profiles_of(topics: Sequence[Topic], reefs: Sequence[Reef]) -> Iterator[Profile]:
    """The profiles of chunks, from their reefs with z above 0. `reefs`: all reefs of the scorer."""
    return _profile_fields(Profiles.from_scores([topic.reef_arrays for topic in topics]), reefs)


def _profile_fields(profiles: Profiles, reefs: Sequence[Reef]) -> Iterator[Profile]:
    norms = profiles.norms.round(SCORE_DIGITS).tolist()
    for packed, norm, top in zip(profiles.packed(), norms, profiles.top_records.tolist(), strict=True):
        record = None if top < 0 else profiles.records[top]
        reef = None if record is None else int(record["reef_id"])
        yield Profile(
            profile=packed,
            norm=norm,
            top_reef_id=reef,
            top_reef_name=None if reef is None else reefs[reef].name,
            top_reef_probability=0.0 if record is None else int(record["probability"]) / PROBABILITY_STEPS,
        )


def file_places(locators: Sequence[Locator], spans: Sequence[tuple[int, int]]) -> list[FilePlace | None]:
    """Return the place of each span, given by start and end in code points; None if no locator covers any of
    it.

    Locators and spans are in order, and neither overlap. A span over several units has the first and the
    last of them, and their name if all have the same. Sheets of other names are not joined: a span belongs
    to the first one.
    """
    places: list[FilePlace | None] = []
    at = 0
    for start, end in spans:
        while at < len(locators) and locators[at].end_char <= start:
            at += 1
        # The last locator of this span may be the first of the next.
        last = at
        while last < len(locators) and locators[last].start_char < end:
            last += 1
        places.append(_joined(locators[at:last]))
    return places


def _joined(locators: Sequence[Locator]) -> FilePlace | None:
    if not locators:
        return None
    kind, name = locators[0].kind, locators[0].name
    same = [one for one in locators if one.kind is kind]
    if kind is LocatorKind.sheet:
        same = [one for one in same if one.name == name]
    elif any(one.name != name for one in same):
        name = ""
    return FilePlace.of(kind, name, min(one.first for one in same), max(one.last for one in same))
