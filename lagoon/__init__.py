"""lagoon: profiles of texts over named topics (reefs).

scorer = lagoon.load()
scorer.score("chlorophyll in the leaves of plants").top_reefs
"""

from lagoon.analysis import (
    DocumentAnalysis,
    SectionStart,
    TextsAnalysis,
    TextSegments,
    TextSentences,
    TopicSegment,
)
from lagoon.errors import LagoonChecksumError, LagoonError, LagoonVersionError
from lagoon.reading import ReadText
from lagoon.results import IslandColumns, ReefArrays, ReefColumns, ScoredIsland, ScoredReef, TopicResult
from lagoon.scorer import ReefScorer, WordMatch, load
from lagoon.sentences import Sentence, split_sentences
from lagoon.tokens import STOP_WORDS
from lagoon.vocabulary import WordInfo

__version__ = "1.0.0"

__all__ = [
    "STOP_WORDS",
    "DocumentAnalysis",
    "IslandColumns",
    "LagoonChecksumError",
    "LagoonError",
    "LagoonVersionError",
    "ReadText",
    "ReefArrays",
    "ReefColumns",
    "ReefScorer",
    "ScoredIsland",
    "ScoredReef",
    "SectionStart",
    "Sentence",
    "TextSegments",
    "TextSentences",
    "TextsAnalysis",
    "TopicResult",
    "TopicSegment",
    "WordInfo",
    "WordMatch",
    "__version__",
    "load",
    "split_sentences",
]
