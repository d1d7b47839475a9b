"""The part of lagoon's scorer that Shoal uses. Any object with these members can take its place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeGuard, Unpack

from shoal.models.vocabulary import Island, Reef

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lagoon import (
        ReadText,
        ReefArrays,
        ReefColumns,
        SectionStart,
        Sentence,
        TextsAnalysis,
        TextSentences,
        WordInfo,
    )
    from lagoon.tokens import TokenStream


class Archipelago(Protocol):
    """One of the four groups of islands."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...


class Topic(Protocol):
    """The profile of a text. See `lagoon.TopicResult`."""

    @property
    def reef_columns(self) -> ReefColumns: ...
    @property
    def reef_arrays(self) -> ReefArrays: ...
    @property
    def probabilities(self) -> list[float]: ...
    @property
    def arch_scores(self) -> Sequence[float]: ...
    @property
    def confidence(self) -> float: ...
    @property
    def coverage(self) -> float: ...
    @property
    def n_words(self) -> int: ...
    @property
    def matched_words(self) -> int: ...


class Analysis(Protocol):
    """The segments of a text: the first sentence of each but the first segment, and their profiles."""

    @property
    def boundaries(self) -> Sequence[int]: ...
    @property
    def topics(self) -> Sequence[Topic]: ...


class AnalysisOptions(TypedDict):
    """Options of an analysis; `lagoon.ReefScorer.analyze` describes them."""

    sensitivity: float
    smooth_window: int
    min_chunk_sentences: int
    max_chunk_sentences: int
    max_chunk_chars: int
    context_weight: float
    top_k: int


class Scorer(Protocol):
    """Scores texts against reefs. See `lagoon.ReefScorer` for each member."""

    @property
    def data_version(self) -> str: ...
    @property
    def data_checksum(self) -> str: ...
    @property
    def n_words(self) -> int: ...
    @property
    def n_reefs(self) -> int: ...
    @property
    def reefs(self) -> Sequence[Reef]: ...
    @property
    def islands(self) -> Sequence[Island]: ...
    @property
    def archipelagos(self) -> Sequence[Archipelago]: ...
    @property
    def can_learn(self) -> bool:
        """Whether the scorer is a `LearningScorer` too."""
        ...

    def score(self, text: str, top_k: int = 10) -> Any: ...

    def explain_words(self, text: str) -> Sequence[Any]: ...

    def supporting_words(
        self, text: str, reefs: Collection[int]
    ) -> Mapping[int, Sequence[tuple[str, float]]]: ...

    def supporting_forms(
        self, forms: Sequence[str], reefs: Collection[int]
    ) -> Mapping[int, Sequence[str]]: ...

    def stem_contributions(self, stem: str) -> tuple[float, Sequence[int], Sequence[int]] | None: ...

    def filter_unknown(self, words: Iterable[str]) -> list[str]: ...

    def analyze(
        self,
        text: Sequence[str | Sentence],
        *,
        sections: Sequence[SectionStart],
        **options: Unpack[AnalysisOptions],
    ) -> Analysis: ...

    def gap_cosines(self, text: Sequence[str | Sentence], *, smooth_window: int) -> NDArray[np.float64]: ...


class LearningScorer(Scorer, Protocol):
    """A scorer that learned words can be added to."""

    @property
    def n_custom_words(self) -> int: ...

    def analyze_many(
        self, texts: Sequence[TextSentences], **options: Unpack[AnalysisOptions]
    ) -> TextsAnalysis: ...

    def score_sections(
        self, text: ReadText, sections: Sequence[SectionStart], *, context_weight: float, top_k: int
    ) -> Sequence[Topic]: ...

    def with_custom_words(self, words: Iterable[WordInfo]) -> LearningScorer: ...

    def unknown_keys(self, text: str) -> NDArray[np.uint32]: ...

    def contains_custom_words(self, text: str) -> bool: ...

    def matches_custom_words(self, tokens: TokenStream) -> bool: ...

    def compute_custom_rows(self, *args: Any, **kwargs: Any) -> Any: ...

    def corpus_rarity(self, n_holding: NDArray[np.int64], n_texts: int) -> NDArray[np.float64]: ...


def can_learn(scorer: Scorer) -> TypeGuard[LearningScorer]:
    """Whether words can be learned with a scorer."""
    return scorer.can_learn
