"""Comparison with dense retrieval: a small neural encoder embeds every text; the nearest vectors are found
exactly.

usage: python -m benchmarks.dense_rival [COLLECTION...] [--texts FILE...] [--threads 2] [--max-tokens 256]

The encoder is that of the build (all-MiniLM-L6-v2); it needs the extra `build`. Whole documents are embedded
and ranked by their cosine to the query, as the encoder's card says, with texts truncated at 256 word pieces.
Prints a line for each collection:

    ndcg@10     of words alone (BM25), of vectors alone, of both fused by reciprocal ranks and by normalized
                scores with equal weights (scores over the largest score), of Shoal's hybrid search, of Shoal
                fused with vectors by normalized scores, and of Shoal and of words with their first 20
                passages reranked by the encoder
    kb_s        kilobytes of text a second: embedded by the encoder, truncated text included; learned, indexed
                and stored by Shoal
    query_ms    median time of embedding one query, without the search for its neighbours
    mb          of the vectors as 32-bit floats; of Shoal's whole database, including texts and word index

Then a line for the texts with only kb_s and mb: Shoal ingests them and the encoder embeds the passages that
    Shoal cut.
Without arguments, the collections under $SHOAL_TEST_CORPORA are used.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.hybrid import FeedbackOptions, by_ranks, collection_folders, default_blend, feedback_profiles
from benchmarks.judged_library import Doubles, JudgedLibrary, of_best
from lagoon.build.word_vectors import Encoder
from shoal import Engine

QUERIES_TIMED = 50
N_RERANKED = 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", nargs="*", type=Path)
    parser.add_argument("--texts", nargs="*", type=Path, default=[])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=256)
    options = parser.parse_args()
    folders = collection_folders(options.collections) if options.collections or not options.texts else []
    if not folders and not options.texts:
        parser.error("give collection folders, or set SHOAL_TEST_CORPORA")
    encoder = Encoder(threads=options.threads)
    for folder in folders:
        with tempfile.TemporaryDirectory() as scratch:
            print(
                json.dumps(measure_collection(folder, Path(scratch), encoder, options.max_tokens)), flush=True
            )
    if options.texts:
        with tempfile.TemporaryDirectory() as scratch:
            print(
                json.dumps(measure_texts(options.texts, Path(scratch), encoder, options.max_tokens)),
                flush=True,
            )


def measure_collection(folder: Path, scratch: Path, encoder: Encoder, max_tokens: int) -> dict[str, object]:
    """Measure a collection."""
    database = scratch / "shoal.db"
    library = JudgedLibrary(folder, database, learning=True)
    texts = texts_of(library)
    started = time.perf_counter()
    vectors = encoder.embed(texts, max_tokens=max_tokens)
    n_bytes = database.stat().st_size + library.engine.status().index_bytes
    encoder_s = time.perf_counter() - started
    queries = encoder.embed(library.texts, max_tokens=max_tokens)
    cosines: Doubles = (queries @ vectors.T).astype(np.float64)[:, library.document]
    kilobytes = sum(len(text.encode()) for text in texts) / 1000
    row = {
        "collection": folder.name,
        "documents": len(texts),
        "ndcg@10": {name: round(library.ndcg(scores), 4) for name, scores in rankings(library, cosines)},
        "kb_s": {"encoder": round(kilobytes / encoder_s, 1), "shoal": round(kilobytes / library.ingest_s, 1)},
        "query_ms": round(query_ms(library.texts, encoder), 1),
        "mb": {"vectors": round(vectors.nbytes / 1e6, 1), "shoal": round(n_bytes / 1e6, 1)},
    }
    library.engine.close()
    return row


def measure_texts(
    files: Sequence[Path], scratch: Path, encoder: Encoder, max_tokens: int
) -> dict[str, object]:
    """Measure files of running text, such as books."""
    database = scratch / "shoal.db"
    started = time.perf_counter()
    with Engine(db_path=database) as engine:
        engine.ingest_many(
            {"title": path.stem, "content": path.read_text(encoding="utf-8"), "format": "markdown"}
            for path in files
        )
        shoal_s = time.perf_counter() - started
        with engine.database.snapshot() as snapshot:
            passages = [text for (text,) in snapshot.tuples("SELECT text FROM chunks ORDER BY id")]
        n_bytes = database.stat().st_size + engine.status().index_bytes
    started = time.perf_counter()
    vectors = encoder.embed(passages, max_tokens=max_tokens)
    encoder_s = time.perf_counter() - started
    kilobytes = sum(path.stat().st_size for path in files) / 1000
    return {
        "files": len(files),
        "kilobytes": round(kilobytes),
        "passages": len(passages),
        "kb_s": {"encoder": round(kilobytes / encoder_s, 1), "shoal": round(kilobytes / shoal_s, 1)},
        "mb": {"vectors": round(vectors.nbytes / 1e6, 1), "shoal": round(n_bytes / 1e6, 1)},
    }


def texts_of(library: JudgedLibrary) -> list[str]:
    """Title and text of each document, in the order of `library.starts`."""
    with library.engine.database.snapshot() as snapshot:
        rows = snapshot.tuples(
            "SELECT title, content FROM documents JOIN document_texts ON document_id = id ORDER BY id"
        )
        return [f"{title}\n\n{content}" for title, content in rows]


def rankings(library: JudgedLibrary, cosines: Doubles) -> list[tuple[str, Doubles]]:
    """Scores (q, c) by name; a document has the rank of its best chunk."""
    lexical = library.lexical()
    nearest = of_best(np.maximum(cosines, 0.0))
    first = np.zeros_like(cosines)
    first[:, library.starts] = cosines[:, library.starts]
    # Reciprocal ranks count ranks, so a document's vector must count once and not for each of its chunks.
    reefs = of_best(library.overlap(feedback_profiles(library, FeedbackOptions())))
    shoal = default_blend(library, of_best(lexical), reefs)
    return [
        ("words", lexical),
        ("vectors", nearest),
        ("words and vectors, ranks", by_ranks(_of_documents(library, lexical)) + by_ranks(first)),
        ("words and vectors, parts", of_best(lexical) + nearest),
        ("shoal", shoal),
        ("shoal and vectors", of_best(shoal) + nearest),
        ("shoal, first 20 reranked", rerank(shoal, nearest)),
        ("words, first 20 reranked", rerank(lexical, nearest)),
    ]


def rerank(scores: Doubles, nearest: Doubles) -> Doubles:
    """(q, c): the best scores of each row reranked by the sum of both scores, above all others."""
    last = -np.partition(-scores, N_RERANKED - 1, axis=1)[:, N_RERANKED - 1 : N_RERANKED]
    read = (scores > 0) & (scores >= last)
    return of_best(scores) + np.where(read, 1.0 + nearest, 0.0)


def _of_documents(library: JudgedLibrary, scores: Doubles) -> Doubles:
    """(q, c): the best score of a document's chunks at its first chunk, 0 elsewhere."""
    best = np.zeros_like(scores)
    best[:, library.starts] = np.maximum.reduceat(scores, library.starts, axis=1)
    return best


def query_ms(texts: Sequence[str], encoder: Encoder) -> float:
    """Median time of embedding one text, milliseconds."""
    seconds = []
    for text in texts[:QUERIES_TIMED]:
        started = time.perf_counter()
        encoder.embed([text])
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1000


if __name__ == "__main__":
    main()
