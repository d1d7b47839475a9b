"""Small texts in which invented words have contexts of known words."""

from __future__ import annotations

import random

SEA = [
    "ship",
    "ocean",
    "wave",
    "sailor",
    "harbour",
    "tide",
    "anchor",
    "voyage",
    "island",
    "storm",
    "coast",
    "fish",
]
MONEY = [
    "bank",
    "money",
    "loan",
    "interest",
    "debt",
    "market",
    "price",
    "profit",
    "investment",
    "tax",
    "wage",
    "trade",
]
PLANT = [
    "leaf",
    "root",
    "flower",
    "seed",
    "petal",
    "tree",
    "soil",
    "garden",
    "blossom",
    "stem",
    "fern",
    "forest",
]
TOPICS = {"sea": SEA, "money": MONEY, "plant": PLANT}


def sentence(rng: random.Random, topic: str, *words: str) -> str:
    """A sentence about a topic with the given words in it."""
    known = rng.sample(TOPICS[topic], 5)
    for word in words:
        known.insert(rng.randrange(1, len(known)), f"the {word} and")
    return " ".join(known).capitalize() + "."


def text(seed: int, topic: str, words: list[str], n_sentences: int = 6) -> str:
    """A paragraph about one topic; each word is in its own sentence, and further sentences have none of
    them."""
    rng = random.Random(seed)
    sentences = [sentence(rng, topic, word) for word in words]
    sentences += [sentence(rng, topic) for _ in range(max(0, n_sentences - len(words)))]
    rng.shuffle(sentences)
    return " ".join(sentences)
