"""What people use today, for comparison: a small neural encoder over every text, nearest vectors found exactly.

usage: python -m benchmarks.dense_rival COLLECTION... [--threads 2] [--max-tokens 256]

The encoder is the one that the build embeds glosses with (all-MiniLM-L6-v2); it needs the extra `build`. A line for
each collection: nDCG@10 of whole documents by the cosine of their embedding and the query's, as the encoder's card
says, texts cut at 256 word pieces; and how quickly it reads texts, in kilobytes a second.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from benchmarks.lagoon_table import ndcg_at_10
from benchmarks.vocabulary_learning import read_corpus
from lagoon.build.encode import run_encoder
from shoal.settings import Settings

DEPTH = 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=256)
    args = parser.parse_args()
    for folder in args.collections:
        collection = read_corpus(folder, Settings()).collection
        if collection is None:
            parser.error(f"{folder} is no retrieval collection")
        started = time.perf_counter()
        texts = run_encoder(collection.texts, threads=args.threads, max_tokens=args.max_tokens)
        seconds = time.perf_counter() - started
        queries = run_encoder(collection.queries, threads=args.threads, max_tokens=args.max_tokens)
        found = [
            ndcg_at_10([collection.ids[i] for i in (-scores).argsort(kind="stable")[:DEPTH]], relevant)
            for scores, relevant in zip(queries @ texts.T, collection.relevant, strict=True)
        ]
        n_bytes = sum(len(text.encode()) for text in collection.texts)
        row = {
            "collection": folder.name,
            "ndcg@10": round(statistics.mean(found), 4),
            "documents": len(collection.texts),
            "seconds": round(seconds, 1),
            "kb_s": round(n_bytes / 1000 / seconds, 1),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
