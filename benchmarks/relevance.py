"""Calibration of `relevance`: AUC and calibration error on retrieval test collections, and its coefficients.

usage: python -m benchmarks.relevance [COLLECTION...] [--keep FOLDER] [--svg FILE] [--texts FOLDER...]

Each collection is a library (as in `benchmarks/judged_library.py`). Its own queries have an answer there;
those of every other collection have none. Queries are weighted so that half of them have an answer, that all
collections of foreign queries count the same, and so do all libraries. This is the mean over drawings of as
many foreign queries as own ones. A result is relevant if its document is judged so; results that nobody
judged count as not relevant. Prints, by the fit on the other collections:

- AUC: how often the first result of a query with an answer has a greater value than that of one without;
- ECE: expected calibration error in ten bins, of first results and of the first ten. `match_score` and
  `term_coverage` are calibrated in the same way as baselines; "by chance" is the mean error that perfectly
  calibrated values would have with so few queries;
- relevant: the share of relevant results (first, first ten) of queries with an answer. It differs between
  collections, and a fit on other collections cannot know it.

Then the coefficients fitted on all collections, which are the constants of `shoal/search/relevance.py`, and
what each threshold would keep. `--svg` draws the calibration curve. `--texts` checks the constants on a
library of the texts in these folders (books and articles), with questions that they answer and questions that
they do not. No fit uses these questions.

Without arguments, the folders under $SHOAL_TEST_CORPORA are used.
"""

from __future__ import annotations

import argparse
import collections
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.hybrid import collection_folders
from benchmarks.judged_library import JudgedLibrary, read_collection
from shoal import DocFormat, Engine
from shoal.declared.search import LIKELY
from shoal.search.library_index import LibraryView
from shoal.search.matched_terms import TextWords
from shoal.search.query_analysis import analyze_query
from shoal.search.relevance import Evidence, find_evidence, relevance
from shoal.search.request import make_request
from shoal.storage.chunk_queries import profiles_of

Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

TOP = 10
BINS = 10
BASELINES = {"match_score": len(Evidence._fields), "term_coverage": 0}
SETS = {"TERMS_AND_REEFS": (0, 1, 2), "TERMS_ALONE": (0, 1), "REEFS_ALONE": (2,)}
"""Columns of each set of coefficients."""
NEWTON_STEPS = 25

ANSWERED = (
    "how does Captain Ahab hunt the white whale",
    "what happens to Raskolnikov after the murder of the pawnbroker",
    "how do volcanoes erupt and what is magma made of",
    "who discovered penicillin",
    "division of labour in a pin factory",
    "Jean Valjean steals the bishop's silver",
    "struggle for existence and natural selection among species",
    "how does photosynthesis turn light into sugar",
    "what did Benjamin Franklin say about virtue and daily habits",
    "the battle of Borodino and Napoleon",
    "treasure map and pirates on the island",
    "rules of chess and the movement of the knight",
    "Count Dracula's castle in Transylvania",
    "bleaching of coral by warm water",
    "why did Thoreau live in a cabin at the pond",
    "Elizabeth Bennet refuses Mr Darcy",
    "Dracula",
    "coffee",
    "supply and demand",
    "moons of Jupiter",
    "submarine Nautilus",
    "prisoner's dilemma",
)
"""Questions that the books and articles of the corpora answer."""
# "smartphone" was on this list until its result showed that the article on Apple is about them.
UNANSWERED = (
    "how do I bake sourdough bread at home",
    "kubernetes ingress controller configuration",
    "best strategy for fantasy football drafts",
    "symptoms of type 2 diabetes in children",
    "how to knit a cable sweater",
    "transformer neural network attention layers",
    "mortgage refinancing interest rates 2023",
    "how to tune a violin string",
    "history of the samurai in feudal Japan",
    "electric car battery recycling",
    "rules of cricket leg before wicket",
    "treatment of asthma with inhaled corticosteroids",
    "how do airplane jet engines work",
    "Netflix subscription price",
    "bitcoin mining",
    "yoga poses",
    "guitar chords",
    "the plot of Star Wars",
    "vaccination schedule for puppies",
    "javascript async functions",
    "how to remove wallpaper",
)


