"""A library to take in while everything around it is killed: articles or books, and many notes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "shoal" / "sample_corpus"
SYLLABLES = ("zor", "quen", "mir", "var", "pel", "drab", "hox", "wim", "lun", "gath", "blat", "thog")
SENTENCES_OF_A_BOOK = 4000

Text = dict[str, str]
"""Title, content and format, as the arguments of `Engine.ingest` and the fields of `POST /documents`."""


def articles() -> Iterator[Text]:
    """The sample corpus."""
    for path in sorted(SAMPLES.glob("*.md")):
        yield {"title": path.stem, "content": path.read_text(encoding="utf-8"), "format": "markdown"}


def books(seed: int) -> Iterator[Text]:
    """The books of SHOAL_TEST_CORPORA or, without it, as many and about as large ones made of the sample corpus."""
    named = os.environ.get("SHOAL_TEST_CORPORA")
    if named:
        for path in sorted(Path(named, "corpora", "books").glob("*.md")):
            yield {"title": path.stem, "content": path.read_text(encoding="utf-8"), "format": "markdown"}
        return
    chance = random.Random(seed)
    sentences = _sentences()
    for i in range(22):
        n = chance.randrange(SENTENCES_OF_A_BOOK, 3 * SENTENCES_OF_A_BOOK)
        content = " ".join(_with_names(chance.choice(sentences), chance) for _ in range(n))
        yield {"title": f"book {i}", "content": content, "format": "plaintext"}


def notes(n: int, seed: int) -> Iterator[Text]:
    """Notes of a few sentences that use words no dictionary has; every hundredth is the same as an earlier one."""
    chance = random.Random(seed)
    sentences = _sentences()
    made: list[Text] = []
    for i in range(n):
        content = " ".join(_with_names(chance.choice(sentences), chance) for _ in range(8))
        if i % 100 == 99:
            content = made[i // 2]["content"]
        made.append({"title": f"note {i}", "content": content, "format": "plaintext"})
    yield from made


def _sentences() -> list[str]:
    text = " ".join(article["content"] for article in articles())
    return [sentence for sentence in text.replace("\n", " ").split(". ") if 40 < len(sentence) < 240]


def _with_names(sentence: str, chance: random.Random) -> str:
    """A sentence with one of its words replaced by one of a few hundred that are not English."""
    words = sentence.split()
    words[chance.randrange(len(words))] = "".join(chance.choice(SYLLABLES) for _ in range(2)) + "le"
    return " ".join(words) + "."
