"""The acceptance table of a retrieval pipeline: converted documents, recordings, queries of four kinds.

usage: python benchmarks/acceptance.py ARTICLES.jsonl.gz [--seed 1] [--documents 180] [--recordings 20]

ARTICLES has one article per line with `title` and `text`. Writes articles as files of nine kinds (pandoc
writes some), and recordings as subtitles and transcripts with frames. Stores all, searches, and prints each
line of the table: met, not met, or not applicable, with the measured value. Exits 1 if a file was not stored.

Queries, 30 of each kind. Metadata: the title of a document, with a filter on the kind of its file. Content:
the first sentence of an article, which is not stored, without the words of its title. Exact: a code that was
put into one paragraph. Temporal: eight words in a row that are said in one minute of a recording.
"""

from __future__ import annotations

import argparse
import csv
import email.message
import gzip
import html
import itertools
import json
import math
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lagoon.tokens import STOP_WORDS
from shoal import Engine
from shoal.cli.session import json_form
from shoal.client.requests import decode
from shoal.conversion.converted import draft_of_file
from shoal.models.files import LocatorKind, timecode
from shoal.models.recordings import Modality
from shoal.models.search import SearchResponse, SearchResult
from shoal.search.library_index import IndexCache

QUERIES_PER_KIND = 30
ARTICLE_CHARS = 8000
MINUTES = 15
SECONDS_PER_LINE = 12
FRAME_MINUTES = 3
BAND_CHARS = (1200, 3200)
"""300 to 800 tokens of four characters."""
PANDOC_KINDS = ("docx", "epub", "odt", "rtf", "rst")
KINDS = (*PANDOC_KINDS, "html", "ipynb", "eml", "csv")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
WORD = re.compile(r"[A-Za-z]{3,}")


class Article(NamedTuple):
    title: str
    first: str
    paragraphs: list[str]


class Query(NamedTuple):
    """A query, and whether a result answers it."""

    kind: str
    text: str
    is_answer: Callable[[SearchResult], bool]
    filters: dict[str, Any] | None = None


class Line(NamedTuple):
    """A line of the table. `is_met` is None if it does not apply."""

    part: str
    metric: str
    target: str
    measured: str
    is_met: bool | None


@dataclass(slots=True)
class Corpus:
    files: list[Path] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)
    n_windows: int = 0
    n_frames: int = 0


def read_articles(path: Path) -> Iterator[Article]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            fields = json.loads(line)
            text = " ".join(fields["text"].split())[:ARTICLE_CHARS]
            sentences = SENTENCE_END.split(text)[:-1]
            if len(sentences) < 20 or len(WORD.findall(sentences[0])) < 8:
                continue
            paragraphs = [" ".join(sentences[at : at + 5]) for at in range(1, len(sentences), 5)]
            yield Article(fields["title"], sentences[0], paragraphs)


