"""Searches with typing errors: nDCG@10 against that of the clean queries, with `typos` on and off, and times.

usage: python -m benchmarks.typing_errors [COLLECTION...] [--keep FOLDER] [--words 2000] [--seed 1]
    [--choose] [--terms 1000000]

Words of the judged queries are damaged by a seed: one edit, or two in a word of eight or more letters. An
edit deletes, adds or replaces a letter, or swaps two neighbours, anywhere in the word. A line each:

    one word   2,000 searches, each with one damaged word of its query
    half       every query once, with every second of its words damaged
    clean      the queries as they are, with typos on and off: they differ only by words that stand nowhere

With --terms, prints only the time of finding near terms in an index of that many invented words, and how
often the damaged word is among the five nearest.

With --choose, the first is repeated for other weights of near words. Words of four or more letters that a
collection contains are damaged. Collections are ingested into temporary databases, with --keep into databases
that are reused. Without arguments, the collections under $SHOAL_TEST_CORPORA are used.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import string
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.index_speed import words_of_forms
from benchmarks.judged_library import DEPTH, JudgedLibrary
from shoal.index.building import NO_WORDS, IndexedDocument, Profiles, segment_bytes
from shoal.index.index import Index
from shoal.index.matching import TWO_EDITS_FROM, near_forms
from shoal.index.segment import Segment
from shoal.search import synonyms
from shoal.words.terms import TERMS

SHORTEST = 4
N_SEGMENTS, N_LARGE = 4, 200


class Case(NamedTuple):
    """A damaged query: its collection and number, and its text."""

    library: JudgedLibrary
    query: int
    text: str


def damaged(word: str, n_edits: int, generator: random.Random) -> str:
    """Return the word with some random edits, never the word itself."""
    while True:
        edited = word
        for _ in range(n_edits):
            place, letter = generator.randrange(len(edited)), generator.choice(string.ascii_lowercase)
            before, after = edited[:place], edited[place:]
            edited = generator.choice(
                (
                    before + after[1:],
                    before + letter + after,
                    before + letter + after[1:],
                    before + after[1:2] + after[:1] + after[2:],
                )
            )
        if edited != word and len(edited) > 1:
            return edited


def words_of(library: JudgedLibrary, query: int) -> list[re.Match[str]]:
    """Return the words of a query that may be damaged, by their places."""
    terms = {
        term.text
        for term in library.queries[query].parsed.terms
        if len(term.tokens) == 1 and len(library.holding(term))
    }
    plain = re.finditer(r"(?<![\w'-])[A-Za-z]?[a-z]{3,}(?![\w'-])", library.texts[query])
    return [word for word in plain if word.group() in terms and len(word.group()) >= SHORTEST]


def with_damage(text: str, words: Sequence[re.Match[str]], generator: random.Random) -> str:
    """Return a query with some of its words damaged."""
    for word in reversed(words):
        n_edits = 2 if len(word.group()) >= TWO_EDITS_FROM else 1
        text = text[: word.start()] + damaged(word.group(), n_edits, generator) + text[word.end() :]
    return text


def cases_of_one_word(libraries: Sequence[JudgedLibrary], n: int, seed: int) -> list[Case]:
    """Return damaged queries with one damaged word each, drawn from all collections at once."""
    generator = random.Random(seed)
    pairs = [
        (library, query, word)
        for library in libraries
        for query in range(len(library.texts))
        for word in words_of(library, query)
    ]
    chosen = generator.sample(pairs, min(n, len(pairs)))
    return [Case(lib, query, with_damage(lib.texts[query], [word], generator)) for lib, query, word in chosen]


def cases_of_half(libraries: Sequence[JudgedLibrary], seed: int) -> list[Case]:
    """Return every query with every second of its words damaged."""
    generator = random.Random(seed)
    return [
        Case(library, query, with_damage(text, words_of(library, query)[::2], generator))
        for library in libraries
        for query, text in enumerate(library.texts)
    ]


def measure(cases: Sequence[Case], typos: str) -> tuple[list[float], list[float]]:
    """Return nDCG@10 and the milliseconds of each search."""
    values, times = [], []
    for library, query, text in cases:
        started = time.perf_counter()
        response = library.engine.search(text, top_k=DEPTH, max_per_document=1, typos=typos)
        times.append(1000 * (time.perf_counter() - started))
        chunk_ids = [result.chunk_id for result in response.results]
        values.append(library.ndcg_of_chunks(query, chunk_ids))
    return values, times


def report(what: str, cases: Sequence[Case], clean: Sequence[float], values: Sequence[float]) -> float:
    """Print the share of the clean nDCG@10 that is kept, by collection and in all; return the mean of the
    collections."""
    shares = {}
    for library in dict.fromkeys(case.library for case in cases):
        own = [place for place, case in enumerate(cases) if case.library is library]
        shares[library.name] = np.mean([values[i] for i in own]) / np.mean([clean[i] for i in own])
    line = {name: round(100 * share, 1) for name, share in shares.items()}
    mean = 100 * float(np.mean(list(shares.values())))
    pooled = 100 * float(np.mean(values) / np.mean(clean))
    print(
        json.dumps({"what": what, "kept %": line, "mean": round(mean, 2), "all": round(pooled, 2)}),
        flush=True,
    )
    return mean


def report_times(clean: Sequence[float], on: Sequence[float], off: Sequence[float]) -> None:
    rows = {"clean": clean, "damaged, typos on": on, "damaged, typos off": off}
    p50, p95 = ({name: float(np.percentile(ms, q)) for name, ms in rows.items()} for q in (50, 95))
    ratios = {name: round(value / p95["clean"], 2) for name, value in p95.items()}
    print(
        json.dumps(
            {
                "what": "milliseconds",
                "p50": {name: round(value, 2) for name, value in p50.items()},
                "p95": {name: round(value, 2) for name, value in p95.items()},
                "p95 / clean": ratios,
            }
        )
    )


def large_index(n_terms: int, generator: random.Random) -> tuple[Index, list[str]]:
    """Return an index of four segments with invented words, and these words."""
    syllables = [a + b for a in "bcdfghklmnprstvwz" for b in ("a", "e", "i", "o", "u", "en", "ar", "ist")]
    words = {"".join(generator.choices(syllables, k=generator.randint(2, 5))) for _ in range(2 * n_terms)}
    chosen = sorted(words)[:: max(1, len(words) // n_terms)][:n_terms]
    generator.shuffle(chosen)
    segments = []
    for number in range(N_SEGMENTS):
        forms = chosen[number::N_SEGMENTS]
        bounds = np.linspace(0, len(forms), 2_001).astype(np.int64)
        document = IndexedDocument(
            document_id=number + 1,
            chunk_ids=np.arange(2_000) + number * 2_000 + 1,
            words=words_of_forms(forms, np.arange(len(forms)), bounds),
            title=NO_WORDS,
            sections=np.zeros(2_000, dtype=np.int64),
            headings={},
            profiles=Profiles(np.zeros(2_001, dtype=np.int64), np.empty(0, np.uint8), np.empty(0, np.uint16)),
            confidence=np.zeros(2_000),
        )
        segments.append((Segment(segment_bytes([document], TERMS)), ()))
    return Index(segments), chosen


def measure_large(n_terms: int, seed: int) -> None:
    """Print the time of finding near terms in a large vocabulary."""
    generator = random.Random(seed)
    index, words = large_index(n_terms, generator)
    near_forms(index, "warmup", 5)
    rows: dict[str, list[float]] = {"one edit": [], "two edits": []}
    n_right = 0
    for word in generator.sample(words, N_LARGE):
        n_edits = 2 if len(word) >= TWO_EDITS_FROM else 1
        started = time.thread_time()
        near = near_forms(index, damaged(word, n_edits, generator), 5)
        rows["two edits" if n_edits > 1 else "one edit"].append(1000 * (time.thread_time() - started))
        n_right += word in {each.form for each in near}
    print(
        json.dumps(
            {
                "what": f"near forms among {sum(len(part.segment.text.terms) for part in index.parts):,}",
                "found %": round(100 * n_right / N_LARGE, 1),
                "p50 ms of the processor": {
                    k: round(float(np.percentile(v, 50)), 2) for k, v in rows.items()
                },
                "p95 ms of the processor": {
                    k: round(float(np.percentile(v, 95)), 2) for k, v in rows.items()
                },
            }
        ),
        flush=True,
    )


def choose(cases: Sequence[Case], clean: Sequence[float]) -> None:
    """Print what other weights keep."""
    for replaced, other in itertools.product((0.5, 0.65, 0.8, 1.0), (0.0, 0.2, 0.4)):
        synonyms.REPLACED_WEIGHT, synonyms.OTHER_WEIGHT = replaced, other
        report(f"replaced {replaced}, other {other}", cases, clean, measure(cases, "auto")[0])


def opened(folders: Sequence[Path], keep: Path) -> Iterator[JudgedLibrary]:
    for folder in folders:
        yield JudgedLibrary(folder, keep / f"{folder.name}.db", learning=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", nargs="*", type=Path)
    parser.add_argument("--keep", type=Path, help="folder for the databases NAME.db")
    parser.add_argument("--words", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--terms", type=int, default=0, help="only: time in an index of this many terms")
    options = parser.parse_args()
    if options.terms:
        measure_large(options.terms, options.seed)
        return
    folders = options.collections or sorted(
        path.parent for path in Path(os.environ["SHOAL_TEST_CORPORA"]).glob("collections/*/corpus.jsonl")
    )
    with tempfile.TemporaryDirectory() as scratch:
        libraries = list(opened(folders, options.keep or Path(scratch)))
        cases = cases_of_one_word(libraries, options.words, options.seed)
        originals = [Case(case.library, case.query, case.library.texts[case.query]) for case in cases]
        measure(originals[:50], "auto")
        # In turns, because the machine may be busier at one time than at another.
        clean, clean_ms, on, on_ms, off, off_ms = ([] for _ in range(6))
        for case, original in zip(cases, originals, strict=True):
            for group, times, each, typos in (
                (clean, clean_ms, original, "auto"),
                (on, on_ms, case, "auto"),
                (off, off_ms, case, "off"),
            ):
                value, took = measure([each], typos)
                group.extend(value)
                times.extend(took)
        report(f"one word, typos on ({len(cases):,} searches)", cases, clean, on)
        report("one word, typos off", cases, clean, off)
        report_times(clean_ms, on_ms, off_ms)
        half = cases_of_half(libraries, options.seed)
        whole = [Case(case.library, case.query, case.library.texts[case.query]) for case in half]
        clean_off = measure(whole, "off")[0]
        report("clean, typos on", whole, clean_off, measure(whole, "auto")[0])
        report("half of the words, typos on", half, clean_off, measure(half, "auto")[0])
        report("half of the words, typos off", half, clean_off, measure(half, "off")[0])
        if options.choose:
            choose(cases, clean)


if __name__ == "__main__":
    main()
