"""Gain from learned words, in one process and without a database.

usage: python benchmarks/vocabulary_learning.py [FOLDER...] [--set NAME=VALUE ...] [--vary
                                                NAME=VALUE,VALUE,...] [--seed 1] [--examples 10]

For a retrieval collection (a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv), prints nDCG@10 of
reefs alone without and with learned words, for whole documents as in lagoon_table.py. Any other folder has
texts (.md, .txt). For each folder, prints the share of occurrences of unknown words that become known, the
numbers of learned words and compounds, their mean number of reefs, the stored size of observations, speed,
and random examples. `--set` changes settings of shoal by their names without SHOAL_, `--vary` prints a line
for each value of a setting. Without folders, those under $SHOAL_TEST_CORPORA are used.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import lagoon
from benchmarks.lagoon_table import ndcg_at_10, strongest
from shoal.chunking.analysis import analyze
from shoal.errors import DocumentError
from shoal.formats.drafts import FORMAT_OF_SUFFIX, draft_from_file, make_draft
from shoal.learning import Evidence, EvidenceRow, Kind, LearnedWord, discover, learn, with_vocabulary
from shoal.models.documents import DocumentDraft
from shoal.settings import Settings

KEEP = 38


@dataclass(frozen=True)
class Collection:
    """Documents with their ids, and texts of queries with their relevant documents."""

    ids: list[str]
    texts: list[str]
    queries: list[str]
    relevant: list[dict[str, int]]


@dataclass
class Corpus:
    """Drafts of a folder; `collection` if it is a retrieval collection. Observations are cached between
    runs."""

    name: str
    drafts: list[DocumentDraft]
    collection: Collection | None
    rows: tuple[tuple[object, ...], list[EvidenceRow], float] | None = None
    without: float = 0.0


def read_corpus(folder: Path, settings: Settings) -> Corpus:
    if not (folder / "corpus.jsonl").exists():
        files = sorted(path for path in folder.rglob("*") if path.suffix in FORMAT_OF_SUFFIX)
        return Corpus(folder.name, [draft_from_file(path, settings=settings) for path in files], None)
    documents = _read_lines(folder / "corpus.jsonl")
    relevant: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines():
        query, document, score = line.split("\t")
        if score.lstrip("-").isdigit() and int(score) > 0:
            relevant.setdefault(query, {})[document] = int(score)
    queries = [query for query in _read_lines(folder / "queries.jsonl") if query["_id"] in relevant]
    drafts = []
    for document in documents:
        text, title = document["text"], document.get("title") or None
        if text or title:
            drafts.append(
                make_draft(content=text or title or "", title=title, format="plaintext", settings=settings)
            )
    return Corpus(
        folder.name,
        drafts,
        Collection(
            [document["_id"] for document in documents],
            [f"{document.get('title') or ''}\n\n{document['text'] or ''}" for document in documents],
            [query["text"] for query in queries],
            [relevant[query["_id"]] for query in queries],
        ),
    )


def _read_lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def ndcg(collection: Collection, scorer: lagoon.ReefScorer) -> float:
    """Mean nDCG@10 of reefs alone."""
    profiles = strongest(_z_scores(collection.texts, scorer), KEEP)
    norms = np.linalg.norm(profiles, axis=1, keepdims=True)
    profiles = np.divide(profiles, norms, out=np.zeros_like(profiles), where=norms > 0)
    query_profiles = strongest(_z_scores(collection.queries, scorer), KEEP)
    order = np.argsort(-(query_profiles @ profiles.T), axis=1, kind="stable")[:, :10]
    return statistics.mean(
        ndcg_at_10([collection.ids[index] for index in row], relevant)
        for row, relevant in zip(order.tolist(), collection.relevant, strict=True)
    )


def _z_scores(texts: Sequence[str], scorer: lagoon.ReefScorer) -> Any:
    scored = scorer.score_batch(texts)
    return np.stack([result.z_scores for result in scored])


def observe(corpus: Corpus, scorer: lagoon.ReefScorer, settings: Settings) -> list[EvidenceRow]:
    """Observations of all documents; computed again only if a setting they depend on changes."""
    depends = tuple(getattr(settings, name) for name in DISCOVERY_SETTINGS)
    if corpus.rows is None or corpus.rows[0] != depends:
        rows: list[EvidenceRow] = []
        seconds = 0.0
        for draft in corpus.drafts:
            try:
                analyzed = analyze(draft, scorer, settings)
            except DocumentError:
                continue
            began = time.process_time()
            rows += discover(analyzed, settings)
            seconds += time.process_time() - began
        corpus.rows = (depends, rows, seconds)
    return corpus.rows[1]


DISCOVERY_SETTINGS = (
    "context_confidence",
    "context_sentence_weight",
    "short_document_words",
    "reefs_per_observation",
    "heading_weight",
)


def run(
    corpus: Corpus, scorer: lagoon.ReefScorer, settings: Settings
) -> tuple[dict[str, object], list[LearnedWord]]:
    """Statistics of learning from a corpus, and the learned words."""
    rows = observe(corpus, scorer, settings)
    assert corpus.rows is not None
    n_bytes = sum(draft.n_bytes for draft in corpus.drafts)
    began = time.process_time()
    evidence = Evidence.of(rows)
    learned = list(learn(evidence, set(evidence.words), scorer, settings))
    seconds = time.process_time() - began
    extended = with_vocabulary(scorer, enumerate(learned, scorer.next_word_id))
    singles = [word for word in learned if not word.is_compound]
    unknown = sum(row.n_occurrences for row in rows if row.kind == Kind.word)
    reefs = sorted(len(word.reefs) for word in learned)
    result: dict[str, object] = {
        "corpus": corpus.name,
        "mb": round(n_bytes / 1e6, 2),
        "candidate occurrences": unknown,
        "become known": round(sum(word.n_occurrences for word in singles) / max(unknown, 1), 3),
        "words": len(singles),
        "compounds": len(learned) - len(singles),
        "reefs p10/50/90/max": [reefs[int(len(reefs) * share)] for share in (0.1, 0.5, 0.9)] + reefs[-1:]
        if reefs
        else [],
        "rows": len(rows),
        "stored mb": round(sum(map(_stored_bytes, rows)) / 1e6, 2),
        "discover s": round(corpus.rows[2], 2),
        "learn s": round(seconds, 2),
    }
    if corpus.collection is not None:
        corpus.without = corpus.without or ndcg(corpus.collection, scorer)
        with_words = ndcg(corpus.collection, extended)
        result |= {
            "ndcg@10 without": round(corpus.without, 4),
            "with": round(with_words, 4),
            "gain %": round(100 * (with_words / corpus.without - 1), 1),
        }
    return result, learned


def _stored_bytes(row: EvidenceRow) -> int:
    numbers = [*row[2:6], *row.parts, *row.reefs, *row.sums]
    return len(row.word) + sum(len(str(number)) + 1 for number in numbers)


def examples(learned: Sequence[LearnedWord], scorer: lagoon.ReefScorer, seed: int, n: int) -> Iterator[str]:
    """Print `n` random words and half as many compounds."""
    rng = random.Random(seed)
    for is_compound, size in ((False, n), (True, n // 2)):
        words = [word for word in learned if word.is_compound == is_compound]
        for word in rng.sample(words, min(size, len(words))):
            reefs = "; ".join(
                f"{scorer.reefs[reef.reef_id].name} {reef.strength:.2f}" for reef in word.reefs[:4]
            )
            yield (
                f"  {word.word} ({word.n_occurrences} in {word.n_documents}, {len(word.reefs)} reefs): "
                f"{reefs}"
            )


def with_values(settings: Settings, assignments: Sequence[str]) -> Settings:
    values = {}
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        values[name] = type(getattr(settings, name))(value)
    return dataclasses.replace(settings, **values)


def main() -> None:
    """Print one JSON object for each corpus, and the mean gain over collections."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--vary", action="append", default=[], metavar="NAME=VALUE,...")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=10)
    options = parser.parse_args()
    settings = with_values(Settings(), options.set)
    folders = options.folders
    if not folders and "SHOAL_TEST_CORPORA" in os.environ:
        shared = Path(os.environ["SHOAL_TEST_CORPORA"])
        folders = [shared / "corpora" / "books", *sorted((shared / "collections").iterdir())]
    if not folders:
        parser.error("name folders, or set SHOAL_TEST_CORPORA")
    scorer = lagoon.load()
    corpora = [read_corpus(folder, settings) for folder in folders]
    for varied in options.vary or [""]:
        name, _, values = varied.partition("=")
        for value in values.split(",") if varied else [""]:
            changed = with_values(settings, [f"{name}={value}"]) if varied else settings
            results = [run(corpus, scorer, changed) for corpus in corpora]
            _report(f"{name}={value}" if varied else "", results, corpora, scorer, options)


def _report(
    title: str,
    results: Sequence[tuple[dict[str, object], list[LearnedWord]]],
    corpora: Sequence[Corpus],
    scorer: lagoon.ReefScorer,
    options: argparse.Namespace,
) -> None:
    gains = [float(str(result["gain %"])) for result, _ in results if "gain %" in result]
    mean = round(statistics.mean(gains), 1) if gains else None
    if title:
        learned = sum(len(words) for _, words in results)
        reefs = statistics.mean(len(word.reefs) for _, words in results for word in words) if learned else 0
        shares = [result["become known"] for result, _ in results]
        print(
            f"{title}: gains % {gains}, mean {mean}; learned {learned}, reefs {reefs:.1f}, known {shares}",
            flush=True,
        )
        return
    for (result, learned_words), _ in zip(results, corpora, strict=True):
        print(json.dumps(result))
        for line in examples(learned_words, scorer, options.seed, options.examples):
            print(line)
    if gains:
        print(json.dumps({"data": scorer.data_checksum[:12], "mean gain %": mean}))


if __name__ == "__main__":
    main()
