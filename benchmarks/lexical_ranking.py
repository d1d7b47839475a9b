"""Choice of the formula of lexical ranking, and of the blend on top of it, by nDCG@10 on test collections.

usage: python -m benchmarks.lexical_ranking [COLLECTION...] [--keep FOLDER] [--texts FOLDER] [--only PART,...]

Collections are ingested into temporary databases (with --keep into databases that are reused). Every formula
is computed in memory on their chunks, and documents are ranked by their best chunks. Parts:

    formula    one constant changed at a time
    grid       all combinations of the constants: the best, and each collection with the choice of the others
    tokens     stemmers, and stop words left out of the index
    blend      reef weights, trust factor, field boost and number of reefs: the best, and each collection with
               the choice of the others
    evidence   what reefs add to queries whose words match the library badly, middling or well
    expansion  terms of the best blocks added to the query, and the postings that they cost
    passages   books and articles of --texts: are passages found by the heading of their section, by words of
               their own, and by words of two neighbouring passages?

Without arguments, the collections under $SHOAL_TEST_CORPORA are used.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import math
import random
import statistics
import tempfile
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import Stemmer

from benchmarks.hybrid import collection_folders, falls, show
from benchmarks.judged_library import DEPTH, Doubles, Ints, JudgedLibrary, of_best
from lagoon.tokens import STOP_WORDS
from shoal import DocFormat, Engine
from shoal.search.query_profile import MAX_REEFS, choose
from shoal.settings import Settings
from shoal.words.analysis import folded, tokens_of

STOP = -1
"""Stands for a stop word in a query."""
N_EXPANSION_BLOCKS = 10


@dataclass(frozen=True)
class Formula:
    """BM25F (Robertson, Zaragoza and Taylor, CIKM 2004) of text and title, with a share of the block's.

    title    weight of a term in the title; a term in the text counts 1
    context  weight of the score of the chunk's block
    block    most consecutive chunks of a document in a block; None for the whole document
    pair     weight of a pair of words that are adjacent in the query and in the chunk
    repeats  power of the frequency of a term in the query
    title_in_df  whether the document frequency of a term counts chunks that have it only in their title
    """

    k1: float = 1.2
    b: float = 0.75
    title: float = 2.0
    context: float = 0.5
    block: int | None = 8
    pair: float = 0.2
    repeats: float = 0.5
    title_in_df: bool = False


Choice = TypeVar("Choice", bound=Hashable)


class Parts(NamedTuple):
    """(q, c) each: the score of a chunk's words, of its block's words, and of its pairs, without weights."""

    words: Doubles
    block: Doubles
    pairs: Doubles

    def combined(self, formula: Formula) -> Doubles:
        with_block = self.words + formula.context * self.block
        return np.where(self.words > 0, with_block, 0.0) + formula.pair * self.pairs


class Postings:
    """The places that hold each term, and how often."""

    def __init__(self, terms: Ints, places: Ints, n_terms: int) -> None:
        radix = int(places.max(initial=0)) + 1
        keys, self._frequencies = np.unique(terms * radix + places, return_counts=True)
        self._places = keys % radix
        self.offsets = np.searchsorted(keys // radix, np.arange(n_terms + 1))

    def of(self, term: int) -> tuple[Ints, Ints]:
        """(places, frequencies) of a term."""
        span = slice(self.offsets[term], self.offsets[term + 1])
        return self._places[span], self._frequencies[span]


class WordIndex:
    """The words of chunks, titles and queries as numbers.

    document  i64 (c,): number of each chunk's document, ascending from 0
    ids       i64: terms of all chunks, one after the other; lengths (c,): terms of each chunk
    queries   terms of each query in order, `STOP` for a stop word
    """

    def __init__(
        self,
        chunks: Iterable[str],
        titles: Iterable[str],
        document: Ints,
        queries: Iterable[str],
        *,
        stemmer: str | None = "english",
        with_stop_words: bool = True,
    ) -> None:
        self._stem: Callable[[str], str] = Stemmer.Stemmer(stemmer, 0).stemWord if stemmer else str
        self._numbers: dict[str, int] = {}
        self._term_of: dict[str, int] = {}
        self.document = document
        self.starts = np.searchsorted(document, np.arange(document[-1] + 1))
        self.ids, self.lengths = self._numbered(chunks, with_stop_words=with_stop_words)
        title_ids, self.title_lengths = self._numbered(titles, with_stop_words=with_stop_words)
        self.queries = [
            [STOP if form in STOP_WORDS else self._number(form) for form in _forms(text)] for text in queries
        ]
        n_terms = len(self._numbers)
        self.chunk_of = np.repeat(np.arange(len(self.lengths)), self.lengths)
        self.text = Postings(self.ids, self.chunk_of, n_terms)
        titled = np.repeat(np.arange(len(self.title_lengths)), self.title_lengths)
        self.title = Postings(title_ids, titled, n_terms)
        self.is_stop_word = np.zeros(n_terms, dtype=np.bool_)
        self.is_stop_word[[number for form, number in self._term_of.items() if form in STOP_WORDS]] = True
        self.pair_numbers = {
            pair: number for number, pair in enumerate(sorted({p for q in self.queries for p in pairs_of(q)}))
        }
        self.pairs = self._pair_postings(n_terms)

    def _number(self, form: str) -> int:
        number = self._term_of.get(form)
        if number is None:
            number = self._numbers.setdefault(self._stem(form), len(self._numbers))
            self._term_of[form] = number
        return number

    def _numbered(self, texts: Iterable[str], *, with_stop_words: bool) -> tuple[Ints, Ints]:
        rows = [
            [self._number(form) for form in _forms(text) if with_stop_words or form not in STOP_WORDS]
            for text in texts
        ]
        return np.array([i for row in rows for i in row], dtype=np.int64), np.array(
            [len(row) for row in rows]
        )

    def _pair_postings(self, n_terms: int) -> Postings:
        # Pairs are in ascending order, so their keys are too.
        keys = np.array([first * n_terms + second for first, second in self.pair_numbers], dtype=np.int64)
        is_inside = self.chunk_of[:-1] == self.chunk_of[1:]
        adjacent = (self.ids[:-1] * n_terms + self.ids[1:])[is_inside]
        places = np.searchsorted(keys, adjacent)
        is_wanted = np.isin(adjacent, keys)
        return Postings(places[is_wanted], self.chunk_of[:-1][is_inside][is_wanted], len(keys))

    def blocks(self, most: int | None) -> Ints:
        """(c,): the block of each chunk, ascending from 0. The blocks of a document differ by at most one
        chunk."""
        n_chunks = np.diff(np.append(self.starts, len(self.document)))
        n_blocks = np.ones_like(n_chunks) if most is None else -(-n_chunks // most)
        first = np.cumsum(n_blocks) - n_blocks
        place = np.arange(len(self.document)) - self.starts[self.document]
        return np.asarray(first[self.document] + place * n_blocks[self.document] // n_chunks[self.document])


def index_of(library: JudgedLibrary, stemmer: str | None = "english", **options: bool) -> WordIndex:
    with library.engine.database.snapshot() as snapshot:
        chunks = [row[0] for row in snapshot.tuples("SELECT text FROM chunks ORDER BY document_id, id")]
        titles = [row[0] for row in snapshot.tuples("SELECT title FROM documents ORDER BY id")]
    return WordIndex(chunks, titles, library.document, library.texts, stemmer=stemmer, **options)


def pairs_of(query: Sequence[int]) -> list[tuple[int, int]]:
    """The words that stand side by side in a query, without stop words."""
    return [(a, b) for a, b in itertools.pairwise(query) if STOP not in (a, b) and a != b]


def score(index: WordIndex, formula: Formula) -> Parts:
    """Score every chunk for every query. The weights of block and pairs are not used."""
    n = len(index.document)
    block_of = index.blocks(formula.block)
    n_blocks = int(block_of[-1]) + 1
    document_of_block = index.document[np.searchsorted(block_of, np.arange(n_blocks))]
    norm = _norm(index.lengths, formula)
    title_norm = _norm(index.title_lengths, formula)
    block_norm = _norm(np.bincount(block_of, weights=index.lengths, minlength=n_blocks), formula)

    def of_term(term: int) -> tuple[Doubles, Doubles]:
        """(c,), (blocks,): scores of a word for chunks and for blocks."""
        chunks, in_text = index.text.of(term)
        titled, in_title = index.title.of(term)
        title = np.zeros(len(index.title_lengths))
        title[titled] = formula.title * in_title / title_norm[titled]
        of_chunk = title[index.document]
        df = int(np.count_nonzero(of_chunk) + np.count_nonzero(of_chunk[chunks] == 0))
        of_chunk[chunks] += in_text / norm[chunks]
        of_block = np.bincount(block_of[chunks], weights=in_text, minlength=n_blocks) / block_norm
        of_block += title[document_of_block]
        weight = idf(n, df if formula.title_in_df else len(chunks))
        return weight * _saturated(of_chunk, formula.k1), weight * _saturated(of_block, formula.k1)

    def of_pair(pair: tuple[int, int]) -> Doubles:
        chunks, frequency = index.pairs.of(index.pair_numbers[pair])
        scores = np.zeros(n)
        scores[chunks] = idf(n, len(chunks)) * _saturated(frequency / norm[chunks], formula.k1)
        return scores

    parts = Parts(*(np.zeros((len(index.queries), n)) for _ in Parts._fields))
    for i, query in enumerate(index.queries):
        in_blocks = np.zeros(n_blocks)
        for term, count in collections.Counter(term for term in query if term != STOP).items():
            of_chunk, of_block = of_term(term)
            parts.words[i] += count**formula.repeats * of_chunk
            in_blocks += count**formula.repeats * of_block
        parts.block[i] = in_blocks[block_of]
        for pair, count in collections.Counter(pairs_of(query)).items():
            parts.pairs[i] += count**formula.repeats * of_pair(pair)
    return parts


def idf(n: int, df: int) -> float:
    return math.log(1 + (n - df + 0.5) / (df + 0.5))


def lexical(library: JudgedLibrary, index: WordIndex, formula: Formula) -> Doubles:
    """(q, c): scores of the chunks that hold the phrases of a query."""
    return score(index, formula).combined(formula) * library.demanded


def feedback_profiles(library: JudgedLibrary, scores: Doubles, max_reefs: int) -> Doubles:
    """(q, reefs): profiles after feedback by the best chunks of lexical `scores`."""
    share = Settings().feedback_weight
    profiles = []
    for own, row in zip(library.own, np.round(scores * 1e9).astype(np.int64), strict=True):
        moved = own.copy()
        if row.any() and own.any():
            shares = choose(np.arange(len(row)), row)
            mean = np.array(list(shares.values())) @ library.weights[list(shares)]
            moved += share * np.linalg.norm(own) * mean / max(float(np.linalg.norm(mean)), 1e-9)
        moved[np.argsort(-moved, kind="stable")[max_reefs:]] = 0.0
        profiles.append(moved)
    return np.stack(profiles)


def choice_of_others(results: Mapping[Choice, Sequence[float]]) -> list[Choice]:
    """For each collection, what has the best mean on the others."""
    n = len(next(iter(results.values())))
    return [max(results, key=lambda choice: sum(results[choice]) - results[choice][i]) for i in range(n)]


def show_choices(label: str, results: Mapping[Choice, Sequence[float]], default: Choice) -> None:
    best = max(results, key=lambda choice: sum(results[choice]))
    show(f"{label}: best of {len(results)}: {best}", results[best])
    choices = choice_of_others(results)
    for i, choice in enumerate(choices):
        show(f"{label}: chosen without collection {i + 1}: {choice}", results[choice])
    show(f"{label}: each collection, left out", [results[choice][i] for i, choice in enumerate(choices)])
    show(f"{label}: the default: {default}", results[default])


def formula_part(libraries: Sequence[JudgedLibrary]) -> None:
    indexes = [index_of(library) for library in libraries]
    show("a search", [library.ndcg(library.lexical()) for library in libraries])
    default = Formula()
    changes = [
        default,
        *(replace(default, k1=k1) for k1 in (0.9, 1.6, 2.0)),
        *(replace(default, b=b) for b in (0.4, 0.5, 0.6, 0.9)),
        *(replace(default, title=title) for title in (0.0, 1.0, 3.0)),
        *(replace(default, context=context) for context in (0.0, 0.25, 0.75, 1.0)),
        *(replace(default, block=block) for block in (4, 16, None)),
        *(replace(default, pair=pair) for pair in (0.0, 0.1, 0.15, 0.3)),
        *(replace(default, repeats=repeats) for repeats in (0.0, 1.0)),
        replace(default, title_in_df=True),
    ]
    for formula in changes:
        values = [
            lib.ndcg(lexical(lib, index, formula)) for lib, index in zip(libraries, indexes, strict=True)
        ]
        show(_differences(formula, default), values)


def _differences(formula: Formula, default: Formula) -> str:
    names = [f.name for f in fields(Formula) if getattr(formula, f.name) != getattr(default, f.name)]
    return ", ".join(f"{name} {getattr(formula, name)}" for name in names) or "default"


def grid_part(libraries: Sequence[JudgedLibrary]) -> None:
    results: dict[Formula, list[float]] = collections.defaultdict(list)
    for library in libraries:
        index = index_of(library)
        for k1, b, title in itertools.product((1.2, 1.6), (0.6, 0.75), (1.0, 2.0)):
            parts = score(index, Formula(k1=k1, b=b, title=title))
            for context, pair in itertools.product((0.0, 0.25, 0.5, 0.75), (0.0, 0.1, 0.2, 0.3)):
                formula = Formula(k1=k1, b=b, title=title, context=context, pair=pair)
                results[formula].append(library.ndcg(parts.combined(formula) * library.demanded))
    show_choices("formula", results, Formula())


def tokens_part(libraries: Sequence[JudgedLibrary]) -> None:
    for stemmer in ("english", "porter", None):
        values = [
            library.ndcg(lexical(library, index_of(library, stemmer), Formula())) for library in libraries
        ]
        show(f"stemmer {stemmer}", values)
    values = [
        library.ndcg(lexical(library, index_of(library, with_stop_words=False), Formula()))
        for library in libraries
    ]
    show("without stop words in the index", values)


class Blend(NamedTuple):
    reefs: int = MAX_REEFS
    fall: str = "z/(z+4)"
    weight: float = 1.0
    field_boost: float = 0.1


def blend_part(libraries: Sequence[JudgedLibrary]) -> None:
    by_words, by_reefs = [], collections.defaultdict(list)
    results: dict[Blend, list[float]] = collections.defaultdict(list)
    for library in libraries:
        scores = lexical(library, index_of(library), Formula())
        by_words.append(library.ndcg(scores))
        boost = library.field_boost()
        for n in (20, 30, 40, 60):
            overlap = of_best(library.overlap(feedback_profiles(library, scores, n)))
            by_reefs[n].append(library.ndcg(overlap))
            for fall, weight, boosted in itertools.product(
                ("none", "z/(z+4)"), (0.4, 0.6, 0.8, 1.0, 1.25), (0.0, 0.1)
            ):
                reef = (weight * falls(library)[fall])[:, None] * overlap * library.demanded
                results[Blend(n, fall, weight, boosted)].append(
                    library.ndcg(of_best(scores) + reef + boosted * boost)
                )
    show("lexical", by_words)
    for n, values in by_reefs.items():
        show(f"reef, {n} reefs", values)
        show(f"hybrid, {n} reefs", results[Blend(n)], by_words)
    show_choices("blend", results, Blend())
    for n in by_reefs:
        eligible = {blend: values for blend, values in results.items() if blend.reefs == n}
        show_choices(f"blend of {n} reefs", eligible, Blend(n))


def evidence_part(libraries: Sequence[JudgedLibrary]) -> None:
    """Evidence is the best score of the library as a share of the sum of the query's idf."""
    for library in libraries:
        index = index_of(library)
        scores = lexical(library, index, Formula())
        overlap = of_best(library.overlap(feedback_profiles(library, scores, MAX_REEFS)))
        blended = of_best(scores) + falls(library)["z/(z+4)"][:, None] * overlap * library.demanded
        n = len(index.document)
        reachable = [sum(idf(n, len(index.text.of(t)[0])) for t in set(q) - {STOP}) for q in index.queries]
        evidence = scores.max(axis=1) / np.maximum(reachable, 1e-9)
        for third, queries in zip(
            ("least", "middle", "most"), np.array_split(np.argsort(evidence), 3), strict=True
        ):
            before, after = (np.mean(library.ndcgs(s)[queries]) for s in (scores, blended))
            print(
                json.dumps(
                    {
                        "collection": library.name,
                        "evidence": third,
                        "lexical": round(float(before), 3),
                        "hybrid": round(float(after), 3),
                    }
                )
            )