@dataclass(frozen=True)
class Results:
    """The first results of queries, one row each.

    values      f64 (n, 4): the evidence and `match_score`
    rank        i64 (n,): from 0
    relevant    bool (n,)
    library, queries_of  names of the collections that the library and the query come from
    """

    values: Doubles
    rank: npt.NDArray[np.int64]
    relevant: Bools
    library: npt.NDArray[np.str_]
    queries_of: npt.NDArray[np.str_]

    @property
    def answered(self) -> Bools:
        return np.asarray(self.library == self.queries_of)

    def where(self, chosen: Bools) -> Results:
        return Results(*(array[chosen] for array in vars(self).values()))

    def weights(self) -> Doubles:
        """Weights of the rows, adding up to 1; half of the weight is that of queries with an answer."""
        weights = np.zeros(len(self.rank))
        libraries = np.unique(self.library)
        for library in libraries:
            sources = np.unique(self.queries_of[self.library == library])
            for source in sources:
                rows = (self.library == library) & (self.queries_of == source)
                share = 0.5 if source == library else 0.5 / (len(sources) - 1)
                weights[rows] = share / len(libraries) / rows.sum()
        return weights


def first_results(library: JudgedLibrary, query: str) -> list[tuple[str, Evidence, float]]:
    """Source path, evidence and score of the first results of a query."""
    engine = library.engine
    query = query[: engine.settings.max_query_chars]
    results = engine.search(query, top_k=TOP).results
    heads = TextWords(["\n".join([result.document_title, *result.section_path]) for result in results])
    texts = TextWords([result.text for result in results])
    ids = [result.chunk_id for result in results]
    coverage = {result.chunk_id: result.term_coverage or 0.0 for result in results}
    with engine.database.snapshot() as snapshot:
        request = make_request(query, settings=engine.settings)
        view = LibraryView(snapshot, library.index, engine.scorer, engine.settings)
        analyzed_query = analyze_query(view, request)
        stored = profiles_of(snapshot, ids).scored_with(engine.scorer.data_checksum)
        evidence = find_evidence(stored, analyzed_query, ids, coverage, texts, heads)
    for result, each in zip(results, evidence, strict=True):
        assert result.relevance == relevance(each)
    return [
        (result.source_path or "", each, result.match_score)
        for result, each in zip(results, evidence, strict=True)
    ]


def collect(folders: Sequence[Path], databases: Path) -> Results:
    """Search every library with the queries of all collections."""
    rows = []
    read = {folder.name: read_collection(folder) for folder in folders}
    for folder in folders:
        library = JudgedLibrary(folder, databases / f"{folder.name}.db", learning=True)
        library.engine.start()
        same = collections.defaultdict(set)
        for document in read[folder.name][0]:
            same[document["content"]].add(document["source_path"])
        copies = {path: paths for paths in same.values() for path in paths}
        for name, (_, texts, judged) in read.items():
            for text, answers in zip(texts, judged, strict=True):
                for rank, (path, evidence, score) in enumerate(first_results(library, text)):
                    is_relevant = name == folder.name and not copies[path].isdisjoint(answers)
                    values = [0.0 if value is None else value for value in evidence]
                    rows.append(([*values, score], rank, is_relevant, folder.name, name))
        library.engine.close()
    return Results(*(np.array(column) for column in zip(*rows, strict=True)))


def fit(values: Doubles, relevant: Bools, weights: Doubles) -> Doubles:
    """Coefficients of a logistic regression, the constant first, by Newton's method."""
    columns = np.column_stack([np.ones(len(values)), values])
    coefficients = np.zeros(columns.shape[1])
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + np.exp(-columns @ coefficients))
        slope = columns.T @ (weights * (relevant - p))
        curvature = (columns * (weights * p * (1 - p))[:, None]).T @ columns
        coefficients += np.linalg.solve(curvature, slope)
    return coefficients


def fit_results(results: Results, columns: Sequence[int]) -> Doubles:
    """The fit of some columns. A result weighs 1 / rank, so that all others count little more than the
    first."""
    return fit(results.values[:, columns], results.relevant, results.weights() / (1 + results.rank))


def predict(results: Results, columns: Sequence[int], coefficients: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-coefficients[0] - results.values[:, columns] @ coefficients[1:])))


def auc(values: Doubles, positive: Bools, weights: Doubles) -> float:
    """Probability that a positive has a greater value than a negative; equal values count half."""
    _, places = np.unique(values, return_inverse=True)
    positives, negatives = np.bincount(places, weights * positive), np.bincount(places, weights * ~positive)
    below = np.cumsum(negatives) - negatives / 2
    return float(positives @ below / positives.sum() / negatives.sum())


