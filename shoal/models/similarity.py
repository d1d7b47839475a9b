"""How similar two texts are."""

from __future__ import annotations

from typing import Annotated, NamedTuple

DUPLICATE = 0.85
"""Texts that are at least this similar, and not opposite, say the same."""

MAX_CHARS = 20_000
"""Characters of a text; the limit of notes."""


class Signs(NamedTuple):
    """Signs of a contradiction; see the module."""

    negations: Annotated[float, "difference of the numbers of negations, at most 2"]
    moved: Annotated[float, "how far the negations concern different words, 0 to 1"]
    antonyms: Annotated[float, "words whose opposite is in the other text, at most 2"]
    numbers: Annotated[float, "1 if each text has a number that the other lacks"]
    contrasts: Annotated[float, "how far the sides of a contrast or comparison are exchanged, 0 to 1"]
    exchanges: Annotated[float, "how far two words have exchanged their places, 0 to 1"]


class SimilarityPart(NamedTuple):
    """One reason of a similarity: a measure, and what it adds to the log-odds."""

    name: Annotated[
        str,
        "`profile`: cosine of the profiles; `words`: share of the terms of either text that the other "
        "matches; `missing`: weight of the heaviest term that one text lacks; `exchanged`: the same where "
        "each text has a term of its own; `vectors`, with an encoder: cosine of both vectors, 0 at the mean "
        "of unrelated texts",
    ]
    value: Annotated[float, "the measure, 0 to 1"]
    contribution: Annotated[float, "what it adds to the log-odds"]


class Similarity(NamedTuple):
    """How similar two texts are, and why. The contributions of `parts` add up, with `SAME.bias`, to the
    log-odds of `value`; with `SAME_BY_VECTORS.bias` if there is a part `vectors`."""

    value: Annotated[
        float,
        f"probability that the texts are about the same, 0 to 1; from {DUPLICATE} on they are duplicates, "
        "unless `is_opposite`",
    ]
    is_opposite: Annotated[bool, "whether there are signs that the texts contradict each other"]
    parts: Annotated[tuple[SimilarityPart, ...], "measures behind `value`"]
    signs: Annotated[Signs, "signs behind `is_opposite`"]

    @property
    def is_duplicate(self) -> Annotated[bool, f"`value` is at least {DUPLICATE}, and not `is_opposite`"]:
        """Whether the texts say the same."""
        return self.value >= DUPLICATE and not self.is_opposite
