"""The benchmark of the size of a library: its texts and queries, its table, and a run on a tiny library."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.process_tree import processor_seconds
from benchmarks.scale_corpus import QuerySampler, Text, shuffled, texts
from benchmarks.scale_report import draw, table

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "shoal" / "sample_corpus"
WITH_PROCESSES = "start,clients,cli,upload"
"""The lines that start further services and commands, which takes most of the time."""
LONG = pytest.mark.skipif(not os.environ.get("SHOAL_TEST_LONG"), reason="takes minutes: SHOAL_TEST_LONG=1")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora")
    samples = sorted(SAMPLE.glob("*.md"))
    (folder / "books").mkdir()
    for sample in samples[:4]:
        (folder / "books" / sample.name).write_text(sample.read_text(encoding="utf-8"), encoding="utf-8")
    articles = [
        {"_id": str(number), "title": sample.stem, "text": sample.read_text(encoding="utf-8")}
        for number, sample in enumerate(samples[4:8])
    ]
    with gzip.open(folder / "wikipedia-vital-1k.jsonl.gz", "wt", encoding="utf-8") as lines:
        lines.write("\n".join(map(json.dumps, articles)))
    return folder


def sizes(documents: list[Text]) -> int:
    return sum(len(text.content.encode()) for text in documents)


def test_texts_repeat_as_shuffled_copies_until_the_size_is_reached(corpora: Path) -> None:
    first = list(texts(corpora, 1, seed=1))
    assert [text.path.split("/")[0] for text in first] == ["books"]
    once = [text for text in texts(corpora, 100_000, seed=1) if text.path[0] in "ba"]
    n_bytes = 3 * sizes(once)
    thrice = list(texts(corpora, n_bytes, seed=1))
    assert n_bytes <= sizes(thrice) < n_bytes + max(sizes([text]) for text in once) + 1
    assert len({text.path for text in thrice}) == len(thrice)
    assert thrice == list(texts(corpora, n_bytes, seed=1))
    assert thrice != list(texts(corpora, n_bytes, seed=2))
    copy = next(text for text in thrice if text.path == f"1/{once[0].path}")
    assert copy.content != once[0].content


def test_shuffled_texts_keep_headings_and_all_sentences() -> None:
    contents = [
        "# Tides\n\nThe sea rises. The sea falls.\n\n## Why\n\nThe moon pulls.",
        "# Bees\n\nBees fly. Bees sing! Do bees sleep?",
    ]
    mixed = shuffled(contents, random.Random(1))
    assert mixed != contents
    for text, original in zip(mixed, contents, strict=True):
        assert [line for line in text.split("\n") if line.startswith("#")] == [
            line for line in original.split("\n") if line.startswith("#")
        ]
        assert text.count("\n\n") == original.count("\n\n")
    assert Counter(" ".join(mixed).split()) == Counter(" ".join(contents).split())


def test_queries_are_fixed_by_the_seed_and_come_from_the_texts(corpora: Path) -> None:
    documents = list(texts(corpora, 30_000, seed=1))

    def drawn(seed: int) -> QuerySampler:
        sampler = QuerySampler(300, 30_000, seed)
        assert list(sampler.passing(documents)) == documents
        return sampler

    queries = drawn(1).queries()
    assert len(queries) == 300
    assert queries == drawn(1).queries()
    assert queries != drawn(2).queries()
    assert {query.kind for query in queries} == {"words", "title", "phrase", "tag", "metadata"}
    contents = " ".join(text.content for text in documents)
    words = [query for query in queries if query.kind == "words"]
    assert {len(query.text.split()) for query in words} == set(range(1, 9))
    assert all(query.text.split()[0] in contents for query in words)
    assert all('"' in query.text for query in queries if query.kind == "phrase")


def test_folder_without_texts_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has none of books"):
        list(texts(tmp_path, 1_000, seed=1))


def test_processor_time_includes_child_processes() -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    command = [
        sys.executable,
        "-c",
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        assert processor_seconds(parent.pid) >= 0.2
        parent.communicate(b"\n")


def test_table_and_curves_leave_out_what_was_not_measured() -> None:
    latency = {"p50_ms": 8.04, "p95_ms": 15.06, "n": 300, "failed": 0}
    small = {"size": 35_000, "chunks": 34_912, "mb_per_s": 1.9, "hybrid": latency}
    large = {"size": 310_000, "chunks": 311_000, "hybrid": latency | {"failed": 2}}
    assert table([small, large]).splitlines() == [
        "| library of about … chunks | 35,000 | 310,000 |",
        "|---|---:|---:|",
        "| chunks | 34,912 | 311,000 |",
        "| bulk upload, 2 workers, MB/s | 1.90 |  |",
        "| hybrid, p50 / p95 ms | 8.0 / 15.1 | 8.0 / 15.1 (2 of 300 failed) |",
    ]
    picture = draw([small, large])
    assert picture.count("<circle") == 1 + 2 + 2
    assert "not measured" in picture


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("lines", "n_latencies"),
    [
        ("ingest,search,filters,similar,console,memory", 19),
        pytest.param(f"ingest,search,filters,similar,console,memory,{WITH_PROCESSES}", 22, marks=LONG),
    ],
    ids=["short", "long"],
)
def test_run_measures_the_lines_of_a_tiny_library(
    corpora: Path, tmp_path: Path, lines: str, n_latencies: int
) -> None:
    numbers, picture, kept = tmp_path / "numbers.json", tmp_path / "curves.svg", tmp_path / "kept"
    command = [sys.executable, "-m", "benchmarks.scale", str(corpora), "--sizes", "50", "--keep", str(kept)]
    options = ["--lines", lines, "--queries", "5", "--seconds", "0.2", "--runs", "1", "--json", str(numbers)]
    done = subprocess.run(
        [*command, *options, "--svg", str(picture)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    measured = json.loads(numbers.read_text())["sizes"]["50"]
    assert measured["chunks"] > 20
    assert measured["stale_chunks"] == 0
    assert measured["processor_s_per_mb"] > measured["api_processor_s_per_mb"] > 0
    assert measured["size_ratio"] > 1
    assert measured["memory_mb"] > 10
    latencies = [value for value in measured.values() if isinstance(value, dict)]
    assert len(latencies) == n_latencies
    assert all(value["failed"] == 0 and value["p50_ms"] > 0 for value in latencies)
    assert ("hybrid while a bulk job runs" in done.stdout) == ("upload" in lines)
    assert picture.read_text().startswith("<svg")
    again = subprocess.run(
        [*command, "--lines", "", "--json", str(numbers)], cwd=ROOT, capture_output=True, text=True
    )
    assert "ingest" not in again.stderr
    assert json.loads(numbers.read_text())["sizes"]["50"]["chunks"] == measured["chunks"]