def expansion_part(libraries: Sequence[JudgedLibrary]) -> None:
    rows: dict[str, list[float]] = collections.defaultdict(list)
    for library in libraries:
        index = index_of(library)
        scores = lexical(library, index, Formula())
        overlap = of_best(library.overlap(feedback_profiles(library, scores, MAX_REEFS)))
        reef = falls(library)["z/(z+4)"][:, None] * overlap * library.demanded
        rows["lexical"].append(library.ndcg(scores))
        rows["hybrid"].append(library.ndcg(of_best(scores) + reef))
        n_own = statistics.mean(sum(len(index.text.of(t)[0]) for t in set(q) - {STOP}) for q in index.queries)
        for n_terms in (20, 40):
            added, n_postings = expansion(index, scores, n_terms)
            rows[f"{n_terms} terms: postings read, as a multiple of those of the query"].append(
                n_postings / n_own
            )
            for weight in (0.05, 0.1, 0.2):
                expanded = np.where(scores > 0, scores + weight * added, 0.0)
                rows[f"lexical, {n_terms} terms, weight {weight:g}"].append(library.ndcg(expanded))
                rows[f"hybrid, {n_terms} terms, weight {weight:g}"].append(
                    library.ndcg(of_best(expanded) + reef)
                )
    for label, values in rows.items():
        show(label, values)


