"""The scorer: profiles of texts over reefs, and details of words."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.analysis import (
    TEXT_BREAK,
    DocumentAnalysis,
    SectionStart,
    TextsAnalysis,
    TextSentences,
    analyze_document,
    analyze_texts,
    compare_sentences,
    score_sections,
)
from lagoon.bm25 import BM25_SCALE
from lagoon.compounds import expand_spans
from lagoon.errors import LagoonError
from lagoon.model import SUPPORT_STEPS, Archipelago, Island, Model, Reef, load_model
from lagoon.reading import (
    MOST_CHARS,
    REPETITION_SCALE,
    Reading,
    ReadText,
    count,
    read,
    read_short,
    repetition,
)
from lagoon.reef_table import ReefTable
from lagoon.results import TopicResult
from lagoon.scoring import ScoredQuery, ScoredTexts
from lagoon.segmentation import SegmentationOptions
from lagoon.sentences import Sentence, find_names, sentence_spans, sentence_starts
from lagoon.tokens import TokenStream, token_list, tokenise
from lagoon.vocabulary import (
    NUMBER,
    STOP,
    WORD,
    BaseVocabulary,
    CustomWords,
    Keys,
    WordInfo,
    corpus_rarity,
    custom_word_rows,
    custom_word_scores,
    default_weight,
    keys_of_forms,
    unpack,
)

PACKAGED_DATA = Path(__file__).parent / "data"

MAIN_SUPPORT = SUPPORT_STEPS // 3
"""Least support of a word for a reef that it means before others."""


class FormRelations(NamedTuple):
    """How far words mean the same as other words, (words, others) for each field.

    cosine   of their meanings (`build.senses`), 0 without them
    support  the least support that both have for the reef which they have most in common, 0..1
    reef     id of that reef
    """

    cosine: NDArray[np.float64]
    support: NDArray[np.float64]
    reef: NDArray[np.int64]


WordStatus = Literal["known", "custom", "stop", "unknown", "number"]


class WordMatch(NamedTuple):
    """A token or compound of a text: its span, its vocabulary word, and its contributions to reefs.

    `reefs`: (reef id, contribution), strongest first. The contributions of all matches of a text to a reef
    add up to the `raw_bm25` of the reef.
    """

    token: str
    start: int
    end: int
    word: str | None
    status: WordStatus
    reefs: list[tuple[int, float]]


class ReefScorer:
    """Scores texts against the reefs of a model, and holds learned words.

    Threads may score while another thread adds words.
    """

    can_learn = True
    """Words can be added, with `with_custom_words`."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._base = BaseVocabulary(model)
        self._table = ReefTable(model)
        self._custom = CustomWords(model)

    # -- scoring

    def score(self, text: str, top_k: int = 10) -> TopicResult:
        """Score one text."""
        if len(text) <= MOST_CHARS and top_k >= 0:
            reading = read_short(text, partial(sentence_starts, text), self._base, self._custom)
            if reading is not None:
                return ScoredQuery(self._table, self._base, self._custom, reading, top_k).result()
        return self.score_batch([text], top_k)[0]

    def score_batch(self, texts: Sequence[str], top_k: int = 10) -> Sequence[TopicResult]:
        """Score several texts; the results equal those of `score`."""
        if isinstance(texts, str):
            raise TypeError("score_batch takes a sequence of texts; use score for one")
        if top_k < 0:
            raise LagoonError(f"top_k must be 0 or more, not {top_k}")
        reading, sentences, bounds = self._read(texts)
        names = find_names(reading, sentences, bounds[:-1], self._table.name_words)
        return ScoredTexts(self._table, self._custom, reading, bounds, top_k, names=names)

    def score_raw(self, text: str) -> NDArray[np.float64]:
        """z-scores of all reefs, (n_reefs,)."""
        return self.score(text).z_scores.copy()

    def analyze(
        self,
        text: str | Sequence[str | Sentence],
        *,
        sensitivity: float = 1.0,
        smooth_window: int = 2,
        min_chunk_sentences: int = 2,
        max_chunk_sentences: int = 30,
        max_chunk_chars: int = 8000,
        sections: Sequence[SectionStart] = (),
        context_weight: float = 1.0,
        top_k: int = 10,
    ) -> DocumentAnalysis:
        """Segment a text, or sentences, where the topic changes, and score the segments.

        `segmentation.SegmentationOptions` describes the limits. Segments never cross a section start.
        `context_weight` (0..1) is the weight of a section's context.
        """
        options = SegmentationOptions(
            sensitivity, smooth_window, min_chunk_sentences, max_chunk_sentences, max_chunk_chars
        )
        return analyze_document(
            text, self._table, self._base, self._custom, options, sections, context_weight, top_k
        )

    def gap_cosines(
        self, text: str | Sequence[str | Sentence], *, smooth_window: int = 2
    ) -> NDArray[np.float64]:
        """The similarity of the sentences around each gap, (sentences - 1,); a low one is a change of topic.

        `analyze` compares the same, but not across the start of a section.
        """
        return compare_sentences(text, self._table, self._base, self._custom, smooth_window)

    def analyze_many(
        self,
        texts: Sequence[TextSentences],
        *,
        sensitivity: float = 1.0,
        smooth_window: int = 2,
        min_chunk_sentences: int = 2,
        max_chunk_sentences: int = 30,
        max_chunk_chars: int = 8000,
        context_weight: float = 1.0,
        top_k: int = 10,
    ) -> TextsAnalysis:
        """Analyze several texts at once: the results of `analyze`, for short texts in a fraction of the
        time."""
        options = SegmentationOptions(
            sensitivity, smooth_window, min_chunk_sentences, max_chunk_sentences, max_chunk_chars
        )
        return analyze_texts(texts, self._table, self._base, self._custom, options, context_weight, top_k)

    def score_sections(
        self,
        text: ReadText,
        sections: Sequence[SectionStart],
        *,
        context_weight: float = 1.0,
        top_k: int = 10,
    ) -> Sequence[TopicResult]:
        """Score the sections of a text with the learned words of this scorer. A scorer of the same model has
        read the text (`DocumentAnalysis.read`)."""
        return score_sections(text, self._table, self._base, self._custom, sections, context_weight, top_k)

    def explain_words(self, text: str) -> list[WordMatch]:
        """Tokens of a text, in order, with their contributions; a compound is a single match."""
        reading, _, bounds = self._read([text])
        bags = count(reading, bounds)
        shares = bags.repetition / REPETITION_SCALE / bags.occurrences
        share_of = dict(zip(bags.words.tolist(), shares.tolist(), strict=True))
        tokens, starts, ends = reading.tokens, reading.tokens.starts.tolist(), reading.tokens.ends.tolist()
        matches = [
            WordMatch(text[starts[i] : ends[i]], starts[i], ends[i], None, self._status(reading, i), [])
            for i in range(len(tokens))
            if not reading.consumed[i] and (reading.kinds[i] != WORD or reading.words[i] < 0)
        ]
        for first, word, length in zip(
            reading.hit_tokens.tolist(), reading.hit_words.tolist(), reading.hit_lengths.tolist(), strict=True
        ):
            info = self._info(word)
            unit = share_of[word] * info.weight / BM25_SCALE
            start, end = starts[first], ends[first + length - 1]
            matches.append(
                WordMatch(
                    text[start:end],
                    start,
                    end,
                    info.word,
                    "custom" if info.is_custom else "known",
                    [(reef, bm25_q * unit) for reef, bm25_q in info.reefs],
                )
            )
        return sorted(matches, key=lambda match: (match.start, match.end))

    def supporting_words(self, text: str, reefs: Collection[int]) -> dict[int, list[tuple[str, float]]]:
        """Words of a text that show each of `reefs`, with their supported contributions (`labels`), largest
        first; reefs that no word shows are missing. A word has the form of its first place, in lower case."""
        reading, sentences, bounds = self._read([text])
        names = find_names(reading, sentences, bounds[:-1], self._table.name_words)
        hits = np.arange(len(reading.hit_words)) if names is None else np.flatnonzero(~names.hits)
        starts, ends = reading.tokens.starts, reading.tokens.ends
        words, first, counts = np.unique(reading.hit_words[hits], return_index=True, return_counts=True)
        found: dict[int, list[tuple[str, float]]] = {}
        for word, hit, n in zip(words.tolist(), hits[first].tolist(), counts.tolist(), strict=True):
            vocabulary = self._base if word < self._model.n_words else self._custom
            weight_q, ids, bm25_q = vocabulary.row(word)
            for reef, value, level in zip(ids, bm25_q, vocabulary.support(word), strict=True):
                if level and reef in reefs:
                    token = int(reading.hit_tokens[hit])
                    last = token + int(reading.hit_lengths[hit]) - 1
                    shown = text[int(starts[token]) : int(ends[last])].lower()
                    contribution = float(repetition(np.array(n))) * weight_q * value * level
                    found.setdefault(reef, []).append((shown, contribution))
        return {reef: sorted(pairs, key=lambda pair: (-pair[1], pair[0])) for reef, pairs in found.items()}

    def supporting_forms(self, forms: Sequence[str], reefs: Collection[int]) -> dict[int, list[str]]:
        """Those of some single words, as normal forms, that mean each of `reefs` more than others, the most
        supported first. Learned words mean none."""
        model = self._model
        words, of_form, rows = self._rows_of(forms)
        is_wanted = np.zeros(model.n_reefs, dtype=np.bool_)
        is_wanted[list(reefs)] = True
        chosen = is_wanted[model.row_reefs[rows]] & (model.row_support[rows] >= MAIN_SUPPORT)
        rows, of_form = rows[chosen], of_form[chosen]
        levels = (
            model.weights[words[of_form]].astype(np.float64) * model.row_bm25[rows] * model.row_support[rows]
        )
        found: dict[int, list[str]] = {}
        for place in np.lexsort((of_form, -levels)).tolist():
            found.setdefault(int(model.row_reefs[rows[place]]), []).append(forms[of_form[place]])
        return found

    def misleading_names(self, forms: Iterable[str]) -> frozenset[str]:
        """Those of some single words, as normal forms, that do not have their reefs as names: learned words,
        and those that running text writes in lower case, too (`build.senses`)."""
        listed = list(forms)
        words = self._base.resolve(listed).words.tolist()
        is_name = self._table.name_words
        return frozenset(
            form
            for form, word in zip(listed, words, strict=True)
            if (is_name[word] if word >= 0 else self._custom.find_form(form) >= 0)
        )

    def relate_forms(
        self, forms: Sequence[str], others: Sequence[str], chances: Mapping[int, float]
    ) -> "FormRelations":
        """How far single words, as normal forms, mean the same as others, learned words aside. `chances`: of
        reefs that both mean equally, the one with the largest is theirs."""
        own, rows = self._meanings(forms)
        of_others, rows_of_others = self._meanings(others)
        preference = np.zeros(self._model.n_reefs)
        preference[list(chances)] = list(chances.values())
        reefs = np.zeros((len(forms), len(others)), dtype=np.int64)
        support = np.zeros_like(reefs, dtype=np.float64)
        by_reef = np.ascontiguousarray(of_others.T)
        columns = np.arange(len(others))
        for place, levels in enumerate(own):
            ids = np.flatnonzero(levels)
            if len(ids):
                common = np.minimum(levels[ids, None], by_reef[ids])
                # Support is a whole number, and half of a probability decides between equal ones only.
                best = (common + preference[ids, None] / 2.0).argmax(axis=0)
                reefs[place] = ids[best]
                support[place] = common[best, columns]
        vectors, vectors_of_others = (
            self._model.meanings[each].astype(np.float64) for each in (rows, rows_of_others)
        )
        lengths = np.multiply.outer(
            *(np.sqrt((each**2).sum(axis=1)) for each in (vectors, vectors_of_others))
        )
        products = vectors @ vectors_of_others.T
        cosine = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
        return FormRelations(cosine, support / SUPPORT_STEPS, reefs)

    def _meanings(self, forms: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """(support of each reef, (forms, reefs); row of the meaning, (forms,), 0 without one)."""
        model = self._model
        words, of_form, rows = self._rows_of(forms)
        support = np.zeros((len(forms), model.n_reefs), dtype=np.uint8)
        support[of_form, model.row_reefs[rows]] = model.row_support[rows]
        return support, np.where(words >= 0, self._table.sense_rows[words], 0).astype(np.int64)

    def _rows_of(self, forms: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
        """(word of each form, -1 for none; form and row of each reef of a word)."""
        starts_of = self._model.row_starts
        words = self._base.resolve(forms).words
        known = np.flatnonzero(words >= 0)
        starts = starts_of[words[known]].astype(np.int64)
        lengths = starts_of[words[known] + 1].astype(np.int64) - starts
        rows, _ = expand_spans(starts, lengths)
        return words, np.repeat(known, lengths), rows

    # -- vocabulary

    def lookup_word(self, word: str) -> WordInfo | None:
        """Details of a word or compound, inflected or not; None for unknown and stop words."""
        tokens = token_list(word)
        index = self._find(tokens)
        return None if index < 0 else self._info(index)

    def stem_contributions(self, stem: str) -> tuple[float, list[int], list[int]] | None:
        """(weight, reefs, bm25_q of each) of the most frequent word of the base vocabulary with a stem
        (`lagoon.tokens`), None if no word has it."""
        return self._base.stem_row(stem)

    def filter_unknown(self, words: Iterable[str]) -> list[str]:
        """Those of `words`, unchanged, that are not in the vocabulary and are neither stop words nor
        numbers."""
        candidates = list(words)
        # Line ends inside a candidate are removed, because a line end separates candidates.
        stream = tokenise("\n".join(" ".join(word.split()) for word in candidates))
        if len(candidates) > 1 and len(stream) == len(candidates):
            resolved = self._base.resolve(stream.forms)
            unknown = {
                form
                for form, kind, base in zip(stream.forms, resolved.kinds, resolved.words, strict=True)
                if kind == WORD and base < 0 and self._custom.find_form(form) < 0
            }
            forms = [stream.forms[index] for index in stream.ids.tolist()]
            return [word for word, form in zip(candidates, forms, strict=True) if form in unknown]
        return [word for word in candidates if self._is_unknown(token_list(word))]

    def unknown_keys(self, text: str) -> Keys:
        """Keys of the words of a short text that the base vocabulary lacks; see `unknown`."""
        forms = sorted(set(token_list(text)))
        kinds, words, _ = unpack(self._base.codes(forms))
        unknown = zip(forms, kinds, words, strict=True)
        return keys_of_forms([form for form, kind, word in unknown if kind == WORD and word < 0])[0]

    def compute_custom_word_scores(
        self, n_associated_reefs: int, associations: Iterable[tuple[int, float]]
    ) -> tuple[int, list[tuple[int, int]]]:
        """(idf_q, [(reef id, bm25_q)]) of a word with these (reef id, strength in 0..1)."""
        return custom_word_scores(self._model, n_associated_reefs, associations)

    def compute_custom_rows(
        self, lengths: NDArray[np.int64], reefs: NDArray[np.int64], strengths: NDArray[np.float64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
        """(words,) idf_q and (entries,) bm25_q of many words; word i has `lengths[i]` consecutive entries."""
        return custom_word_rows(self._model, lengths, reefs, strengths)

    def corpus_rarity(self, n_holding: NDArray[np.int64], n_texts: int) -> NDArray[np.float64]:
        """Weights of words that are not in the base vocabulary: `n_holding` of `n_texts` chunks of a corpus
        have each."""
        return corpus_rarity(self._model, n_holding, n_texts)

    def add_custom_word(
        self,
        word: str,
        reef_associations: Iterable[tuple[int, float]],
        specificity: int = 2,
        weight: float | None = None,
        word_id: int | None = None,
    ) -> WordInfo:
        """Add a word or compound, given its associations (reef id, strength in 0..1); it takes effect
        immediately.

        The default weight is the third quartile of the weights of the base vocabulary's single words; the
        default id is the next free one. Raises LagoonError if it is known already, a stop word, or not a
        word.
        """
        tokens = token_list(word)
        if self._base.find(tokens) >= 0 if tokens else False:
            raise LagoonError(f"{word!r} is already in the base vocabulary")
        if not self._is_unknown(tokens, base_only=True):
            raise LagoonError(f"{word!r} is not a word that can be learned")
        chosen = self._default_weight if weight is None else weight
        return self._custom.add(tokens, reef_associations, specificity, chosen, word_id)

    def rebuild_compounds(self, additional_compounds: Iterable[tuple[str, int]]) -> None:
        """Add compounds such as "sea ice" as spellings of words, given by their ids. Learned compounds score
        in addition to their parts."""
        for compound, word_id in additional_compounds:
            self._custom.add_compound(token_list(compound), word_id)

    def without_custom_words(self) -> "ReefScorer":
        """A scorer of the same model without learned words; shares all tables."""
        return self.with_custom_words(())

    def with_custom_words(self, words: Iterable[WordInfo]) -> "ReefScorer":
        """A scorer of the same model with exactly these learned words, as returned by `lookup_word`; shares
        all tables.

        Words of the base vocabulary take precedence.
        """
        fresh = object.__new__(ReefScorer)
        fresh._model, fresh._base, fresh._table = self._model, self._base, self._table
        fresh._custom = CustomWords.of(self._model, words)
        return fresh

    def contains_custom_words(self, text: str) -> bool:
        """Whether a form of a learned word occurs in the text, even if the base vocabulary takes
        precedence."""
        return self.matches_custom_words(tokenise(text))

    def matches_custom_words(self, tokens: TokenStream) -> bool:
        """Like `contains_custom_words`, for a tokenized text."""
        return self._custom.occur_in(tokens)

    # -- the model

    @property
    def next_word_id(self) -> int:
        return self._custom.next_word_id

    @property
    def compounds(self) -> list[str]:
        """The compounds of the base vocabulary, in lower case, read from their file."""
        first = self._model.n_words - self._model.n_compounds
        return list(islice(iter(self._model.words), first, None))

    @property
    def n_words(self) -> int:
        """Words of the base vocabulary, compounds included."""
        return self._model.n_words

    @property
    def n_compounds(self) -> int:
        return self._model.n_compounds

    @property
    def n_custom_words(self) -> int:
        return len(self._custom)

    @property
    def n_reefs(self) -> int:
        return self._model.n_reefs

    @property
    def reefs(self) -> Sequence[Reef]:
        return self._model.hierarchy.reefs

    @property
    def islands(self) -> Sequence[Island]:
        return self._model.hierarchy.islands

    @property
    def archipelagos(self) -> Sequence[Archipelago]:
        return self._model.hierarchy.archipelagos

    @property
    def data_version(self) -> str:
        return self._model.version

    @property
    def data_checksum(self) -> str:
        return self._model.checksum

    @cached_property
    def _default_weight(self) -> float:
        return default_weight(self._model)

    # -- inside

    def _read(self, texts: Sequence[str]) -> tuple[Reading, NDArray[np.int64], NDArray[np.int64]]:
        """Read all texts as one text; also returns the token bounds of the sentences and of the texts."""
        text = TEXT_BREAK.join(texts)
        lengths = np.array([len(item) + len(TEXT_BREAK) for item in texts], dtype=np.int64)
        at = np.cumsum(lengths) - lengths
        sentences = np.union1d(sentence_spans(text)[0], at)
        reading = read(text, sentences, self._base, self._custom)
        starts = reading.tokens.starts
        of_sentences, of_texts = (
            np.append(np.searchsorted(starts, places), len(starts)) for places in (sentences, at)
        )
        return reading, of_sentences, of_texts

    def _find(self, tokens: Sequence[str]) -> int:
        """Index of a word given as tokens, -1 if unknown."""
        if not tokens:
            return -1
        index = self._base.find(tokens)
        if index < 0:
            index = self._custom.find(tokens)
        if index < 0 and len(tokens) == 1 and self._base.resolve(tokens).kinds[0] == WORD:
            index = self._custom.find_form(tokens[0])
        return index

    def _is_unknown(self, tokens: Sequence[str], base_only: bool = False) -> bool:
        """Whether the tokens are not in the vocabulary and include a word that is neither a number nor a stop
        word."""
        if not tokens or not (self._base.resolve(tokens).kinds == WORD).any():
            return False
        return (self._base.find(tokens) if base_only else self._find(tokens)) < 0

    def _info(self, index: int) -> WordInfo:
        return self._base.info(index) if index < self._model.n_words else self._custom.info(index)

    @staticmethod
    def _status(reading: Reading, token: int) -> WordStatus:
        status_of: dict[int, WordStatus] = {STOP: "stop", NUMBER: "number"}
        return status_of.get(int(reading.kinds[token]), "unknown")


def load(data_dir: Path | str | None = None, verify: bool = False) -> ReefScorer:
    """Load a scorer with the packaged data, or with the data in `data_dir`.

    `verify` compares the files by SHA-256 instead of CRC-32. Raises LagoonError if the data cannot be read,
    LagoonVersionError if it has another format, and LagoonChecksumError if a file differs from the manifest.
    """
    return ReefScorer(load_model(PACKAGED_DATA if data_dir is None else Path(data_dir), verify))
