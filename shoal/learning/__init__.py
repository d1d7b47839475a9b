"""Learning the corpus's own words from their company; values in, values out.

A document becomes rows of evidence (`candidates`, `compounds`, `contexts` -> `observations`), rows add up
(`evidence`), sums become words with reefs (`associations` -> `vocabulary`).
"""

from shoal.learning.evidence import Evidence, EvidenceError
from shoal.learning.observations import DISCOVERY_VERSION, discover
from shoal.learning.vocabulary import Changes, changes, holds_learned_words, learn, related, with_vocabulary
from shoal.storage.vocabulary_records import EvidenceRow, Kind, LearnedReef, LearnedWord

__all__ = [
    "DISCOVERY_VERSION",
    "Changes",
    "Evidence",
    "EvidenceError",
    "EvidenceRow",
    "Kind",
    "LearnedReef",
    "LearnedWord",
    "changes",
    "discover",
    "holds_learned_words",
    "learn",
    "related",
    "with_vocabulary",
]