def expansion(index: WordIndex, scores: Doubles, n_terms: int) -> tuple[Doubles, float]:
    """(q, c): scores of the strongest terms of the best blocks, the strongest with weight 1; and the mean
    number of their postings."""
    formula = Formula()
    n = len(index.document)
    norm = _norm(index.lengths, formula)
    block_of = index.blocks(formula.block)
    starts = np.searchsorted(block_of[index.chunk_of], np.arange(block_of[-1] + 2))
    block_norm = _norm(np.diff(starts), formula)
    df = np.diff(index.text.offsets)
    weights = np.log(1 + (n - df + 0.5) / (df + 0.5))
    added, n_postings = np.zeros_like(scores), 0
    for row, query, found in zip(scores, index.queries, added, strict=True):
        order = np.argsort(-row, kind="stable")
        best = dict[int, float]()
        for chunk in order[row[order] > 0][: 8 * N_EXPANSION_BLOCKS].tolist():
            best.setdefault(int(block_of[chunk]), float(row[chunk] / row[order[0]]))
        strength = np.zeros(len(df))
        for block, share in itertools.islice(best.items(), N_EXPANSION_BLOCKS):
            terms, counts = np.unique(index.ids[starts[block] : starts[block + 1]], return_counts=True)
            strength[terms] += share * weights[terms] * _saturated(counts / block_norm[block], formula.k1)
        strength[index.is_stop_word | (df < 2)] = 0.0
        strength[[term for term in query if term != STOP]] = 0.0
        for term in np.argsort(-strength, kind="stable")[:n_terms]:
            if strength[term]:
                chunks, counts = index.text.of(term)
                of_term = weights[term] * _saturated(counts / norm[chunks], formula.k1)
                found[chunks] += strength[term] / strength.max() * of_term
                n_postings += len(chunks)
    return added, n_postings / len(index.queries)


