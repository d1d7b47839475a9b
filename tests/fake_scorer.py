"""A scorer with lagoon's public methods and twelve small reefs, for tests that are not about scoring.

It is deterministic and pure Python. A word of a reef's list contributes 1.0 to that reef and 0.25 to the next
one. The words of `REEF_WORDS` are known, also with a plural `s`; all other words except stop words are
unknown. Values have lagoon's names, types and ranges, but another scale.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagoon.results import ReefArrays, ReefColumns
from lagoon.scorer import FormRelations

REEF_WORDS: dict[str, str] = {
    "volcanoes and rocks": "volcano magma lava eruption rock granite crust mantle ash crater mineral basalt earthquake",
    "plants and flowers": "plant flower leaf fern spore seed root pollen forest tree photosynthesis petal stem",
    "animals and insects": "animal bee insect hive whale fish bird species nectar colony wing larva honey",
    "sea and tides": "sea tide ocean shore wave pool reef coast ship sailor salt harbour anemone",
    "medicine and disease": "vaccine disease doctor blood immune virus antibody infection cell patient cure fever immunity",
    "weather and climate": "rain monsoon wind cloud storm climate season temperature snow weather heat summer humidity",
    "metals and glass": "metal steel glass iron furnace silica copper bridge cable alloy sand gold melt",
    "machines and control": "machine algorithm sort feedback control valve engine computer program sensor loop array data",
    "number and chance": "number probability chance dice theorem mean proof equation odds random coin variable average",
    "law and courts": "law court jury judge trial verdict crime evidence guilt witness justice lawyer prison",
    "government and cities": "government council city mayor election vote tax king parliament budget citizen state street",
    "trade and work": "trade union wage worker strike market price demand supply money goods labour employer",
}
_STOP_WORDS = (
    "a an and are as at be been but by can did do for from had has have he her his how i if in into is it "
    "its me my no not of on or our she so that the their them then there they this to was we were what when "
    "which who will with you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
N_ISLANDS = 6
ARCHIPELAGOS = (
    "natural sciences & taxonomy",
    "physical world & materiality",
    "abstract processes & systems",
    "social order & assessment",
)
NEIGHBOUR = 0.25  # contribution of a word to the reef after its own
BM25_SCALE = 8192
IDF_SCALE = 51

_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_SENTENCE = re.compile(r"\S(?:.*?[.!?](?=\s|$)|.*\S|)", re.DOTALL)


class Sentence(NamedTuple):
    text: str
    start: int
    end: int


class SectionStart(NamedTuple):
    sentence: int
    context: str = ""


class ReefInfo(NamedTuple):
    id: int
    name: str
    island_id: int
    n_words: int
    typical_words: tuple[str, ...]


class IslandInfo(NamedTuple):
    id: int
    name: str
    archipelago_id: int


class ArchipelagoInfo(NamedTuple):
    id: int
    name: str


class ScoredReef(NamedTuple):
    reef_id: int
    z_score: float
    raw_bm25: float
    n_contributing_words: int
    name: str


class ScoredIsland(NamedTuple):
    island_id: int
    aggregate_z: float
    n_contributing_reefs: int
    name: str


class WordInfo(NamedTuple):
    word: str
    word_id: int
    word_hash: int
    specificity: int
    idf_q: int
    weight: float
    is_compound: bool
    is_custom: bool
    reefs: tuple[tuple[int, int], ...]


class WordMatch(NamedTuple):
    token: str
    start: int
    end: int
    word: str | None
    status: str
    reefs: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class TopicResult:
    top_reefs: list[ScoredReef]
    top_islands: list[ScoredIsland]
    arch_scores: list[float]
    confidence: float
    coverage: float
    matched_words: int
    n_words: int
    unknown_words: list[str]
    matched_word_ids: list[int]

    @property
    def reef_columns(self) -> ReefColumns:
        reefs = [reef for reef in self.top_reefs if reef.z_score > 0]
        return ReefColumns(
            [reef.reef_id for reef in reefs],
            [reef.z_score for reef in reefs],
            [reef.raw_bm25 for reef in reefs],
            [reef.n_contributing_words for reef in reefs],
            [reef.name for reef in reefs],
        )

    @property
    def probabilities(self) -> list[float]:
        return [round(reef.z_score / (1 + reef.z_score), 3) for reef in self.top_reefs if reef.z_score > 0]

    @property
    def reef_arrays(self) -> ReefArrays:
        columns = self.reef_columns
        fields = columns.reef_ids, columns.z_scores, columns.raw_bm25, columns.n_contributing_words
        return ReefArrays(*(np.array(field) for field in (*fields, self.probabilities)))


@dataclass(frozen=True)
class TopicSegment:
    sentences: list[Sentence]
    start_idx: int
    end_idx: int
    topic: TopicResult
    sentence_results: list[TopicResult]


@dataclass(frozen=True)
class DocumentAnalysis:
    segments: list[TopicSegment]
    boundaries: list[int]
    n_sentences: int
    n_segments: int

    @property
    def topics(self) -> list[TopicResult]:
        return [segment.topic for segment in self.segments]


def split_sentences(text: str) -> list[Sentence]:
    """Split text after `.`, `!` or `?` before white space."""
    return [Sentence(m.group(), m.start(), m.end()) for m in _SENTENCE.finditer(text)]


def fnv1a64(text: str) -> int:
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


class FakeScorer:
    """A replacement for lagoon.ReefScorer."""

    data_version = "0.0.1-fake"
    data_checksum = "f" * 64
    can_learn = False

    def __init__(self) -> None:
        self.reefs = [
            ReefInfo(i, name, i // 2, len(words.split()), tuple(words.split()[:12]))
            for i, (name, words) in enumerate(REEF_WORDS.items())
        ]
        self.n_reefs = len(self.reefs)
        self.islands = [
            IslandInfo(i, f"{self.reefs[2 * i].name} / {self.reefs[2 * i + 1].name}", min(i, 3))
            for i in range(N_ISLANDS)
        ]
        self.archipelagos = [ArchipelagoInfo(i, name) for i, name in enumerate(ARCHIPELAGOS)]
        self._words: dict[str, WordInfo] = {}
        ids = itertools.count()
        for reef, words in enumerate(REEF_WORDS.values()):
            for word in words.split():
                tops = ((reef, 1.0), ((reef + 1) % self.n_reefs, NEIGHBOUR))
                self._words[word] = self._info(word, next(ids), tops, custom=False)
        self.n_words = self.next_word_id = len(self._words)
        self.n_compounds = 0
        share = (1.0 + NEIGHBOUR) / self.n_reefs
        self._mean, self._variance = share, (1.0 + NEIGHBOUR**2) / self.n_reefs - share**2

    def score(self, text: str, top_k: int = 10) -> TopicResult:
        return self._topic(self._matches(text), (), top_k)

    def score_batch(self, texts: Iterable[str], top_k: int = 10) -> list[TopicResult]:
        return [self.score(text, top_k) for text in texts]

    def score_raw(self, text: str) -> NDArray[np.float64]:
        return self._profile(self._matches(text), ())[1]

    def gap_cosines(
        self, text: str | Sequence[str | Sentence], *, smooth_window: int = 2
    ) -> NDArray[np.float64]:
        """0 where the strongest reef of the sentences changes, else 1."""
        tops = [self._strongest(self._matches(sentence.text)) for sentence in _as_sentences(text)]
        return np.array([float(a == b) for a, b in itertools.pairwise(tops)])

    def analyze(
        self,
        text: str | Sequence[str | Sentence],
        *,
        sensitivity: float = 1.0,
        smooth_window: int = 2,
        min_chunk_sentences: int = 2,
        max_chunk_sentences: int = 30,
        max_chunk_chars: int = 8000,
        sections: Sequence[Any] = (),
        top_k: int = 10,
        context_weight: float = 1.0,
    ) -> DocumentAnalysis:
        """Cut at section starts, where the strongest reef changes, and at the limits."""
        sentences = _as_sentences(text)
        context = {start.sentence: start.context for start in sections}
        matches = [self._matches(sentence.text) for sentence in sentences]
        tops = [self._strongest(found) for found in matches]
        starts = [0] if sentences else []
        for i in range(1, len(sentences)):
            first = starts[-1]
            known = [top for top in tops[first:i] if top is not None]
            turned = bool(known) and tops[i] is not None and tops[i] != known[-1]
            if (
                i in context
                or (max_chunk_sentences and i - first >= max_chunk_sentences)
                or (max_chunk_chars and sentences[i].end - sentences[first].start > max_chunk_chars)
                or (turned and i - first >= min_chunk_sentences)
            ):
                starts.append(i)
        segments = []
        heading: list[WordMatch] = []
        for start, end in zip(starts, [*starts[1:], len(sentences)], strict=True):
            if start in context:
                heading = self._matches(context[start])
            inside = [match for found in matches[start:end] for match in found]
            segments.append(
                TopicSegment(
                    sentences[start:end],
                    start,
                    end,
                    self._topic(inside, heading if context_weight else (), top_k),
                    [self._topic(found, (), top_k) for found in matches[start:end]],
                )
            )
        return DocumentAnalysis(segments, starts[1:], len(sentences), len(segments))

    def explain_words(self, text: str) -> list[WordMatch]:
        return self._matches(text)

    def lookup_word(self, word: str) -> WordInfo | None:
        word = word.lower()
        return self._words.get(word) or self._words.get(word.removesuffix("s"))

    def stem_contributions(self, stem: str) -> tuple[float, list[int], list[int]] | None:
        info = self.lookup_word(stem)
        return info and (info.weight, [reef for reef, _ in info.reefs], [bm25 for _, bm25 in info.reefs])

    def filter_unknown(self, words: Iterable[str]) -> list[str]:
        return [word for word in words if word.lower() not in STOP_WORDS and self.lookup_word(word) is None]

    def compute_custom_word_scores(
        self, n_associated_reefs: int, associations: Sequence[tuple[int, float]]
    ) -> tuple[int, list[tuple[int, int]]]:
        n, total = n_associated_reefs, self.n_reefs
        idf = math.log((total - n + 0.5) / (n + 0.5) + 1)
        return min(255, round(idf * IDF_SCALE)), [(reef, round(s * BM25_SCALE)) for reef, s in associations]

    def add_custom_word(
        self,
        word: str,
        reef_associations: Sequence[tuple[int, float]],
        specificity: int = 2,
        weight: float | None = None,
    ) -> WordInfo:
        if word in self._words and not self._words[word].is_custom:
            raise ValueError(f"{word!r} is a word of the base vocabulary")
        info = self._info(word, self.next_word_id, reef_associations, custom=True)
        self._words[word] = info._replace(specificity=specificity, weight=1.0 if weight is None else weight)
        self.next_word_id += 1
        return self._words[word]

    def rebuild_compounds(self, compounds: Sequence[tuple[str, int]]) -> None:
        """Do nothing: this fake has no compounds."""

    def _info(self, word: str, word_id: int, reefs: Sequence[tuple[int, float]], *, custom: bool) -> WordInfo:
        idf_q, scores = self.compute_custom_word_scores(len(reefs), reefs)
        return WordInfo(word, word_id, fnv1a64(word), 2, idf_q, 1.0, " " in word, custom, tuple(scores))

    def supporting_words(self, text: str, reefs: Collection[int]) -> dict[int, list[tuple[str, float]]]:
        contributions: dict[int, Counter[str]] = {}
        for match in self._matches(text):
            for reef, contribution in match.reefs:
                if reef in reefs:
                    contributions.setdefault(reef, Counter())[match.token.lower()] += contribution
        return {reef: words.most_common() for reef, words in contributions.items()}

    def supporting_forms(self, forms: Sequence[str], reefs: Collection[int]) -> dict[int, list[str]]:
        words = self.supporting_words(" ".join(forms), reefs)
        return {reef: [word for word, _ in pairs] for reef, pairs in words.items()}

    def misleading_names(self, forms: Iterable[str]) -> frozenset[str]:
        return frozenset(forms)

    def relate_forms(
        self, forms: Sequence[str], others: Sequence[str], chances: Mapping[int, float]
    ) -> FormRelations:
        reef = np.zeros((len(forms), len(others)), dtype=np.int64)
        support = np.zeros_like(reef, dtype=np.float64)
        for place, (form, other) in enumerate(itertools.product(forms, others)):
            reefs = range(len(REEF_WORDS))
            common = self.supporting_words(form, reefs).keys() & self.supporting_words(other, reefs).keys()
            if common:
                reef.flat[place] = max(common, key=lambda each: chances.get(each, 0.0))
                support.flat[place] = 1.0
        return FormRelations(support.copy(), support, reef)

    def _matches(self, text: str) -> list[WordMatch]:
        return [self._match(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text)]

    def _match(self, token: str, start: int, end: int) -> WordMatch:
        folded = token.lower()
        if folded in STOP_WORDS:
            return WordMatch(token, start, end, None, "stop", ())
        if not any(letter.isalpha() for letter in folded):
            return WordMatch(token, start, end, None, "number", ())
        info = self.lookup_word(folded)
        if info is None:
            return WordMatch(token, start, end, None, "unknown", ())
        reefs = tuple((reef, info.weight * bm25_q / BM25_SCALE) for reef, bm25_q in info.reefs)
        status = "custom" if info.is_custom else "known"
        return WordMatch(token, start, end, info.word, status, reefs)

    def _strongest(self, matches: Sequence[WordMatch]) -> int | None:
        z = self._profile(matches, ())[1]
        return int(z.argmax()) if z.any() else None

    def _profile(
        self, matches: Sequence[WordMatch], context: Sequence[WordMatch]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Counter[int]]:
        """Return (raw, z, number of contributing words) by reef."""
        counts = Counter(match.word for match in matches if match.word)
        counts.update({match.word for match in context if match.word})
        reefs: Mapping[str | None, Any] = {m.word: m.reefs for m in (*context, *matches)}
        raw, contributing = np.zeros(self.n_reefs), Counter[int]()
        m1 = m2 = 0.0
        for word, tf in sorted(counts.items()):
            repeated = 1 + math.log(tf)
            m1, m2 = m1 + repeated, m2 + repeated**2
            for reef, contribution in reefs[word]:
                raw[reef] += repeated * contribution
                contributing[reef] += 1
        z = (raw - m1 * self._mean) / math.sqrt(m2 * self._variance) if m2 else np.zeros(self.n_reefs)
        return raw.round(6), z.round(6), contributing

    def _topic(self, matches: Sequence[WordMatch], context: Sequence[WordMatch], top_k: int) -> TopicResult:
        raw, z, contributing = self._profile(matches, context)
        order = sorted(range(self.n_reefs), key=lambda reef: (-z[reef], reef)) if z.any() else []
        islands = sorted(
            (
                (round(float(z[2 * i : 2 * i + 2].sum() / math.sqrt(2)), 6), i)
                for i in range(N_ISLANDS)
                if order and (contributing[2 * i] or contributing[2 * i + 1])
            ),
            key=lambda pair: (-pair[0], pair[1]),
        )
        archs = [0.0] * len(ARCHIPELAGOS)
        for arch in range(len(archs)):
            members = [r.id for r in self.reefs if self.islands[r.island_id].archipelago_id == arch]
            archs[arch] = round(float(z[members].sum() / math.sqrt(len(members))), 6)
        known = [match for match in matches if match.word]
        counted = [match for match in matches if match.status in ("known", "custom", "unknown")]
        return TopicResult(
            top_reefs=[
                ScoredReef(r, float(z[r]), float(raw[r]), contributing[r], self.reefs[r].name)
                for r in order[:top_k]
            ],
            top_islands=[
                ScoredIsland(
                    i, z_sum, (contributing[2 * i] > 0) + (contributing[2 * i + 1] > 0), self.islands[i].name
                )
                for z_sum, i in islands
            ],
            arch_scores=archs,
            confidence=round(float(z[order[0]] - z[order[1]]), 6) if order else 0.0,
            coverage=round(len(known) / len(counted), 6) if counted else 0.0,
            matched_words=len(known),
            n_words=len(counted),
            unknown_words=sorted({m.token.lower() for m in matches if m.status == "unknown"}),
            matched_word_ids=sorted({self._words[m.word].word_id for m in known if m.word}),
        )


def _as_sentences(text: str | Sequence[str | Sentence]) -> list[Any]:
    if isinstance(text, str):
        return list(split_sentences(text))
    sentences: list[Any] = []
    offset = 0
    for item in text:
        if isinstance(item, str):
            sentences.append(Sentence(item, offset, offset + len(item)))
            offset += len(item) + 1
        else:
            sentences.append(item)
    return sentences