def write_article(article: Article, kind: str, path: Path) -> None:
    half = len(article.paragraphs) // 2
    parts = {"Overview": article.paragraphs[:half], "Details": article.paragraphs[half:]}
    if kind in PANDOC_KINDS:
        escaped = {
            name: [re.sub(r"([\\`*_{}\[\]<>#|~^$@])", r"\\\1", p) for p in ps] for name, ps in parts.items()
        }
        body = "\n\n".join(f"## {name}\n\n" + "\n\n".join(paragraphs) for name, paragraphs in escaped.items())
        subprocess.run(
            ["pandoc", "-f", "markdown", "-s", "-M", f"title={article.title}", "-o", str(path)],
            input=f"# {article.title}\n\n{body}\n".encode(),
            check=True,
            capture_output=True,
        )
    elif kind == "html":
        body = "".join(
            f"<h2>{name}</h2>" + "".join(f"<p>{html.escape(paragraph)}</p>" for paragraph in paragraphs)
            for name, paragraphs in parts.items()
        )
        title = html.escape(article.title)
        path.write_text(
            f"<!doctype html><html><head><title>{title}</title></head><body><nav><a href='/'>Home</a></nav>"
            f"<main><h1>{title}</h1>{body}</main><footer>Imprint</footer></body></html>",
            "utf-8",
        )
    elif kind == "ipynb":
        cells = [
            {"cell_type": "markdown", "metadata": {}, "source": f"## {name}\n\n" + "\n\n".join(paragraphs)}
            for name, paragraphs in parts.items()
        ]
        head = {"cell_type": "markdown", "metadata": {}, "source": f"# {article.title}"}
        notebook = {"cells": [head, *cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        path.write_text(json.dumps(notebook), "utf-8")
    elif kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["subject", "part", "text"])
            rows.writerows([article.title, name, text] for name, texts in parts.items() for text in texts)
    else:
        message = email.message.EmailMessage()
        message["Subject"], message["From"], message["To"] = article.title, "a@example.org", "b@example.org"
        message.set_content("\n\n".join(itertools.chain(*parts.values())))
        path.write_bytes(bytes(message))


def make_corpus(articles: list[Article], folder: Path, options: argparse.Namespace) -> Corpus:
    """Write the files, and label the queries. Nothing but the seed and the articles decides what they are."""
    draw = random.Random(options.seed)
    draw.shuffle(articles)
    written, spoken = articles[: options.documents], articles[options.documents :]
    corpus = Corpus()
    by_kind: dict[str, list[Query]] = {"metadata": [], "content": [], "exact": []}
    for number, article in enumerate(written):
        kind = KINDS[number % len(KINDS)]
        path = folder / f"article-{number:03}.{kind}"
        if number < QUERIES_PER_KIND:
            code = f"{draw.choice('BCDFGHKLMNPQRSTVWXZ')}{draw.choice('QXZ')}{draw.randrange(10_000, 99_999)}"
            at = draw.randrange(len(article.paragraphs))
            article.paragraphs[at] += f" The catalogue lists it as {code}."
            by_kind["exact"].append(Query("exact", code, lambda result, code=code: code in result.text))  # type: ignore[misc]
        if number < 2 * QUERIES_PER_KIND:
            source = str(path)
            is_answer = lambda result, source=source: result.source_path == source  # noqa: E731
            if number % 2:
                own = {word.lower() for word in WORD.findall(article.title)}
                words = [word for word in WORD.findall(article.first) if word.lower() not in own]
                by_kind["content"].append(Query("content", " ".join(words), is_answer))
            else:
                by_kind["metadata"].append(
                    Query("metadata", article.title, is_answer, {"metadata": {"file_kind": kind}})
                )
        write_article(article, kind, path)
        corpus.files.append(path)
        corpus.kinds[str(path)] = kind
    corpus.queries += [*itertools.chain(*by_kind.values())]
    corpus.queries += make_recordings(spoken, folder, options.recordings, draw, corpus)
    return corpus


def make_recordings(
    spoken: list[Article], folder: Path, n: int, draw: random.Random, corpus: Corpus
) -> Iterator[Query]:
    """Write recordings that speak of another article each minute; every third minute has a frame."""
    subjects = itertools.cycle(spoken)
    candidates: list[Query] = []
    for number in range(n):
        style = ("vtt", "start", "range")[number % 3]
        path = folder / f"recording-{number:03}.{'vtt' if style == 'vtt' else 'txt'}"
        lines, frames = (["WEBVTT", ""] if style == "vtt" else []), list[str]()
        for minute in range(MINUTES):
            article = next(subjects)
            sentences = SENTENCE_END.split(" ".join(article.paragraphs))[: 60 // SECONDS_PER_LINE]
            for place, sentence in enumerate(sentences):
                start = 60 * minute + SECONDS_PER_LINE * place
                end = start + SECONDS_PER_LINE
                if style == "vtt":
                    lines += [f"{timecode(start)}.000 --> {timecode(end)}.000", sentence, ""]
                elif style == "range":
                    lines.append(f"[{timecode(start)} - {timecode(end)}] {sentence}")
                else:
                    lines.append(f"[{timecode(start)}] {sentence}")
            if style != "vtt" and minute % FRAME_MINUTES == 1:
                at = 60 * minute + 20
                frames += [
                    "",
                    f"# Visual Frame at {timecode(at)}",
                    "",
                    f"A slide with the title {article.title}.",
                ]
            words = WORD.findall(draw.choice(sentences))
            if len(words) >= 8:
                at = draw.randrange(len(words) - 7)
                text = " ".join(words[at : at + 8])
                if sum(word.lower() not in STOP_WORDS for word in words[at : at + 8]) >= 4:
                    candidates.append(Query("temporal", text, _is_minute(str(path), minute)))
        path.write_text("\n".join(lines + frames), "utf-8")
        corpus.files.append(path)
        corpus.kinds[str(path)] = style
        corpus.n_windows += MINUTES
        corpus.n_frames += sum(line.startswith("#") for line in frames)
    yield from draw.sample(candidates, QUERIES_PER_KIND)


def _is_minute(source: str, minute: int) -> Callable[[SearchResult], bool]:
    def is_answer(result: SearchResult) -> bool:
        place = result.place
        return (
            result.source_path == source
            and place is not None
            and place.kind is LocatorKind.time
            and place.first < 60 * (minute + 1)
            and place.last > 60 * minute
        )

    return is_answer


def build(engine: Engine, corpus: Corpus) -> tuple[float, list[Any]]:
    """Store all files. Returns the seconds it took and the result of each file."""
    started = time.perf_counter()
    with engine.ingest_session() as session:
        for path in corpus.files:
            metadata = {"file_kind": corpus.kinds[str(path)]}
            session.add_draft(draft_of_file(path, settings=engine.settings, metadata=metadata))
        results = session.finish()
    return time.perf_counter() - started, list(results)


CHUNKS = """
    SELECT d.source_path, c.id, c.start_char, c.end_char, c.locator
    FROM chunks c JOIN documents d ON d.id = c.document_id ORDER BY c.id
"""
UNSCORED = "SELECT COUNT(*) FROM chunks WHERE profile IS NULL"


def chunks_of(engine: Engine) -> list[Any]:
    with engine.database.snapshot() as snapshot:
        return [tuple(row) for row in snapshot.tuples(CHUNKS)]


def first_rank(query: Query, results: Sequence[SearchResult]) -> int | None:
    return next((rank for rank, result in enumerate(results, 1) if query.is_answer(result)), None)


def ranks(engine: Engine, queries: Iterable[Query], **options: Any) -> list[int | None]:
    return [
        first_rank(query, engine.search(query.text, filters=query.filters, **options).results)
        for query in queries
    ]


def recall(found: Sequence[int | None], depth: int) -> float:
    return statistics.fmean(rank is not None and rank <= depth for rank in found)


def ndcg(found: Sequence[int | None]) -> float:
    """Of queries with one relevant document each, which is counted at its first passage."""
    return statistics.fmean(1 / math.log2(rank + 1) if rank and rank <= 10 else 0.0 for rank in found)


def lines_of(engine: Engine, corpus: Corpus, folder: Path) -> Iterator[Line]:
    seconds, results = build(engine, corpus)
    failed = [
        (path.name, result.error) for path, result in zip(corpus.files, results, strict=True) if result.error
    ]
    for name, error in failed:
        print(f"not stored: {name}: {error}", file=sys.stderr)
    stored = [result for result in results if result.id is not None]
    n_covered = sum(result.n_chunks > 0 for result in stored)
    yield line(
        "11.1",
        "Chunk coverage",
        "100 % of files",
        f"{n_covered} of {len(results)}",
        n_covered == len(results),
    )
    chunks = chunks_of(engine)
    yield from chunk_lines(engine, corpus, chunks, folder)
    yield n_a("11.1", "Path safety", "0 reads outside", "tests/hostile and the tests of sync hold it")

    with engine.database.snapshot() as snapshot:
        n_unscored = snapshot.value(UNSCORED)
    profiles = f"no vectors; {n_unscored} of {len(chunks)} passages without a profile"
    yield line("11.2", "Vector coverage", "100 % of chunks", profiles, n_unscored == 0)
    yield n_a("11.2", "Dimensionality, normalization", "768, norm 1", "profiles of reefs are not vectors")
    again, repeated = build(engine, corpus)
    n_new = sum(result.id is not None and result.duplicate is None for result in repeated)
    yield line("11.2", "Incremental idempotency", "0 new", f"{n_new} new", n_new == 0)
    yield from failure_lines(engine, folder)
    yield from search_lines(engine, corpus, chunks)
    yield n_a(
        "11.7", "Command coverage", "build, update, stats", "tests/shoal/cli runs ingest-dir, sync and status"
    )
    share = again / seconds
    measured = f"{share:.1%}: {again:.2f} s after {seconds:.1f} s"
    yield line("11.7", "Update efficiency", "<= 5 % of the build", measured, share <= 0.05)
    status = engine.status()
    counts = f"{status.n_chunks} of {len(chunks)} chunks, {status.n_documents} documents"
    yield line("11.7", "Stats accuracy", "equal", counts, status.n_chunks == len(chunks))
    yield n_a("11.8", "Guidance, routing", ">= 90 %", "Shoal has no agent")


def chunk_lines(engine: Engine, corpus: Corpus, chunks: list[Any], folder: Path) -> Iterator[Line]:
    sizes = [end - start for _, _, start, end, locator in chunks if not _is_timed(locator)]
    low, high = BAND_CHARS
    in_band = statistics.fmean(low <= size <= high for size in sizes)
    measured = (
        f"{in_band:.0%}, median {statistics.median(sizes):.0f} characters; chunks end where the topic changes"
    )
    yield line("11.1", "Chunk size quality", ">= 90 % of 300 to 800 tokens", measured, in_band >= 0.9)
    with Engine(db_path=folder / "again.db") as other:
        build(other, corpus)
        is_same = chunks_of(other) == chunks
    yield line("11.1", "Determinism", "same ids and order", "two builds compared", is_same)
    yield line("11.7", "Rebuild reproducibility", "same ids and counts", "two builds compared", is_same)
    timed = [json.loads(locator) for *_, locator in chunks if _is_timed(locator)]
    n_frames = sum(place["first"] == place["last"] for place in timed)
    n_windows = len(timed) - n_frames
    measured = f"{n_windows} of {corpus.n_windows} windows, {n_frames} of {corpus.n_frames} frames"
    is_met = (n_windows, n_frames) == (corpus.n_windows, corpus.n_frames)
    yield line("11.1", "Video parsing", "100 % of the three forms", measured, is_met)


def failure_lines(engine: Engine, folder: Path) -> Iterator[Line]:
    broken, good = folder / "broken.docx", folder / "good.txt"
    broken.write_bytes(b"PK\x03\x04 cut off")
    good.write_text("A lighthouse keeper writes a letter about the storm of last night.\n")
    with engine.ingest_session() as session:
        session.add_draft(draft_of_file(broken, settings=engine.settings))
        session.add_draft(draft_of_file(good, settings=engine.settings))
        results = session.finish()
    measured = f"{results[0].error_code}; the next file is stored: {results[1].id is not None}"
    is_met = results[0].error is not None and results[1].id is not None
    yield line("11.2", "Partial failure", "goes on and reports", measured, is_met)
    stored = results[1].id
    if stored is not None:
        before = [result.document_id for result in engine.search("lighthouse keeper").results]
        engine.documents.delete(stored)
        after = [result.document_id for result in engine.search("lighthouse keeper").results]
        is_gone = stored in before and stored not in after
        yield line("11.3", "Incremental sync", "no deleted chunk", "a document deleted", is_gone)


def search_lines(engine: Engine, corpus: Corpus, chunks: list[Any]) -> Iterator[Line]:
    by_kind = {
        kind: [query for query in corpus.queries if query.kind == kind]
        for kind in ("metadata", "content", "exact", "temporal")
    }
    index_cache = IndexCache(engine.database)
    index_cache.prepare()
    with engine.database.snapshot() as snapshot:
        n_indexed = index_cache.of(snapshot).n_chunks
    yield line(
        "11.3", "FTS coverage", "100 % of chunks", f"{n_indexed} of {len(chunks)}", n_indexed == len(chunks)
    )
    exact = recall(ranks(engine, by_kind["exact"]), 10)
    yield line("11.3", "Exact-term recall@10", ">= 0.95", f"{exact:.3f}", exact >= 0.95)
    timings: list[float] = []
    responses: list[SearchResponse] = []
    for query in corpus.queries:
        responses.append(engine.search(query.text, filters=query.filters, expand="time"))
        timings.append(responses[-1].took_ms)
    p95 = sorted(timings)[int(0.95 * len(timings))]
    measured = f"{p95:.0f} ms, {len(chunks):,} chunks (benchmarks/scale.py: more)"
    for part, target, limit in (("11.3", "200 ms", 200), ("11.4", "1.5 s", 1500), ("11.6", "2 s", 2000)):
        yield line(part, "Latency, p95", f"<= {target}", measured, p95 <= limit)
    ndcgs = {
        mode: ndcg(ranks(engine, by_kind["content"], mode=mode)) for mode in ("hybrid", "lexical", "reef")
    }
    measured = ", ".join(f"{mode} {value:.3f}" for mode, value in ndcgs.items())
    best = max(ndcgs["lexical"], ndcgs["reef"])
    reason = "" if ndcgs["hybrid"] >= 1.1 * best else f"; the target is {1.1 * best:.3f}"
    yield line("11.4", "nDCG@10", ">= best signal + 10 %", measured + reason, ndcgs["hybrid"] >= 1.1 * best)
    most = max(max(_counts(response), default=0) for response in responses)
    yield line("11.4", "Diversity", "<= 3 per document", f"at most {most}", most <= 3)
    is_kept = all(
        corpus.kinds[str(result.source_path)] == query.filters["metadata"]["file_kind"]
        for query, response in zip(corpus.queries, responses, strict=True)
        if query.filters
        for result in response.results
    )
    yield line(
        "11.4", "Filter correctness", "100 %", f"{len(by_kind['metadata'])} filtered searches", is_kept
    )
    empty = engine.search("water", filters={"document_ids": []}).results
    free = engine.search("water", filters={"document_ids": None}).results
    measured = f"none: {len(free)} results, []: {len(empty)}"
    yield line("11.4", "Filter semantics", "none: all, []: nothing", measured, bool(free) and not empty)
    yield from evidence_lines(engine, by_kind["temporal"], responses)
    results = [result for response in responses for result in response.results]
    n_cited = sum(bool(r.document_title and (r.start_line or r.time_start)) for r in results)
    measured = f"{n_cited} of {len(results)}"
    yield line("11.6", "Citation completeness", "100 %", measured, n_cited == len(results))
    n_valid = sum(
        len(decode(SearchResponse, json.loads(json.dumps(json_form(response)))).results)
        == len(response.results)
        for response in responses
    )
    yield line(
        "11.6", "Output validity", "100 %", f"{n_valid} of {len(responses)}", n_valid == len(responses)
    )
    nothing = engine.search("zzqxv")
    measured = f"{len(nothing.results)} results; warning: {'; '.join(nothing.warnings)[:60]}"
    yield line("11.6", "Empty result", "no results, no error", measured, not nothing.results)
    metadata = recall(ranks(engine, by_kind["metadata"]), 10)
    yield n_a("queries", "Metadata recall@10", "not given", f"{metadata:.3f}")


def evidence_lines(engine: Engine, temporal: list[Query], responses: list[SearchResponse]) -> Iterator[Line]:
    bundled = [result for response in responses for result in response.results if result.evidence]
    wrong = unordered = without = 0
    for result in bundled:
        assert result.evidence is not None
        assert result.place is not None
        margin = 10 if result.modality is Modality.video_frame else 15
        low, high = result.place.first - margin, result.place.last + margin
        chunks = result.evidence.chunks
        wrong += any(_seconds(c.time_start) > high or _seconds(c.time_end) < int(low) for c in chunks)
        unordered += [c.time_start for c in chunks] != sorted(c.time_start for c in chunks)
        without += result.chunk_id not in (c.chunk_id for c in chunks)
    n = len(bundled)
    yield line(
        "11.5", "Window correctness", "15 s and 10 s", f"{n - wrong} of {n} bundles", n > 0 and not wrong
    )
    yield line("11.5", "Chronological order", "100 %", f"{n - unordered} of {n}", n > 0 and not unordered)
    yield line(
        "11.5", "Evidence completeness", "always the anchor", f"{n - without} of {n}", n > 0 and not without
    )
    found = recall(ranks(engine, temporal, top_k=5), 5)
    yield line("11.5", "Temporal recall@5", ">= 0.90", f"{found:.3f}", found >= 0.9)


def line(part: str, metric: str, target: str, measured: str, is_met: bool) -> Line:
    return Line(part, metric, target, measured, is_met)


def n_a(part: str, metric: str, target: str, reason: str) -> Line:
    return Line(part, metric, target, reason, None)


def _is_timed(locator: str | None) -> bool:
    return locator is not None and json.loads(locator)["kind"] == LocatorKind.time


def _seconds(clock: str) -> int:
    hours, minutes, seconds = map(int, clock.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def _counts(response: SearchResponse) -> Iterable[int]:
    documents = [result.document_id for result in response.results]
    return (documents.count(document) for document in set(documents))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("articles", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--documents", type=int, default=180)
    parser.add_argument("--recordings", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        corpus = make_corpus(list(read_articles(options.articles)), folder, options)
        print(f"{len(corpus.files)} files, {len(corpus.queries)} queries")
        with Engine(db_path=folder / "acceptance.db") as engine:
            lines = list(lines_of(engine, corpus, folder))
    print("| part | metric | target | measured | |\n|---|---|---|---|---|")
    names = {True: "met", False: "**not met**", None: "n/a"}
    for each in lines:
        print(f"| {each.part} | {each.metric} | {each.target} | {each.measured} | {names[each.is_met]} |")
    return int(lines[0].is_met is not True)


if __name__ == "__main__":
    sys.exit(main())