class Search(NamedTuple):
    kind: str
    text: str
    relevant: frozenset[int]
    """Numbers of chunks."""


def passages_part(texts: Path) -> None:
    chunks, titles, document, searches = _passages(texts)
    index = WordIndex(chunks, titles, document, [search.text for search in searches])
    print(json.dumps({"chunks": len(chunks), "queries": collections.Counter(s.kind for s in searches)}))
    every_query = index.queries
    for label, formula in (
        ("no context", Formula(context=0.0)),
        *((f"blocks of {n}", Formula(block=n)) for n in (4, 8, 16)),
        ("whole documents", Formula(block=None)),
        ("blocks of 8, no pairs", Formula(pair=0.0)),
        ("blocks of 8, no titles", Formula(title=0.0)),
    ):
        values: dict[str, list[float]] = collections.defaultdict(list)
        for start in range(0, len(searches), 100):  # so that scores fit into memory
            index.queries = every_query[start : start + 100]
            scores = score(index, formula).combined(formula)
            for row, search in zip(scores, searches[start : start + 100], strict=True):
                values[search.kind].append(_ndcg_of_chunks(row, search.relevant))
        index.queries = every_query
        print(json.dumps({"what": label} | {k: round(statistics.mean(v), 3) for k, v in values.items()}))