def bins(p: Doubles, relevant: npt.NDArray[np.generic], weights: Doubles) -> Doubles:
    """(bins, 3): weight of each bin, sum of the probabilities, and weight of the relevant results."""
    places = np.minimum((p * BINS).astype(int), BINS - 1)
    return np.stack(
        [np.bincount(places, each, minlength=BINS) for each in (weights, weights * p, weights * relevant)],
        axis=1,
    )


def ece(p: Doubles, relevant: npt.NDArray[np.generic], weights: Doubles) -> float:
    """Expected calibration error: the mean distance of probability and share over the bins."""
    table = bins(p, relevant, weights)
    return float(np.abs(table[:, 1] - table[:, 2]).sum() / table[:, 0].sum())


def chance(p: Doubles, weights: Doubles, rounds: int = 200) -> float:
    """Mean calibration error if the probabilities were right."""
    rng = np.random.default_rng(0)
    return float(np.mean([ece(p, rng.random(len(p)) < p, weights) for _ in range(rounds)]))


def left_out(results: Results, columns: Sequence[int]) -> Doubles:
    """Probability of each result by the fit without its library's collection, its queries included."""
    p = np.zeros(len(results.rank))
    for name in np.unique(results.library):
        others = results.where((results.library != name) & (results.queries_of != name))
        p[results.library == name] = predict(results, columns, fit_results(others, columns))[
            results.library == name
        ]
    return p


def print_quality(results: Results) -> Doubles:
    """Print AUC and ECE with one collection left out; returns the probabilities."""
    columns = {"relevance": SETS["TERMS_AND_REEFS"]} | {name: (column,) for name, column in BASELINES.items()}
    p = {name: left_out(results, chosen) for name, chosen in columns.items()}
    names = np.unique(results.library).tolist()
    rows: dict[str, list[list[float]]] = {name: [] for name in p}
    print(f"{'left out':12}{'':16}{'AUC':>8}{'ECE first':>11}{'by chance':>11}{'ECE ten':>9}{'relevant':>12}")
    for name in [*names, "all"]:
        chosen = np.ones(len(results.rank), dtype=np.bool_) if name == "all" else results.library == name
        part = results.where(chosen)
        weights, first = part.weights(), part.rank == 0
        of_first = part.where(first).weights()
        shares = [
            float(part.relevant[rows_ & part.answered].mean()) for rows_ in (first, np.ones_like(first))
        ]
        for kind, values in p.items():
            own = values[chosen]
            row = [
                auc(own[first], part.answered[first], of_first),
                ece(own[first], part.relevant[first], of_first),
                chance(own[first], of_first),
                ece(own, part.relevant, weights),
            ]
            rows[kind].append(row)
            end = f"{shares[0]:6.0%}{shares[1]:6.0%}" if kind == "relevance" else ""
            print(f"{name:12}{kind:16}{row[0]:8.3f}{row[1]:11.3f}{row[2]:11.3f}{row[3]:9.3f}{end}")
    for kind, table in rows.items():
        mean = np.mean(table[:-1], axis=0)
        print(f"{'mean':12}{kind:16}{mean[0]:8.3f}{mean[1]:11.3f}{mean[2]:11.3f}{mean[3]:9.3f}")
    return p["relevance"]


def print_constants(results: Results) -> None:
    """Print the coefficients fitted on all collections, and how well they fit there."""
    first = results.rank == 0
    print("\nfitted on all collections")
    for name, columns in SETS.items():
        coefficients = fit_results(results, columns)
        p = predict(results, columns, coefficients)
        of_first = results.where(first).weights()
        quality = (
            auc(p[first], results.answered[first], of_first),
            ece(p[first], results.relevant[first], of_first),
            ece(p, results.relevant, results.weights()),
        )
        print(f"{name:16}{np.round(coefficients, 3).tolist()}  AUC {quality[0]:.3f}", end="")
        print(f", ECE first {quality[1]:.3f}, ten {quality[2]:.3f}")


def print_thresholds(results: Results, p: Doubles) -> None:
    """Print the share of queries whose best result reaches a threshold."""
    starts = np.flatnonzero(results.rank == 0)
    best = np.maximum.reduceat(p, starts)
    queries = results.where(results.rank == 0)
    weights = queries.weights()
    print("\nqueries with a result from a threshold on (left out), of those with an answer and of the others")
    for threshold in (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5):
        shares = [
            float(weights[kind & (best >= threshold)].sum() / weights[kind].sum())
            for kind in (queries.answered, ~queries.answered)
        ]
        print(f"{threshold:.2f}{shares[0]:8.1%}{shares[1]:8.1%}")


