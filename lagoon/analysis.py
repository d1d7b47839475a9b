"""Segment documents by topic, score the segments, and collect from them what learning needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from lagoon.errors import LagoonError
from lagoon.reading import Context, Reading, ReadText, read, with_learned
from lagoon.reef_table import ReefTable
from lagoon.results import TopicResult
from lagoon.scoring import ScoredTexts
from lagoon.segmentation import SegmentationOptions, cut_texts, gap_cosines, may_be_cut, segment_starts
from lagoon.sentences import Sentence, find_names, sentence_spans
from lagoon.tokens import TokenStream
from lagoon.vocabulary import NUMBER, WORD, BaseVocabulary, CustomWords

T_co = TypeVar("T_co", covariant=True)


class LazySequence(Sequence[T_co], Generic[T_co]):
    """A sequence of `length` items; every access to item i calls `make(i)`."""

    def __init__(self, length: int, make: Callable[[int], T_co]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | list[T_co]:
        if isinstance(index, slice):
            return [self._make(i) for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._make(index % self._length)

    def window(self, first: int, last: int) -> LazySequence[T_co]:
        """Items first..last-1 as a lazy sequence."""
        return LazySequence(last - first, lambda index: self._make(first + index))

    def __repr__(self) -> str:
        return f"<{self._length} items>"


# Separator of texts that are read as one text: no token or compound crosses a paragraph break.
TEXT_BREAK = "\n\n"


class SectionStart(NamedTuple):
    """Start of a section: a segment must start at sentence number `sentence`. The words of `context` (title,
    headings) count once into the topic of every segment of the section. `begins_document`: the section is the
    first of another document, whose segments are not around those before it (`labels`)."""

    sentence: int
    context: str = ""
    begins_document: bool = False


class TextSentences(NamedTuple):
    """Sentences and sections of one of several texts; sections count sentences from 0 in each text."""

    sentences: Sequence[Sentence]
    sections: Sequence[SectionStart] = ()


class TopicSegment:
    """Sentences start_idx..end_idx-1 of a document.

    sentences         with their spans
    topic             profile of the segment, including its section's context; words and coverage are
                      those of the segment alone
    sentence_results  profile of each sentence
    """

    def __init__(self, document: DocumentAnalysis, index: int, start_idx: int, end_idx: int) -> None:
        self._document = document
        self._index = index
        self.start_idx = start_idx
        self.end_idx = end_idx

    @property
    def sentences(self) -> Sequence[Sentence]:
        return self._document.sentences.window(self.start_idx, self.end_idx)

    @property
    def sentence_results(self) -> Sequence[TopicResult]:
        return self._document.sentence_results.window(self.start_idx, self.end_idx)

    @cached_property
    def topic(self) -> TopicResult:
        return self._document.topics[self._index]

    def __repr__(self) -> str:
        return f"<TopicSegment sentences {self.start_idx}..{self.end_idx}: {self.topic!r}>"


@dataclass(frozen=True)
class DocumentAnalysis:
    """Segments of a document and their topics.

    segments       in order; every sentence is in exactly one segment
    boundaries     first sentence of every segment but the first
    sentences, sentence_results, topics   by sentence, by sentence, by segment; created on access
    observed       its tokens, as input for learning words
    """

    boundaries: list[int]
    sentences: LazySequence[Sentence]
    sentence_results: LazySequence[TopicResult]
    topics: ScoredTexts
    by_sentence: ScoredTexts
    contexts: ReadContexts | None = None

    @property
    def n_sentences(self) -> int:
        return len(self.sentences)

    @property
    def n_segments(self) -> int:
        return len(self.topics)

    @property
    def observed(self) -> ObservedText:
        texts = np.array([0, self.n_sentences], dtype=np.int64)
        return observe(self.by_sentence, self.topics, [0, *self.boundaries], texts, self.contexts)

    @property
    def tokens(self) -> TokenStream:
        return self.by_sentence.reading.tokens

    @property
    def read(self) -> ReadText | None:
        """The reading needed to score the text again; None for a short text, which is read again quickly."""
        base = self.by_sentence.reading.base
        return None if base is None else ReadText(base.without_places(), self.by_sentence.bounds)

    @property
    def segments(self) -> list[TopicSegment]:
        # Not cached: segments refer to their document, and a cycle would keep its arrays in memory.
        starts = [0, *self.boundaries][: self.n_segments]
        ends = [*self.boundaries, self.n_sentences]
        return [
            TopicSegment(self, index, start, end)
            for index, (start, end) in enumerate(zip(starts, ends, strict=False))
        ]


class TextSegments(NamedTuple):
    """Analysis of one of several texts that were analyzed at once.

    boundaries  as in `DocumentAnalysis`
    topics      profile of each segment
    """

    boundaries: list[int]
    topics: LazySequence[TopicResult]


@dataclass(frozen=True)
class TextsAnalysis(Sequence[TextSegments]):
    """Several texts that were analyzed at once; the results equal those of analyzing each text alone.

    first_sentences  i64 (texts + 1,): first sentence of each text, among the sentences of all texts
    first_segments   i64 (texts + 1,): likewise the first segment
    cuts             first sentence of each segment, among the sentences of all texts
    """

    first_sentences: NDArray[np.int64]
    first_segments: NDArray[np.int64]
    cuts: list[int]
    topics: ScoredTexts
    by_sentence: ScoredTexts
    contexts: ReadContexts | None

    def __len__(self) -> int:
        return len(self.first_sentences) - 1

    @overload
    def __getitem__(self, index: int) -> TextSegments: ...
    @overload
    def __getitem__(self, index: slice) -> list[TextSegments]: ...
    def __getitem__(self, index: int | slice) -> TextSegments | list[TextSegments]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        first, last = self.first_segments[index : index + 2].tolist()
        start = int(self.first_sentences[index])
        topics = LazySequence(len(self.topics), self.topics.__getitem__).window(first, last)
        return TextSegments([cut - start for cut in self.cuts[first + 1 : last]], topics)

    @property
    def observed(self) -> ObservedText:
        return observe(self.by_sentence, self.topics, self.cuts, self.first_sentences, self.contexts)


@dataclass(frozen=True)
class SentenceTable:
    """The sentences of a document. `text` is the text that is read; sentence i begins at text[at[i]]. `spans`
    (n, 2) are offsets in the source."""

    text: str
    at: NDArray[np.int64]
    spans: NDArray[np.int64]
    given: Sequence[Sentence] | None

    @staticmethod
    def of(source: str | Sequence[str | Sentence]) -> SentenceTable:
        """Split a text, or take given sentences. Plain strings get spans as if they were joined by single
        line ends."""
        if isinstance(source, str):
            starts, ends = sentence_spans(source)
            return SentenceTable(source, starts, np.stack((starts, ends), axis=1), None)
        texts = [item.text if isinstance(item, Sentence) else item for item in source]
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        before = np.cumsum(lengths) - lengths
        numbers = np.arange(len(texts))
        starts = before + numbers
        spans = np.stack((starts, starts + lengths), axis=1)
        with_span = [index for index, item in enumerate(source) if isinstance(item, Sentence)]
        if with_span:
            spans[with_span] = [item[1:] for item in source if isinstance(item, Sentence)]
        given = [
            item if isinstance(item, Sentence) else Sentence(item, start, start + len(item))
            for item, start in zip(source, starts.tolist(), strict=True)
        ]
        return SentenceTable(TEXT_BREAK.join(texts), before + numbers * len(TEXT_BREAK), spans, given)

    def sentence(self, index: int) -> Sentence:
        if self.given is not None:
            return self.given[index]
        start, end = self.spans[index].tolist()
        return Sentence(self.text[start:end], start, end)


def analyze_document(
    source: str | Sequence[str | Sentence],
    table: ReefTable,
    base: BaseVocabulary,
    custom: CustomWords,
    options: SegmentationOptions,
    sections: Sequence[SectionStart],
    context_weight: float,
    top_k: int,
) -> DocumentAnalysis:
    """Read a text once, compare the sentences around every gap, cut it into segments, and score these."""
    sentences = SentenceTable.of(source)
    n = len(sentences.at)
    section_starts, contexts = _sections(sections, n)
    by_sentence = _read_sentences(sentences, table, base, custom, top_k)
    if may_be_cut(section_starts, sentences.spans, options):
        cosines = gap_cosines(by_sentence.raw_z, section_starts, n, options.smooth_window)
        cuts = segment_starts(cosines, section_starts, sentences.spans[:, 0], sentences.spans[:, 1], options)
    else:
        cuts = section_starts.tolist() if n else []
    topics, read_contexts = _score_segments(
        by_sentence, cuts, section_starts, contexts, _documents(sections), base, custom, context_weight
    )
    return DocumentAnalysis(
        boundaries=cuts[1:],
        sentences=LazySequence(n, sentences.sentence),
        sentence_results=LazySequence(n, by_sentence.__getitem__),
        topics=topics,
        by_sentence=by_sentence,
        contexts=read_contexts,
    )


def compare_sentences(
    source: str | Sequence[str | Sentence],
    table: ReefTable,
    base: BaseVocabulary,
    custom: CustomWords,
    smooth_window: int,
) -> NDArray[np.float64]:
    """The cosine of each gap between the sentences of a text without sections (`gap_cosines`)."""
    sentences = SentenceTable.of(source)
    by_sentence = _read_sentences(sentences, table, base, custom, top_k=0)
    return gap_cosines(
        by_sentence.raw_z,
        np.zeros(1, dtype=np.int64),
        len(sentences.at),
        SegmentationOptions(smooth_window=smooth_window).smooth_window,
    )


def analyze_texts(
    texts: Sequence[TextSentences],
    table: ReefTable,
    base: BaseVocabulary,
    custom: CustomWords,
    options: SegmentationOptions,
    context_weight: float,
    top_k: int,
) -> TextsAnalysis:
    """Analyze many texts at once: for a note, most of the time would be overhead of the calls for each
    text."""
    sentences = SentenceTable.of([sentence for text in texts for sentence in text.sentences])
    lengths = [len(text.sentences) for text in texts]
    firsts = list(accumulate(lengths, initial=0))
    text_sections = [_sections(text.sections, n) for text, n in zip(texts, lengths, strict=True) if n]
    by_sentence = _read_sentences(sentences, table, base, custom, top_k)
    filled = [place for place, n in enumerate(lengths) if n]
    cut = cut_texts(
        by_sentence.raw_z,
        [firsts[place] for place in filled],
        [starts for starts, _ in text_sections],
        sentences.spans,
        options,
    )
    n_segments = np.zeros(len(texts) + 1, dtype=np.int64)
    n_segments[[place + 1 for place in filled]] = list(map(len, cut))
    cuts = [firsts[place] + start for place, starts in zip(filled, cut, strict=True) for start in starts]
    section_starts = np.concatenate(
        [np.empty(0, dtype=np.int64)]
        + [firsts[place] + starts for place, (starts, _) in zip(filled, text_sections, strict=True)]
    )
    contexts = [context for _, text_contexts in text_sections for context in text_contexts]
    topics, read_contexts = _score_segments(
        by_sentence, cuts, section_starts, contexts, firsts[:-1], base, custom, context_weight
    )
    return TextsAnalysis(
        first_sentences=np.array(firsts, dtype=np.int64),
        first_segments=np.cumsum(n_segments),
        cuts=cuts,
        topics=topics,
        by_sentence=by_sentence,
        contexts=read_contexts,
    )


def score_sections(
    text: ReadText,
    table: ReefTable,
    base: BaseVocabulary,
    custom: CustomWords,
    sections: Sequence[SectionStart],
    context_weight: float,
    top_k: int,
) -> ScoredTexts:
    """Score the sections of a text that was read before, like `analyze_document` without further
    boundaries."""
    section_starts, contexts = _sections(sections, len(text.bounds) - 1)
    by_sentence = ScoredTexts(table, custom, with_learned(text.base, custom), text.bounds, top_k)
    return _score_segments(
        by_sentence,
        section_starts.tolist(),
        section_starts,
        contexts,
        _documents(sections),
        base,
        custom,
        context_weight,
    )[0]


def _read_sentences(
    sentences: SentenceTable, table: ReefTable, base: BaseVocabulary, custom: CustomWords, top_k: int
) -> ScoredTexts:
    reading = read(sentences.text, sentences.at, base, custom)
    bounds = np.append(np.searchsorted(reading.tokens.starts, sentences.at), len(reading.tokens))
    return ScoredTexts(table, custom, reading, bounds, top_k)


def _score_segments(
    by_sentence: ScoredTexts,
    cuts: list[int],
    section_starts: NDArray[np.int64],
    contexts: Sequence[str],
    documents: Sequence[int],
    base: BaseVocabulary,
    custom: CustomWords,
    context_weight: float,
) -> tuple[ScoredTexts, ReadContexts | None]:
    """Score the segments that start at `cuts`, each with the context of its section; also returns the read
    contexts. `documents`: first sentence of each document, ascending from 0."""
    n = len(by_sentence)
    segments = np.array([*cuts, n] if n else [0], dtype=np.int64)
    context = read_contexts = None
    if any(contexts) and context_weight > 0:
        section_of = np.searchsorted(section_starts, segments[:-1], side="right") - 1
        read_contexts = _read_contexts(contexts, section_starts, base, custom)
        context = _context(read_contexts, section_of, context_weight)
    document_of = np.searchsorted(documents, segments[:-1], side="right") - 1
    bounds = by_sentence.bounds
    name_words = by_sentence.table.name_words
    names = find_names(by_sentence.reading, bounds, bounds[np.array(documents, dtype=np.int64)], name_words)
    return by_sentence.of_same_words(segments, context, document_of, names), read_contexts


def _documents(sections: Sequence[SectionStart]) -> list[int]:
    """First sentence of each document."""
    return sorted({0, *(section.sentence for section in sections if section.begins_document)})


def _sections(sections: Sequence[SectionStart], n: int) -> tuple[NDArray[np.int64], list[str]]:
    """Section starts, ascending from 0, and their contexts."""
    by_start = {section.sentence: section.context for section in sections}
    if len(by_start) != len(sections):
        raise LagoonError("two sections start at the same sentence")
    for start in by_start:
        if not 0 <= start < n:
            raise LagoonError(f"a section starts at sentence {start}, but there are {n} sentences")
    by_start.setdefault(0, "")
    starts = sorted(by_start)
    return np.array(starts, dtype=np.int64), [by_start[start] for start in starts]


def _read_contexts(
    contexts: Sequence[str], section_starts: NDArray[np.int64], base: BaseVocabulary, custom: CustomWords
) -> ReadContexts:
    lengths = np.array([len(context) + len(TEXT_BREAK) for context in contexts])
    at = np.cumsum(lengths) - lengths
    text = TEXT_BREAK.join(contexts)
    reading = read(text, np.union1d(at, sentence_spans(text)[0]), base, custom)
    bounds = np.append(np.searchsorted(reading.tokens.starts, at), len(reading.tokens))
    return ReadContexts(reading, bounds, section_starts)


def _context(contexts: ReadContexts, section_of: NDArray[np.int64], weight: float) -> Context:
    """Words of the section context of each segment. `section_of`: (segments,) section of each segment."""
    if not 0.0 <= weight <= 1.0:
        raise LagoonError(f"context_weight must be between 0 and 1, not {weight}")
    borders = np.searchsorted(contexts.reading.hit_tokens, contexts.bounds)
    begins, sizes = borders[:-1][section_of], np.diff(borders)[section_of]
    segments = np.repeat(np.arange(len(section_of)), sizes)
    first = np.cumsum(sizes) - sizes
    hits = (begins - first)[segments] + np.arange(len(segments))
    return Context(segments, contexts.reading.hit_words[hits], weight)


@dataclass(frozen=True)
class ReadContexts:
    """Titles and headings in tokens. The context of section i is tokens bounds[i]..bounds[i+1]-1 of
    `reading`; the section begins at sentence `section_starts[i]`."""

    reading: Reading
    bounds: NDArray[np.int64]
    section_starts: NDArray[np.int64]

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """bool (tokens,), as in ObservedText."""
        return _unknown(self.reading)


@dataclass(frozen=True)
class ObservedText:
    """The tokens of a document, token t having the normal form `forms[form_of[t]]`.

    unknown      bool (tokens,): a word that is not in the vocabulary and not part of a compound
    is_word      bool (tokens,): neither a number nor a stop word
    is_number    bool (tokens,)
    consumed     bool (tokens,): part of a base compound
    joined       bool (tokens,): adjacent to the next token of its sentence
    capital      bool (tokens,): begins with a capital letter
    sentence_of  i64 (tokens,);  segment_of  i64 (sentences,)
    first_sentences  i64 (texts + 1,): first sentence of each text
    sentences, segments   scored, by index
    contexts     of the sections, None if none was scored
    """

    forms: list[str]
    form_of: NDArray[np.int32]
    unknown: NDArray[np.bool_]
    is_word: NDArray[np.bool_]
    is_number: NDArray[np.bool_]
    consumed: NDArray[np.bool_]
    joined: NDArray[np.bool_]
    capital: NDArray[np.bool_]
    sentence_of: NDArray[np.int64]
    segment_of: NDArray[np.int64]
    first_sentences: NDArray[np.int64]
    sentences: ScoredTexts
    segments: ScoredTexts
    contexts: ReadContexts | None

    @property
    def n_texts(self) -> int:
        return len(self.first_sentences) - 1

    @cached_property
    def text_of_sentence(self) -> NDArray[np.int64]:
        """i64 (sentences,)."""
        return np.repeat(np.arange(self.n_texts), np.diff(self.first_sentences))


def observe(
    sentences: ScoredTexts,
    segments: ScoredTexts,
    cuts: list[int],
    first_sentences: NDArray[np.int64],
    contexts: ReadContexts | None,
) -> ObservedText:
    """Build the input for learning. `sentences` and `segments` have the same reading; segments start at
    `cuts`."""
    reading = sentences.reading
    n_sentences = len(sentences)
    sizes = np.diff(sentences.bounds)  # every token is in a sentence
    segment_sizes = np.diff(np.array([*(cuts or [0]), n_sentences]))
    return ObservedText(
        forms=reading.tokens.forms,
        form_of=reading.tokens.ids,
        unknown=_unknown(reading),
        is_word=reading.kinds == WORD,
        is_number=reading.kinds == NUMBER,
        consumed=reading.consumed,
        joined=reading.tokens.joined,
        capital=reading.tokens.capital,
        sentence_of=np.repeat(np.arange(n_sentences), sizes),
        segment_of=np.repeat(np.arange(len(segment_sizes)), segment_sizes),
        first_sentences=first_sentences,
        sentences=sentences,
        segments=segments,
        contexts=contexts,
    )


def _unknown(reading: Reading) -> NDArray[np.bool_]:
    unknown: NDArray[np.bool_] = (reading.kinds == WORD) & (reading.words < 0) & ~reading.consumed
    return unknown
