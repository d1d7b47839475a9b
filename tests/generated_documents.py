"""Generates the documents of the chaos tests: articles or books, and many notes."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

SAMPLES = Path(__file__).parents[1] / "shoal" / "sample_corpus"
SYLLABLES = ("zor", "quen", "mir", "var", "pel", "drab", "hox", "wim", "lun", "gath", "blat", "thog")
SENTENCES_OF_A_BOOK = 4000

Text = dict[str, str]
"""Title, content and format, as the arguments of `Engine.ingest` and the fields of `POST /documents`."""


def articles() -> Iterator[Text]:
    """The sample corpus."""
    for path in sorted(SAMPLES.glob("*.md")):
        yield {"title": path.stem, "content": path.read_text(encoding="utf-8"), "format": "markdown"}


def books(seed: int) -> Iterator[Text]:
    """The books of SHOAL_TEST_CORPORA; without it, generated books of similar number and size."""
    corpora = os.environ.get("SHOAL_TEST_CORPORA")
    if corpora:
        for path in sorted(Path(corpora, "corpora", "books").glob("*.md")):
            yield {"title": path.stem, "content": path.read_text(encoding="utf-8"), "format": "markdown"}
        return
    rng = random.Random(seed)
    sentences = _sentences()
    for i in range(22):
        n = rng.randrange(SENTENCES_OF_A_BOOK, 3 * SENTENCES_OF_A_BOOK)
        content = " ".join(_with_invented_word(rng.choice(sentences), rng) for _ in range(n))
        yield {"title": f"book {i}", "content": content, "format": "plaintext"}


def notes(n: int, seed: int) -> Iterator[Text]:
    """Notes of a few sentences with words of no dictionary. Every hundredth repeats an earlier note."""
    rng = random.Random(seed)
    sentences = _sentences()
    notes_so_far: list[Text] = []
    for i in range(n):
        content = " ".join(_with_invented_word(rng.choice(sentences), rng) for _ in range(8))
        if i % 100 == 99:
            content = notes_so_far[i // 2]["content"]
        notes_so_far.append({"title": f"note {i}", "content": content, "format": "plaintext"})
    yield from notes_so_far


def _sentences() -> list[str]:
    text = " ".join(article["content"] for article in articles())
    return [sentence for sentence in text.replace("\n", " ").split(". ") if 40 < len(sentence) < 240]


def _with_invented_word(sentence: str, rng: random.Random) -> str:
    """Replace a word of a sentence by one of 144 invented words."""
    words = sentence.split()
    words[rng.randrange(len(words))] = "".join(rng.choice(SYLLABLES) for _ in range(2)) + "le"
    return " ".join(words) + "."
