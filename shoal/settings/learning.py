"""Settings of learning."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.checks import at_least, between, one_of
from shoal.settings.declaration import setting


@dataclass(frozen=True, kw_only=True)
class LearningSettings:
    """What is learned from the library.

    "Gain" is the gain of learning in nDCG@10 of reef search, mean of scifact, cranfield, medline and
    cacm, as printed by benchmarks/vocabulary_learning.py --vary; differences below 1 % are noise.
    """

    learning: bool = setting(
        True,
        "1 learns from the library: words that the vocabulary lacks, and what a query's words are about here",
    )
    # Gain 15 % with 1 (four words of five then occur once), 15 % with 2, 12 % with 3.
    min_occurrences_short: int = setting(
        2, "fewest occurrences in short documents that a word is learned from", at_least(1)
    )
    # Of all occurrences of learnable words in 22 books, 84 % become known with 2, 80 % with 3, 75 % with 5.
    min_occurrences_long: int = setting(
        3, "fewest occurrences in long documents that a word is learned from", at_least(1)
    )
    # As specified. Gain 14 % with 100; with 2,000 the same as with 500.
    short_document_words: int = setting(500, "documents with fewer words are short", at_least(0))
    # Half of all sentences lead by more. Gain between 15 % and 16 % at every value.
    context_confidence: float = setting(
        1.0,
        "lead of a sentence's strongest reef, in z, at which the sentence outweighs its chunk",
        at_least(0),
    )
    # As specified. Gain between 15 % and 16 % for 0.3 to 1.
    context_sentence_weight: float = setting(
        0.7,
        "share of such a sentence in the context of its words; the rest comes from its chunk",
        between(0, 1),
    )
    # Gain 13 % with 12, 15 % with 32, 16 % with all, which would take three times the space.
    reefs_per_observation: int = setting(
        32, "most reefs stored of a word's context in one document", between(1, 207)
    )
    # Gain 16 % with 0, 15 % with 0.2, 13 % with 0.4; 0.2 leaves out words that fit any context ("thou",
    # "wider").
    association_min: float = setting(
        0.2,
        "lowest value of a reef in a word's context, above the reef's average, that associates the word with "
        "the reef",
        at_least(0),
    )
    # Gain 16 % with 0.2 (13 reefs a word), 15 % with 0.3 (11), 14 % with 0.4 (9), 10 % with 0.5 (6).
    association_relative: float = setting(
        0.3, "the same limit as a share of the word's strongest reef; both apply", between(0, 1)
    )
    # Gain 15 % with 8, 15 % with 15, 16 % with 25.
    association_max_reefs: int = setting(15, "most reefs of a learned word", between(1, 207))
    # No difference in gain between 3 and 5.
    compound_min_occurrences: int = setting(
        4, "fewest occurrences, in documents that repeat it, that a compound is learned from", at_least(2)
    )
    # Gain 15 % with 0.4 and 0.6, 16 % with 0.8 and without compounds. In books, 0.8 keeps names and terms; a
    # likelihood ratio, however high, also keeps "cried morrel" and "ye know".
    compound_min_cohesion: float = setting(
        0.8, "lowest cohesion of a compound: normalised pointwise mutual information", between(-1, 1)
    )
    observations: str = setting(
        "keep",
        "observations of a document: keep, or prune once the sums of evidence include them; prune makes "
        "deleting slower",
        one_of("keep", "prune"),
    )
