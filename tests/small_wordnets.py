"""Wordnets of a few words, installed for a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from lagoon.build.wordnets import Senses, write_distribution
from lagoon.wordnets import read_installed

RAIN, WOOD, TIMBER, BANK, SHORE, SUNFLOWER = range(6)
WORDS: Mapping[str, Sequence[tuple[str, int, float]]] = {
    "en": [
        ("rain", RAIN, 9), ("forest", WOOD, 9), ("wood", WOOD, 2), ("wood", TIMBER, 8), ("bank", BANK, 9),
        ("bank", SHORE, 1), ("shore", SHORE, 5), ("sunflower", SUNFLOWER, 1), ("be", RAIN, 1),
    ],
    "el": [("βροχή", RAIN, 1), ("δάσος", WOOD, 1), ("όχθη", SHORE, 1)],
    "fr": [("pluie", RAIN, 1), ("forêt", WOOD, 1), ("pomme de terre", SHORE, 1)],
    "zh": [("雨", RAIN, 1), ("森林", WOOD, 1), ("向日葵", SUNFLOWER, 1), ("日葵", BANK, 1)],
}  # fmt: skip
"""(lemma, synset, count) by language."""


@contextmanager
def installed(folder: Path, codes: Sequence[str] = tuple(WORDS)) -> Iterator[None]:
    """Install the wordnets of some languages, and no others."""
    with pytest.MonkeyPatch.context() as patch:
        for code in codes:
            senses = [(lemma, Senses(synset, count)) for lemma, synset, count in WORDS[code]]
            write_distribution(folder / code, code, senses, "licence\n")
            patch.syspath_prepend(str(folder / code))
        read_installed.cache_clear()
        yield
    read_installed.cache_clear()
