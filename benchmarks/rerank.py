"""Reranking: quality and time of a search by the number of passages that an encoder reads again.

usage: python -m benchmarks.rerank COLLECTION... --encoder FOLDER... [--passages 5 10 20 50] [--queries N]
           [--max-tokens 256] [--threads 2] [--weights 0.33 0.5 0.67] [--http 40] [--embed]

FOLDER is an encoder as `SHOAL_ENCODER=local:FOLDER` takes it, such as one in fp32 and one in int8. Prints for
each encoder and number of passages:

    ndcg@10    of documents, by the best of their passages as a search returns them: of each collection, and
               the mean; `blend` is the same search without reranking
    cpu_ms     median processor time of the encoder for the passages of a query, milliseconds; on a machine
               that does nothing else, divide it by the threads
    stored     the same with the vectors that a library stores, in 4 bits a number
    weights    with --weights: the mean for each weight of the similarity, in place of the weight in use; and
               the leave-one-out mean, where each collection takes the weight that is best for the others
    http_ms    with --http: p50 and p95 of that many searches over HTTP, each with another query, so that a
               passage is in the cache only if an earlier query had it; and of the same searches again. The
               service runs in a process of its own; `blend_ms` is the same without reranking
    stored_ms  with --http and --embed: the same searches in a library with vectors, so that only the query
               is embedded

Times depend on what else the machine does, so compare those of one run only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np

from benchmarks.hybrid import collection_folders
from benchmarks.judged_library import Doubles, JudgedLibrary
from shoal.encoders.encoder import Encoder, TextKind, open_encoder
from shoal.engine import Engine
from shoal.index.vectors import quantised
from shoal.models.search import SearchResult
from shoal.search.reranking import SIMILARITY_WEIGHT, CosineComparison, Deadline, StoredVectors, text_of
from shoal.settings import Settings

DEPTH = 50
"""Results without reranking; enough for ten documents."""
QUERIES_TIMED = 8
"""Of each collection, for the processor time of the encoder."""
START_SECONDS = 60.0
PERCENT_95 = 95


class Judged(NamedTuple):
    """A collection with the results and the similarities of each query's first results."""

    library: JudgedLibrary
    results: list[Sequence[SearchResult]]
    similarities: list[list[float]]
    with_stored: list[list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", nargs="*", type=Path)
    parser.add_argument("--encoder", nargs="+", type=Path, required=True)
    parser.add_argument("--passages", nargs="+", type=int, default=[5, 10, 20, 50])
    parser.add_argument("--queries", type=int, default=1_000_000, help="of each collection")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--weights", nargs="*", type=float, default=[])
    parser.add_argument("--http", type=int, default=0)
    parser.add_argument("--embed", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        libraries = [
            JudgedLibrary(folder, Path(scratch) / f"{folder.name}.db", learning=True)
            for folder in collection_folders(options.collections)
        ]
        for folder in options.encoder:
            given = {
                "encoder": f"local:{folder.absolute()}",
                "encoder_max_tokens": options.max_tokens,
                "encoder_threads": options.threads,
                "rerank_seconds": 60.0,
                "search_timeout": 0.0,
            }
            encoder = open_encoder(Settings.from_environment(**given))
            assert encoder is not None, "a folder was given"
            if options.queries:
                for row in measure_quality(libraries, encoder, options):
                    print(json.dumps({"encoder": folder.name, **row}), flush=True)
            for library in libraries if options.http else ():
                for row in measure_http(library, encoder, given, options):
                    print(json.dumps({"encoder": folder.name, **row}), flush=True)


def measure_quality(
    libraries: Sequence[JudgedLibrary], encoder: Encoder, options: argparse.Namespace
) -> Iterator[dict[str, object]]:
    """Measure nDCG@10 for each number of passages; 0 is the blend."""
    judged = [read(library, encoder, max(options.passages), options.queries) for library in libraries]
    for n in (0, *options.passages):
        yield {
            "passages": n,
            "ndcg@10": _row(judged, n),
            "stored": _row([each._replace(similarities=each.with_stored) for each in judged], n),
            "cpu_ms": round(statistics.median(cpu_ms(judged, encoder, n)), 1),
        }
        # Leaving a collection out needs another one.
        if n and options.weights and len(judged) > 1:
            by_weight = np.array([[_ndcg(each, n, weight) for each in judged] for weight in options.weights])
            others = [np.delete(by_weight, one, axis=1) for one in range(len(judged))]
            best = [int(each.mean(axis=1).argmax()) for each in others]
            left_out = [by_weight[weight, one] for one, weight in enumerate(best)]
            yield {
                "passages": n,
                "weights": dict(zip(options.weights, by_weight.mean(axis=1).round(4), strict=True)),
                "leave_one_out": round(float(np.mean(left_out)), 4),
                "chosen": [options.weights[weight] for weight in best],
            }


def read(library: JudgedLibrary, encoder: Encoder, n: int, n_queries: int) -> Judged:
    """Search for each query and compare its first `n` results with it."""
    comparison, deadline = CosineComparison(encoder), Deadline(1e9)
    queries = library.texts[:n_queries]
    found = [library.engine.search(query, top_k=max(n, DEPTH)).results for query in queries]
    similarities, with_stored = [], []
    for query, results in zip(queries, found, strict=True):
        texts = [text_of(result) for result in results[:n]]
        similarities.append((comparison.similarities(query, texts, deadline) or []) if texts else [])
        stored = StoredVectors(encoder.identity, _stored(comparison, texts))
        with_stored.append((comparison.similarities(query, texts, deadline, stored) or []) if texts else [])
    return Judged(library, found, similarities, with_stored)


def _stored(comparison: CosineComparison, texts: Sequence[str]) -> dict[str, bytes]:
    """The vectors of texts as a library stores them."""
    rows = comparison.vectors(texts, TextKind.document, Deadline(1e9)) or []
    return dict(zip(texts, quantised(np.stack(rows)), strict=True)) if rows else {}


def cpu_ms(judged: Sequence[Judged], encoder: Encoder, n: int) -> list[float]:
    """Milliseconds of the processor for the first `n` passages of some queries of each collection."""
    times = []
    for each in judged:
        for results in each.results[:QUERIES_TIMED]:
            texts = [text_of(result) for result in results[:n]]
            started = time.process_time()
            if texts:
                encoder.embed(texts, TextKind.document)
            times.append((time.process_time() - started) * 1000)
    return times


def _row(judged: Sequence[Judged], n: int) -> dict[str, float]:
    values = {each.library.name: _ndcg(each, n, SIMILARITY_WEIGHT) for each in judged}
    return {name: round(value, 4) for name, value in (*values.items(), ("mean", np.mean([*values.values()])))}


def _ndcg(judged: Judged, n: int, weight: float) -> float:
    """nDCG@10 with the first `n` results ordered by both scores, `weight` being that of the similarity."""
    width = max((len(results) for results in judged.results), default=1)
    shape = (len(judged.results), width)
    scores: Doubles = np.zeros(shape)
    chunks = np.full(shape, -1)
    for row, (results, similarities) in enumerate(zip(judged.results, judged.similarities, strict=True)):
        if not results:
            continue
        ids = np.array([result.chunk_id for result in results])
        chunks[row, : len(ids)] = np.searchsorted(judged.library.chunk_ids, ids)
        # Below the reranked results, the order of the blend.
        keys = 1.0 / (2.0 + np.arange(len(ids)))
        blend = np.array([result.match_score for result in results[:n]])
        nearest = np.array(similarities[:n])
        if n:
            both = (1 - weight) * blend / (blend.max() or 1.0) + weight * nearest / (nearest.max() or 1.0)
            order = np.lexsort((np.arange(len(both)), -both))
            keys[: len(both)][order] = 2.0 - np.arange(len(both)) / len(both)
        scores[row, : len(ids)] = keys
    return float(np.mean(judged.library.ndcgs(scores, chunks)))


def measure_http(
    library: JudgedLibrary, encoder: Encoder, given: Mapping[str, object], options: argparse.Namespace
) -> Iterator[dict[str, object]]:
    """Time searches over HTTP, first with passages that were not read before, then again."""
    queries = library.texts[: options.http]
    for n in options.passages:
        # A new service for each number: its cache is empty.
        with service(library, given) as client:
            search_all(client, queries, 0)
            blend = search_all(client, queries, 0)
            client.get("/api/v1/search", params={"q": "warm", "rerank": 1}).raise_for_status()
            first, again = (search_all(client, queries, n) for _ in range(2))
        yield {
            "collection": library.name,
            "passages": n,
            "blend_ms": _percentiles(blend),
            "http_ms": _percentiles(first),
            "again_ms": _percentiles(again),
        }
    if not options.embed:
        return
    with Engine(settings=library.engine.settings, encoder=encoder) as engine:
        engine.maintenance.embed()
    for n in options.passages:
        with service(library, given) as client:
            search_all(client, queries, 0)
            client.get("/api/v1/search", params={"q": "warm", "rerank": 1}).raise_for_status()
            blend, stored = search_all(client, queries, 0), search_all(client, queries, n)
        yield {
            "collection": library.name,
            "passages": n,
            "blend_ms": _percentiles(blend),
            "stored_ms": _percentiles(stored),
        }


@contextmanager
def service(library: JudgedLibrary, given: Mapping[str, object]) -> Iterator[httpx.Client]:
    """The API of a library, in a process of its own, with the encoder of the settings."""
    environment = {
        **os.environ,
        "SHOAL_DATABASE_URL": library.engine.settings.database_url,
        **{f"SHOAL_{name.upper()}": str(value) for name, value in given.items()},
    }
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "shoal.cli", "--json", "up", "--port", "0"]
        environment["SHOAL_DATA_DIR"] = folder
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert process.stdout is not None
            printed = ""
            for line in process.stdout:
                printed += line
                if line.rstrip() == "}":
                    break
            address = json.loads(printed)["url"]
            with httpx.Client(base_url=address, timeout=120) as client:
                deadline = time.monotonic() + START_SECONDS
                while client.get("/ready").status_code != httpx.codes.OK and time.monotonic() < deadline:
                    time.sleep(0.2)
                yield client
        finally:
            process.terminate()
            process.wait()


def search_all(client: httpx.Client, queries: Sequence[str], n: int) -> list[float]:
    """Milliseconds of each search; fails if one was not reranked."""
    times = []
    for query in queries:
        started = time.perf_counter()
        response = client.post("/api/v1/search", json={"query": query, "rerank": n})
        times.append((time.perf_counter() - started) * 1000)
        body = response.raise_for_status().json()
        assert not n or not body["results"] or body["rerank"]["fallback"] is None, body["warnings"]
    return times


def _percentiles(times: Sequence[float]) -> dict[str, float]:
    return {
        "p50": round(statistics.median(times), 1),
        "p95": round(float(np.percentile(times, PERCENT_95)), 1),
    }


if __name__ == "__main__":
    main()
