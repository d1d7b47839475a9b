"""Reasons: which of the reefs that a query shares with a passage a person would accept as a reason.

Most shared reefs are background: a query has up to 60 reefs with feedback, and a passage 38. A reef is a
reason if the passage is about it and the query's own words ask for it. Its probability is a logistic
function of both probabilities (`lagoon.results`), fitted to judged reasons (`benchmarks/reason_truth.py`).
The words that show it are those of query and passage with the largest supported contributions to the reef.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from shoal.models.scores import SharedReef

INTERCEPT, PASSAGE, QUERY = 0.79, 0.58, 0.62
"""Coefficients of the log odds of the probabilities of passage and query."""
LEAST = 0.001
"""Probabilities are kept this far from 0 and 1."""
LEAST_ASKED = 0.3
"""Least probability that the query's words are about the reef of a reason."""
PROBABILITY_DIGITS = 3
MOST_WORDS = 3
"""Words of query and passage that a reason names."""
LEAST_SHARE = 0.25
"""Least contribution of a named word, as a share of the largest."""
MOST_QUOTED = 120
"""Characters of a sentence that a reason quotes."""
QUOTATION_MARKS = '"“”„«» '
"""Those at the ends of a sentence are left out, since the reason has its own."""


def reason_probability(passage: float, query: float) -> float:
    """Probability that a shared reef is a reason, from those that passage and query are about it.

    0 if the query hardly asks for the reef, or no word of the passage shows it.
    """
    if not passage or query < LEAST_ASKED:
        return 0.0
    logit = INTERCEPT + PASSAGE * log_odds(passage) + QUERY * log_odds(query)
    return round(1.0 / (1.0 + math.exp(-logit)), PROBABILITY_DIGITS)


def describe_nearest(sentence: str, similarity: float) -> str:
    """Say in words that a sentence of a passage is near to the query; `similarity` is the cosine."""
    quoted = " ".join(sentence.split()).strip(QUOTATION_MARKS)
    if len(quoted) > MOST_QUOTED:
        quoted = quoted[:MOST_QUOTED].rsplit(" ", 1)[0] + " …"
    return f"its sentence “{quoted}” is near in meaning ({similarity:.2f})"


def log_odds(probability: float) -> float:
    return math.log((probability + LEAST) / (1.0 - probability + LEAST))


def order_reasons(shared: Iterable[SharedReef]) -> tuple[SharedReef, ...]:
    """Put reasons first, most probable first; the order of the others stays."""
    return tuple(sorted(shared, key=lambda reef: -reef.probability if reef.is_reason else 0.0))


def largest_words(
    contributions: Mapping[int, Sequence[tuple[str, float]]],
) -> dict[int, tuple[str, ...]]:
    """By reef, the first words of `LearningScorer.supporting_words` that contribute enough to be named."""
    return {
        reef_id: tuple(
            dict.fromkeys(word for word, value in pairs[:MOST_WORDS] if value >= LEAST_SHARE * pairs[0][1])
        )
        for reef_id, pairs in contributions.items()
    }
