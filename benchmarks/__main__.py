"""Run all benchmarks that print the numbers of the documentation: `make bench`.

    SHOAL_TEST_CORPORA=FOLDER make bench

FOLDER has `corpora/books`, `corpora/wikipedia` (texts to ingest), `corpora/wikipedia-vital-1k.jsonl.gz` (more
articles, field `text`) and `collections/NAME` (retrieval test collections: corpus.jsonl, queries.jsonl,
qrels/test.tsv), and for the truth of labels `corpora/more-books`. Benchmarks without their input are skipped
with a message. Without the variable, the sample corpus replaces the books, which tests the benchmarks rather
than the product.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "shoal" / "sample_corpus"
DEFAULT_REDIS = "redis://127.0.0.1:6379/14"


def runs(corpora: Path | None, scratch: Path) -> Iterator[tuple[str, list[str] | None]]:
    """Title and command of each benchmark; the command is None if the input is missing."""
    texts = (
        [SAMPLE] if corpora is None else [corpora / "corpora" / "books", corpora / "corpora" / "wikipedia"]
    )
    texts = [folder for folder in texts if folder.is_dir()]
    collections = sorted((corpora / "collections").glob("*/corpus.jsonl")) if corpora else []
    longest = max(
        (path for folder in texts for path in folder.iterdir()), key=lambda path: path.stat().st_size
    )
    articles = corpora / "corpora" / "wikipedia-vital-1k.jsonl.gz" if corpora else None
    database = str(scratch / "bench.db")
    yield "Size and language of the project", _script("language")
    yield "Size of an installation", _module("installation_size")
    yield "Scorer: start, query, whole book", _script("lagoon_speed", longest)
    running = corpora / "corpora" if corpora and (corpora / "corpora" / "wikipedia").is_dir() else None
    yield "z-scores and confidence by length", _script("calibration", running) if running else None
    yield "Decisions about notes", _script("note_decisions")
    yield "Hooks of agents", _module("hooks")
    yield "Notes that hooks show", _module("hook_relevance")
    conversations = corpora / "collections" / "locomo" if corpora else None
    yield (
        "Evidence in long conversations",
        _module("locomo", conversations) if conversations and conversations.is_dir() else None,
    )
    yield "Console pages of many notes", _module("note_pages")
    yield "Suggestions while typing", _module("suggest")
    yield "Searches with typing errors", _module("typing_errors") if collections else None
    yield "Topic boundaries", _script("topic_boundaries", running) if running else None
    yield "Articles and their archipelagos", _script("archipelagos", running) if running else None
    yield "Exactness of chunks", _script("chunk_audit", *texts)
    yield (
        "Ingest in this process",
        [sys.executable, "-m", "shoal.cli", "--db", database, "--json", "ingest-dir", str(texts[0])],
    )
    yield "Cost of learning during ingestion", _script("two_passes", texts[0])
    yield "Maintenance of a library", _script("operation", texts[0])
    yield "Search from a cold start", _script("cold_start", database)
    yield "The retrieval query of the specification in SQL", _script("reef_query")
    yield "Costs and plans of the steps of a search", _script("search_plans", database)
    yield "Statements of searches", _module("search_statements", f"sqlite:///{database}")
    encoders = [folder for name in ("fp32", "int8") if (folder := Path("build/encoders") / name).is_dir()]
    yield "Speed of local encoders", _module("encoder_speed", *encoders) if encoders else None
    yield (
        "Bulk upload until it is embedded",
        _module("embedding", texts[0], "--encoder", f"local:{encoders[-1].resolve()}") if encoders else None,
    )
    yield "Filters on metadata in a large library", _module("metadata_filter")
    yield "Bulk upload, embedded broker, 1 worker", _script("ingest_service", texts[0])
    redis = os.environ.get("SHOAL_TEST_REDIS_URL", DEFAULT_REDIS)
    yield (
        "Bulk upload, Redis, 2 workers",
        _script("ingest_service", texts[0], "--workers", 2, "--broker", redis) if _answers(redis) else None,
    )
    yield "Memory of a document by its size", _script("document_memory", texts[0])
    yield "A gigabyte in one upload", _module("upload_memory")
    yield "Memory of the API after many searches", _module("api_memory", database)
    yield (
        "Calls of the MCP server (needs the extra `mcp`)",
        _module("mcp_calls", database) if find_spec("mcp") else None,
        _module("agent_tokens", database) if find_spec("mcp") else None,
    )
    yield (
        "Files of every format, and damaged files",
        _module("formats", running, "--texts", 2, "--damaged", 300) if running else None,
    )
    yield "Identical documents in one upload and in many", _module("identical_documents")
    yield "Ten thousand notes in one upload, 2 workers", _module("small_notes")
    yield (
        "Speed and isolation of notes",
        _module("notes", corpora / "corpora", "--recalls", 20_000) if corpora and running else None,
    )
    yield (
        "The library is the same from any number of workers",
        _module("workers", texts[0], "--workers", 1, 2, "--wave-mb", 4),
    )
    yield (
        "Ranking by reefs alone",
        _script("lagoon_table", *(path.parent for path in collections)) if collections else None,
    )
    folders = [texts[0], *(path.parent for path in collections)]
    yield "Gain from learned words", _module("vocabulary_learning", *folders)
    yield (
        "Choice of the defaults of hybrid search",
        _module("hybrid", *folders[1:]) if collections else None,
    )
    yield (
        "Texts and pages before and after their conversion (needs pandoc)",
        _module("conversion", texts[0], *([articles] if articles and articles.exists() else []))
        if shutil.which("pandoc")
        else None,
    )
    yield "Recall of names, numbers and codes", _script("exact_terms", *texts)
    yield "Searches over HTTP", _module("search_latency", *(texts[1:] or texts), "--upload", texts[0])
    yield "Verdicts on statements that cite passages", _script("grounding")
    yield (
        "Verdicts on altered and true sentences",
        _script("verification_pairs", running) if running else None,
    )
    yield (
        "Relevance: calibration on collections left out",
        _module("relevance", *folders[1:]) if collections else None,
    )
    yield "Time of explanations", _module("counterfactuals", database)
    yield (
        "Faithfulness of explanations",
        _module(
            "faithfulness",
            scratch / "faithfulness",
            *folders[1:],
            *(["--encoder", encoders[-1]] if encoders else []),
        )
        if collections
        else None,
    )
    yield "Similarity of short texts, by labelled pairs", _module("similarity")
    more = corpora / "corpora" / "more-books" if corpora else None
    if corpora and more is not None and more.is_dir():
        yield "Truth of labels, by judgements", _module("label_truth", corpora / "corpora")
        yield (
            "Truth of reasons, by judgements",
            _module("reason_truth", corpora / "corpora", corpora / "collections"),
        )
        yield (
            "Cost of a library of 35,000 chunks",
            _module("scale", corpora / "corpora", "--sizes", 35_000),
        )
    else:
        yield "Truth of labels and reasons, by judgements", None
        yield "Cost of a library of 35,000 chunks", None
    yield (
        "Truth of learned words",
        _module("masked_words", *texts, running / "wikipedia-vital-1k.jsonl.gz") if running else None,
    )
    yield (
        "Query expansion by the contexts of each word",
        _module("query_feedback", *folders[1:]) if collections else None,
    )
    yield (
        "A neural encoder on the same collections (needs the extra `build`)",
        _module("dense_rival", *folders[1:]) if collections and find_spec("torch") else None,
    )


def _script(name: str, *arguments: object) -> list[str]:
    return [sys.executable, str(HERE / f"{name}.py"), *map(str, arguments)]


def _module(name: str, *arguments: object) -> list[str]:
    """Command of a benchmark that imports another benchmark."""
    return [sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments)]


def _answers(url: str) -> bool:
    import redis

    try:
        return bool(redis.Redis.from_url(url, socket_connect_timeout=1).ping())
    except redis.RedisError:
        return False


def main() -> int:
    corpora = os.environ.get("SHOAL_TEST_CORPORA")
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        for title, command in runs(Path(corpora).resolve() if corpora else None, Path(scratch)):
            print(f"\n== {title}", flush=True)
            if command is None:
                print("skipped: its input is missing")
            elif subprocess.run(command, check=False).returncode:
                failed.append(title)
    if failed:
        print("\nfailed or outside their limits: " + "; ".join(failed))
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
