"""Learn words of the corpus from their contexts; pure functions of values.

A document gives observations (`candidates` -> `observations`), observations add up
to evidence (`evidence`), and evidence gives learned words with their reefs (`vocabulary`).
"""

from shoal.learning.evidence import Evidence, EvidenceError
from shoal.learning.observations import DISCOVERY_VERSION, discover
from shoal.learning.vocabulary import (
    VocabularyChanges,
    changes,
    learn,
    may_contain_learned_words,
    related_words,
    with_vocabulary,
)
from shoal.storage.vocabulary import EvidenceRow, Kind, LearnedReef, LearnedWord

__all__ = [
    "DISCOVERY_VERSION",
    "Evidence",
    "EvidenceError",
    "EvidenceRow",
    "Kind",
    "LearnedReef",
    "LearnedWord",
    "VocabularyChanges",
    "changes",
    "discover",
    "learn",
    "may_contain_learned_words",
    "related_words",
    "with_vocabulary",
]
