"""The part of lagoon's scorer that Shoal uses. Any object with these members can take its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lagoon import ReadText, SectionStart, Sentence, TextSentences, WordInfo
    from lagoon.tokens import TokenStream


class Reef(Protocol):
    """A named semantic neighbourhood."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def island_id(self) -> int: ...
    @property
    def typical_words(self) -> Sequence[str]: ...


class Island(Protocol):
    """A group of reefs."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def archipelago_id(self) -> int: ...


class Archipelago(Protocol):
    """One of the four groups of islands."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...


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

    def filter_unknown(self, words: Iterable[str]) -> list[str]: ...

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


class LearningScorer(Scorer, Protocol):
    """A scorer that learned words can be added to."""

    @property
    def n_custom_words(self) -> int: ...

    def analyze_many(self, texts: Sequence[TextSentences], **options: Any) -> Any: ...

    def score_sections(
        self, text: ReadText, sections: Sequence[SectionStart], *, context_weight: float, top_k: int
    ) -> Sequence[Any]: ...

    def with_custom_words(self, words: Iterable[WordInfo]) -> LearningScorer: ...

    def contains_custom_words(self, text: str) -> bool: ...

    def matches_custom_words(self, tokens: TokenStream) -> bool: ...

    def compute_custom_rows(self, *args: Any, **kwargs: Any) -> Any: ...

    def corpus_rarity(self, n_holding: NDArray[np.int64], n_texts: int) -> NDArray[np.float64]: ...


def can_learn(scorer: Scorer) -> TypeGuard[LearningScorer]:
    """Whether words can be learned with a scorer."""
    return scorer.can_learn
