"""A document cut into segments of one topic each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.custom import CustomWords
from lagoon.errors import LagoonError
from lagoon.lazy import LazySequence
from lagoon.observing import ObservedText, ReadContexts, observe
from lagoon.reading import Context, read
from lagoon.results import TopicResult
from lagoon.scoring import ReefTable, ScoredTexts
from lagoon.segmentation import SegmentationOptions, gap_cosines, may_be_cut, segment_starts
from lagoon.sentences import Sentence, sentence_spans
from lagoon.vocabulary import BaseVocabulary

# Between texts that are read as one: a paragraph break, which neither a token nor a compound crosses.
TEXT_BREAK = "\n\n"


class SectionStart(NamedTuple):
    """A segment must start at sentence number `sentence`. `context` (title, headings) counts once into
    the topic of every segment of the section."""

    sentence: int
    context: str = ""


class TopicSegment:
    """Sentences start_idx..end_idx-1 of a document.

    sentences         with their spans
    topic             what the segment is about, its section's context included; words and coverage are
                      those of the segment alone
    sentence_results  what each sentence is about
    """

    def __init__(self, document: "DocumentAnalysis", index: int, start_idx: int, end_idx: int) -> None:
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
    """segments       in order; every sentence is in exactly one
    boundaries     first sentence of every segment but the first
    sentences, sentence_results, topics   by sentence, by sentence, by segment; made when asked for
    observed       its tokens, for who learns words from it
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
        return observe(self.by_sentence, self.topics, self.boundaries, self.contexts)

    @property
    def segments(self) -> list[TopicSegment]:
        # Not kept: segments know their document, and a cycle would keep its arrays.
        starts = [0, *self.boundaries][: self.n_segments]
        ends = [*self.boundaries, self.n_sentences]
        return [
            TopicSegment(self, index, start, end)
            for index, (start, end) in enumerate(zip(starts, ends, strict=False))
        ]


@dataclass(frozen=True)
class SentenceTable:
    """The sentences of a document: `text` is what is read, sentence i being text[at[i]:...]; `spans`
    (n, 2) their places in what the caller gave."""

    text: str
    at: NDArray[np.int64]
    spans: NDArray[np.int64]
    given: Sequence[Sentence] | None

    @staticmethod
    def of(source: str | Sequence[str | Sentence]) -> "SentenceTable":
        """Sentences of a text, or given ones. Spans of plain strings count as if they were joined by
        single line ends."""
        if isinstance(source, str):
            starts, ends = sentence_spans(source)
            return SentenceTable(source, starts, np.stack((starts, ends), axis=1), None)
        texts = [item.text if isinstance(item, Sentence) else item for item in source]
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        before = np.cumsum(lengths) - lengths
        numbers = np.arange(len(texts))
        starts = before + numbers
        spans = np.stack((starts, starts + lengths), axis=1)
        placed = [index for index, item in enumerate(source) if isinstance(item, Sentence)]
        if placed:
            spans[placed] = [item[1:] for item in source if isinstance(item, Sentence)]
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
    """Read, compare the sentences around every gap, cut, score; one pass over the text."""
    sentences = SentenceTable.of(source)
    n = len(sentences.at)
    section_starts, contexts = _sections(sections, n)
    reading = read(sentences.text, sentences.at, base, custom)
    bounds = np.append(np.searchsorted(reading.tokens.starts, sentences.at), len(reading.tokens))
    by_sentence = ScoredTexts(table, custom, reading, bounds, top_k)
    if may_be_cut(section_starts, sentences.spans, options):
        cosines = gap_cosines(by_sentence.raw_z, section_starts, n, options.smooth_window)
        cuts = segment_starts(cosines, section_starts, sentences.spans[:, 0], sentences.spans[:, 1], options)
    else:
        cuts = section_starts.tolist() if n else []
    segments = np.array([*cuts, n] if n else [0], dtype=np.int64)
    context = read_contexts = None
    if any(contexts) and context_weight > 0:
        section_of = np.searchsorted(section_starts, segments[:-1], side="right") - 1
        read_contexts = _read_contexts(contexts, section_starts, base, custom)
        context = _context(read_contexts, section_of, context_weight)
    topics = ScoredTexts(table, custom, reading, bounds[segments], top_k, context, like=by_sentence)
    return DocumentAnalysis(
        boundaries=cuts[1:],
        sentences=LazySequence(n, sentences.sentence),
        sentence_results=LazySequence(n, by_sentence.__getitem__),
        topics=topics,
        by_sentence=by_sentence,
        contexts=read_contexts,
    )


def _sections(sections: Sequence[SectionStart], n: int) -> tuple[NDArray[np.int64], list[str]]:
    """Section starts, ascending from 0, and the context of each."""
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
    """Words of each segment's section context, `section_of` (segments,) being the section of each."""
    if not 0.0 <= weight <= 1.0:
        raise LagoonError(f"context_weight is between 0 and 1, not {weight}")
    borders = np.searchsorted(contexts.reading.hit_tokens, contexts.bounds)
    begins, sizes = borders[:-1][section_of], np.diff(borders)[section_of]
    segments = np.repeat(np.arange(len(section_of)), sizes)
    first = np.cumsum(sizes) - sizes
    hits = (begins - first)[segments] + np.arange(len(segments))
    return Context(segments, contexts.reading.hit_words[hits], weight)