def check(engine: Engine) -> None:
    """Print the relevance of the first results of questions to books and articles."""
    values = []
    for question in (*ANSWERED, *UNANSWERED):
        results = engine.search(question).results
        best = max((result.relevance for result in results), default=0.0)
        first = results[0] if results else None
        values.append((first.relevance, first.match_score) if first else (0.0, 0.0))
        print(f"{values[-1][0]:.2f} (best {best:.2f}, score {values[-1][1]:.2f})  {question}")
    answered = np.arange(len(values)) < len(ANSWERED)
    for name, column in zip(("relevance", "match_score"), np.array(values).T, strict=True):
        print(f"AUC of {name}: {auc(column, answered, np.ones(len(values))):.3f}")


def draw(results: Results, p: Doubles) -> str:
    """The calibration curve of the first results and of all, as SVG."""
    size, edge = 320, 44
    whole = size + 2 * edge
    axes = f"M{edge} {edge}V{edge + size}H{edge + size}M{edge} {edge + size}L{edge + size} {edge}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {whole}" font-family="sans-serif">',
        "<title>Share of relevant results by relevance, each collection left out of its fit</title>",
        f'<rect width="{whole}" height="{whole}" fill="#fff"/>',
        f'<path d="{axes}" fill="none" stroke="#999"/>',
    ]
    for tick in (0.0, 0.5, 1.0):
        at = edge + tick * size
        down = edge + size - tick * size
        parts.append(f'<text x="{at:g}" y="{edge + size + 16}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{edge - 8}" y="{down + 4:g}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<text x="{edge + size / 2:g}" y="{whole - 6}" text-anchor="middle">relevance</text>')
    parts.append(f'<text x="{edge}" y="{edge - 14}">share of relevant results</text>')
    kinds = (("first results", "#1f6f8b", results.rank == 0), ("first ten", "#c2571a", results.rank >= 0))
    for line, (name, color, chosen) in enumerate(kinds):
        part = results.where(chosen)
        table = bins(p[chosen], part.relevant, part.weights())
        table = table[table[:, 0] > 0]
        points = [
            (edge + size * mean / weight, edge + size - size * relevant / weight)
            for weight, mean, relevant in table.tolist()
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>' for x, y in points]
        parts.append(f'<text x="{edge + 12}" y="{edge + 16 + 18 * line}" fill="{color}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def open_texts(folders: Sequence[Path], database: Path) -> Engine:
    """A library of the texts in folders; ingests them unless the database has documents."""
    engine = Engine(db_path=database)
    if not engine.status().n_documents:
        engine.ingest_many(
            {
                "title": path.stem.replace("-", " "),
                "content": path.read_text(encoding="utf-8"),
                "format": DocFormat.markdown if path.suffix == ".md" else DocFormat.plaintext,
                "source_path": path.name,
            }
            for folder in folders
            for path in sorted(folder.iterdir())
        )
    return engine


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", type=Path, nargs="*")
    parser.add_argument("--keep", type=Path, help="folder for the databases NAME.db")
    parser.add_argument("--svg", type=Path, help="file for the calibration curve")
    parser.add_argument("--texts", type=Path, nargs="*", default=[], help="folders of books and articles")
    options = parser.parse_args()
    folders = collection_folders(options.collections)
    texts = list(options.texts)
    if not options.collections and not texts and "SHOAL_TEST_CORPORA" in os.environ:
        corpora = Path(os.environ["SHOAL_TEST_CORPORA"]) / "corpora"
        texts = [corpora / "books", corpora / "wikipedia"]
    if len(folders) < 3:
        parser.error("give three collection folders or more, or set SHOAL_TEST_CORPORA")
    with tempfile.TemporaryDirectory() as scratch:
        databases = options.keep or Path(scratch)
        results = collect(folders, databases)
        p = print_quality(results)
        print_constants(results)
        print_thresholds(results, p)
        print(f"the threshold of the warning: {LIKELY}")
        if options.svg:
            options.svg.write_text(draw(results, p), encoding="utf-8")
        if texts:
            print("\nbooks and articles")
            with open_texts(texts, databases / "books.db") as engine:
                check(engine)


if __name__ == "__main__":
    main()
