"""Short texts that use unknown words in the context of given topics."""

from __future__ import annotations

from collections.abc import Sequence

SENTENCES = {
    "fire": (
        "The {} rose over the volcano, where lava and ash had buried the granite.",
        "Magma cooled to basalt beside the {} after the eruption of the crater.",
    ),
    "sea": (
        "A {} drifted with the tide, and the waves broke on the shore of the harbour.",
        "Sailors of the ship saw the {} where the ocean washes over the reef.",
    ),
    "law": (
        "The judge asked the jury about the {}, and the witness gave evidence of the crime.",
        "No court would put the {} on trial, said the lawyer, and no verdict was reached.",
    ),
    "bees": (
        "The bee carried nectar of the {} to the hive, and pollen clung to its wings.",
        "Every flower and petal near the {} was visited by insects of the colony.",
    ),
}
WORDS = ("zorblat", "quendle", "mirthog", "varnisk", "pelluno", "drabbix", "hoxley wump", "zorblats")
"""Words that no dictionary has; one in singular and plural, one a compound."""

Piece = tuple[str, int, str]
"""A topic, the number of its sentence, and the word in the sentence."""


def text_of(pieces: Sequence[Piece]) -> str:
    return " ".join(SENTENCES[topic][n % 2].format(word) for topic, n, word in pieces)


def about(topic: str, word: str, n: int = 4) -> str:
    """Make a text that uses a word `n` times in the context of one topic."""
    return text_of([(topic, i, word) for i in range(n)])
