"""Whether an encoder works: its speed, and whether it separates paraphrases from unrelated sentences."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np

from shoal.encoders.contract import Encoder, EncoderIdentity, TextKind

PARAPHRASES = (
    (
        "How do bees say where food is?",
        "Honeybees dance to show their nestmates the way to flowers.",
    ),
    (
        "The doctor said the child has a fever.",
        "The physician found the kid's temperature too high.",
    ),
    (
        "Prices rose sharply last year.",
        "Inflation made everything more expensive.",
    ),
    (
        "The bridge was closed because of the flood.",
        "High water shut the river crossing.",
    ),
    ("My laptop does not start any more.", "The computer refuses to boot."),
    ("She plays the violin in an orchestra.", "She is a string musician in a symphonic ensemble."),
    ("Bake the dough until the crust is brown.", "Leave the bread in the oven until its surface is golden."),
    ("The court sentenced him to five years.", "The judge sent the defendant to prison for half a decade."),
    ("Plants turn sunlight into sugar.", "Photosynthesis stores light in carbohydrates."),
    ("The striker scored twice in the final.", "Two goals by the forward won the cup."),
    (
        "The telescope found a planet near a distant star.",
        "Astronomers discovered another world.",
    ),
    ("Do not touch the wire, it is live.", "Keep your hands off that cable: it carries current."),
    ("The union called a strike for higher wages.", "Workers stopped working to demand better pay."),
    ("The cat slept on the warm windowsill.", "A feline was napping in the sun by the window."),
    ("The ship sank after it hit an iceberg.", "The vessel went down when it collided with floating ice."),
    ("Wash your hands to avoid infections.", "Hygiene keeps germs from spreading."),
)
"""A sentence and a paraphrase of it that shares few words. Each is unrelated to those of the other pairs."""
PASSAGE = (
    "The tide is the regular rise and fall of the sea along a coast. The moon pulls on the water that "
    "faces it more than on the earth below, and on the far side the earth is pulled away from the "
    "water, so that two bulges travel around the globe. A harbour passes through both in a little more "
    "than a day. When sun and moon stand in line, at new and full moon, their pulls add up to the high "
    "spring tides; a week later they work against each other, and the neap tides hardly reach the marks "
    "on the wall. The shape of the coast matters more than either: a funnel such as the Bay of Fundy "
    "raises a metre of open sea to sixteen, while an enclosed sea has almost none. Tables for sailors "
    "therefore rest on long measurements at each port, which are taken apart into dozens of waves of "
    "known periods and put together again for the years to come. "
)
"""About 180 tokens, as many as a passage of a library has."""
N_PASSAGES, N_QUERIES = 16, 8
MIN_SEPARATION = 0.95
"""Encoders of sentences reach 0.99 and more on these pairs; vectors of chance have 0.5."""


@dataclass(frozen=True)
class EncoderCheck:
    """What a check measured.

    `first_seconds`: until the first vector, with loading. `texts_per_second`: passages of about 180 tokens.
    `query_ms`: median time of embedding one query. `paraphrase_similarity` and `unrelated_similarity`: mean
    cosines, -1 to 1. `separation`: probability that a paraphrase is nearer than an unrelated sentence.
    """

    identity: EncoderIdentity
    max_tokens: int
    first_seconds: float
    texts_per_second: float
    query_ms: float
    paraphrase_similarity: float
    unrelated_similarity: float
    separation: float

    @property
    def separates(self) -> bool:
        """Whether the encoder can tell paraphrases from unrelated sentences."""
        return self.separation >= MIN_SEPARATION


def check_encoder(encoder: Encoder) -> EncoderCheck:
    """Embed some texts, about 60, and measure. Raises EncoderError."""
    started = time.perf_counter()
    identity = encoder.identity
    encoder.embed([PASSAGE], TextKind.document)
    first_seconds = time.perf_counter() - started

    left, right = (
        encoder.embed(list(sentences), TextKind.document) for sentences in zip(*PARAPHRASES, strict=True)
    )
    similarity = left @ right.T
    same = np.eye(len(PARAPHRASES), dtype=bool)
    paraphrased, unrelated = similarity[same], similarity[~same]

    started = time.perf_counter()
    # Numbered, so that no endpoint answers from a cache.
    encoder.embed([f"{i}. {PASSAGE}" for i in range(N_PASSAGES)], TextKind.document)
    passage_seconds = time.perf_counter() - started
    query_seconds = []
    for i in range(N_QUERIES):
        started = time.perf_counter()
        encoder.embed([f"how high is spring tide number {i}"], TextKind.query)
        query_seconds.append(time.perf_counter() - started)
    return EncoderCheck(
        identity=identity,
        max_tokens=encoder.max_tokens,
        first_seconds=first_seconds,
        texts_per_second=N_PASSAGES / passage_seconds,
        query_ms=1000 * statistics.median(query_seconds),
        paraphrase_similarity=float(paraphrased.mean()),
        unrelated_similarity=float(unrelated.mean()),
        separation=float((paraphrased[:, None] > unrelated[None, :]).mean()),
    )