def _passages(texts: Path, n_of_a_kind: int = 250) -> tuple[list[str], list[str], Ints, list[Search]]:
    """Chunks, titles, the document of each chunk, and searches for chunks: by the title and a heading of the
    section, by four words of the chunk, and by two words each of two neighbours."""
    formats = {".md": DocFormat.markdown, ".txt": DocFormat.plaintext}
    with tempfile.TemporaryDirectory() as scratch, Engine(db_path=f"{scratch}/texts.db") as engine:
        engine.ingest_many(
            {
                "title": path.stem.replace("-", " "),
                "content": path.read_text(encoding="utf-8", errors="replace"),
                "format": formats[path.suffix],
            }
            for path in sorted(texts.rglob("*"))
            if path.suffix in formats
        )
        with engine.database.snapshot() as snapshot:
            rows = list(
                snapshot.tuples(
                    "SELECT c.text, d.title, c.document_id, c.section_id, s.path FROM chunks c"
                    " JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id"
                    " ORDER BY c.document_id, c.id"
                )
            )
    titles = list({row[2]: row[1] for row in rows}.values())
    _, document = np.unique([row[2] for row in rows], return_inverse=True)
    sections: dict[int, list[int]] = collections.defaultdict(list)
    for number, row in enumerate(rows):
        sections[row[3]].append(number)
    generator = random.Random(1)
    of_sections = []
    for numbers in sections.values():
        _, title, _, _, path = rows[numbers[0]]
        headings = json.loads(path)
        if headings and 2 <= len(numbers) <= 20:
            of_sections.append(Search("section", f"{title} {headings[-1]}", frozenset(numbers)))
    searches = generator.sample(of_sections, min(len(of_sections), n_of_a_kind))
    for kind, n_neighbours in (("own words", 1), ("words of two", 2)):
        for first in generator.sample(range(len(rows) - 1), n_of_a_kind):
            numbers = list(range(first, first + n_neighbours))
            words = [_content_words(rows[number][0]) for number in numbers]
            if document[first] == document[first + 1] and min(map(len, words)) >= 12:
                sample = [word for some in words for word in generator.sample(some, 4 // n_neighbours)]
                searches.append(Search(kind, " ".join(sample), frozenset(numbers)))
    return [row[0] for row in rows], titles, document, searches


def _content_words(text: str) -> list[str]:
    forms = set(_forms(text)) - STOP_WORDS
    return sorted(form for form in forms if form.isalpha() and len(form) > 3)


def _ndcg_of_chunks(scores: Doubles, relevant: frozenset[int]) -> float:
    order = np.argsort(-scores, kind="stable")[:DEPTH]
    gain = sum(1 / math.log2(i + 2) for i, chunk in enumerate(order) if chunk in relevant and scores[chunk])
    return gain / sum(1 / math.log2(i + 2) for i in range(min(DEPTH, len(relevant))))


def _forms(text: str) -> list[str]:
    return [folded(token) for token in tokens_of(text)]


def _norm(lengths: Ints | Doubles, formula: Formula) -> Doubles:
    return np.asarray(1 - formula.b + formula.b * lengths / max(1.0, lengths.mean()))


def _saturated(frequency: Doubles, k1: float) -> Doubles:
    return frequency * (k1 + 1) / (frequency + k1)


PARTS = {
    "formula": formula_part,
    "grid": grid_part,
    "tokens": tokens_part,
    "blend": blend_part,
    "evidence": evidence_part,
    "expansion": expansion_part,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", type=Path, nargs="*")
    parser.add_argument("--keep", type=Path, help="folder for the databases NAME.db")
    parser.add_argument("--texts", type=Path, help="folder of books and articles, for the part 'passages'")
    parser.add_argument("--only", default=",".join((*PARTS, "passages")), help="parts, separated by commas")
    options = parser.parse_args()
    names = options.only.split(",")
    folders = collection_folders(options.collections) if set(names) & PARTS.keys() else []
    if set(names) & PARTS.keys() and not folders:
        parser.error("give collection folders, or set SHOAL_TEST_CORPORA")
    with tempfile.TemporaryDirectory() as scratch:
        databases = options.keep or Path(scratch)
        libraries = [JudgedLibrary(f, databases / f"{f.name}.db", learning=True) for f in folders]
        print(json.dumps({"collections": [library.name for library in libraries]}))
        for name in names:
            print(f"-- {name}", flush=True)
            if name in PARTS:
                PARTS[name](libraries)
            elif options.texts:
                passages_part(options.texts)
        for library in libraries:
            library.engine.close()


if __name__ == "__main__":
    main()
