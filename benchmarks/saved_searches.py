"""Time to evaluate saved searches after a job, and what noting new passages costs ingestion.

    python -m benchmarks.saved_searches [--documents 10000] [--searches 1000]

Documents are drawn from the words of the sample articles by a seed; queries are pairs of their words.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from pathlib import Path

from shoal import Engine
from shoal.saved_searches.matching import Matcher
from shoal.settings import Settings

SAMPLES = Path(__file__).resolve().parents[1] / "shoal" / "sample_corpus"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--searches", type=int, default=1_000)
    given = parser.parse_args()
    generator = random.Random(18)
    texts = [
        path.read_text(encoding="utf-8") for path in sorted(SAMPLES.glob("*.*")) if path.suffix != ".json"
    ]
    sentences = [each for text in texts for each in re.findall(r"[A-Z][^.#]{40,300}\.", text)]
    words = sorted({word for sentence in sentences for word in re.findall(r"[a-z]{6,}", sentence)})

    def documents(label: str) -> list[dict[str, str]]:
        return [
            {"content": f"{label} {i}. " + " ".join(generator.sample(sentences, 4)), "title": f"{label} {i}"}
            for i in range(given.documents)
        ]

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=f"sqlite:///{folder}/shoal.db", webhook_hosts="hooks.example.org")
        with Engine(settings=settings) as engine:
            started = time.perf_counter()
            engine.ingest_many(documents("Before"))
            without = time.perf_counter() - started
            for i in range(given.searches):
                query = " ".join(generator.sample(words, 2))
                engine.saved_searches.create(f"S{i}", {"query": query}, url="https://hooks.example.org/")
            started = time.perf_counter()
            engine.ingest_many(documents("After"))
            watched = time.perf_counter() - started
            matcher = Matcher(engine.database, engine._library.searcher)
            started, processor = time.perf_counter(), time.process_time()
            n_batches = 0
            while matcher.match_batch():
                n_batches += 1
            seconds, processor = time.perf_counter() - started, time.process_time() - processor
            counts = engine.saved_searches.counts()
            searched = time.perf_counter()
            for _ in range(50):
                engine.search(" ".join(generator.sample(words, 2)), top_k=50)
            each = (time.perf_counter() - searched) / 50
            print(f"ingestion of {given.documents:,} documents: {without:.1f} s, watched {watched:.1f} s")
            print(
                f"{given.searches:,} searches evaluated in {seconds:.1f} s ({processor:.1f} s of processor), "
                f"{1000 * seconds / given.searches:.1f} ms each in {n_batches} batches, "
                f"{counts['waiting']:,} webhooks; a search takes {1000 * each:.1f} ms"
            )


if __name__ == "__main__":
    main()
