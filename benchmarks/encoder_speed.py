"""How fast a local encoder is, and how near quantised vectors are to exact ones.

usage: python -m benchmarks.encoder_speed FOLDER [FOLDER...] [--seconds 3] [--rounds 3]

Each folder has a model (`shoal encoder convert`); the first is the standard for the others. The texts are
pieces of the sample articles. Models take turns in each round, and the best round counts, because other
programs may run at the same time. Prints a line for each folder, number of threads and length of texts:

    folder       name of the model's folder
    threads      threads that share the runs of a call
    tokens       tokens of each text
    alone_s      texts a second in calls of 16, each in a run of its own, as Shoal runs them on a CPU
    batch_8_s    the same in runs of eight
    query_ms     time of a query of ten tokens

Then a line for each folder but the first with the mean and the smallest cosine of its vectors to those of the
first.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from shoal.encoders.encoder import TextKind
from shoal.encoders.local_model import LocalEncoder, _LocalModel
from shoal.settings import Settings

SAMPLES = Path(__file__).resolve().parents[1] / "shoal" / "sample_corpus"
THREADS, TOKENS = (1, 2), (64, 256)
BATCH = 8
TEXTS_IN_CALL = 16
N_COMPARED = 64
QUERY = "how does the moon raise the tides"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(SAMPLES.glob("*.md")))
    encoders = {
        (folder, threads, tokens): LocalEncoder(
            folder, Settings(encoder_threads=threads, encoder_max_tokens=tokens)
        )
        for folder in options.folders
        for threads in THREADS
        for tokens in TOKENS
    }
    best: dict[tuple[Path, int, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for _ in range(options.rounds):
        for key, encoder in encoders.items():
            texts = pieces(text, key[2])
            documents = functools.partial(encoder.embed, kind=TextKind.document)
            queries = functools.partial(encoder.embed, kind=TextKind.query)
            for name, work in (
                ("alone_s", (documents, texts, TEXTS_IN_CALL, 1)),
                (f"batch_{BATCH}_s", (documents, texts, TEXTS_IN_CALL, BATCH)),
                ("queries", (queries, [QUERY], 1, 1)),
            ):
                best[key][name] = max(best[key][name], per_second(*work, options.seconds))
    for (folder, threads, tokens), numbers in best.items():
        query_ms = 1000 / numbers.pop("queries")
        line = {"folder": folder.name, "threads": threads, "tokens": tokens, **numbers, "query_ms": query_ms}
        print(
            json.dumps({k: round(v, 1) if isinstance(v, float) else v for k, v in line.items()}), flush=True
        )
    sample = pieces(text, TOKENS[-1])[:N_COMPARED]
    vectors = [
        encoders[folder, THREADS[-1], TOKENS[-1]].embed(sample, TextKind.document)
        for folder in options.folders
    ]
    for folder, others in zip(options.folders[1:], vectors[1:], strict=True):
        cosines = (vectors[0] * others).sum(axis=1)
        print(
            json.dumps(
                {
                    "folder": folder.name,
                    "cosine": round(float(cosines.mean()), 4),
                    "smallest": round(float(cosines.min()), 4),
                }
            )
        )


def pieces(text: str, tokens: int) -> list[str]:
    """Return pieces of a text with at least so many tokens, which are cut to exactly them."""
    size = 8 * tokens
    return [text[first : first + size] for first in range(0, len(text) - size, size)][:256]


def per_second(
    embed: Callable[[list[str]], np.ndarray], texts: list[str], n_in_call: int, n_in_run: int, seconds: float
) -> float:
    """Return texts embedded a second, by their number in a call and in each run of it."""
    real = _LocalModel._texts_in_run
    _LocalModel._texts_in_run = lambda self, n_tokens: n_in_run  # type: ignore[method-assign]
    try:
        embed(texts[:n_in_call])
        started, n_texts = time.perf_counter(), 0
        while (passed := time.perf_counter() - started) < seconds:
            first = n_texts % (len(texts) - n_in_call + 1)
            n_texts += len(embed(texts[first : first + n_in_call]))
        return n_texts / passed
    finally:
        _LocalModel._texts_in_run = real  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
