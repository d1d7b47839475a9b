"""Choice of the weights of the dense signal: nDCG@10 on retrieval test collections.

usage: python -m benchmarks.dense_blend [COLLECTION...] --keep FOLDER [--seed N]

Uses the encoder of SHOAL_ENCODER. Databases and vectors are kept in the folder, so that a second run embeds
nothing. Chunks are embedded with the title of their document, as documents are after a job
(`Encoder.embed`). Prints:

    singles   each signal alone, and the blend without vectors weights   dense weights beside the known
    weights of `balanced`, with several shares of the reef weight; then
              for each collection the gain with the weights that are best on the others
    ways      other normalizations, reciprocal rank fusion, the mean vector of a document beside that of its
              chunk, and feedback: the query moved towards the first passages of the blend
    floor     share of chunks of one collection above the floor of another's queries, and of relevant
              documents above that of their own, by number of standard deviations
    missing   a random half of the vectors missing: what becomes of chunks without one

Without arguments, the collections under $SHOAL_TEST_CORPORA are used.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.hybrid import FeedbackOptions, by_ranks, collection_folders, falls, feedback_profiles, show
from benchmarks.judged_library import Doubles, JudgedLibrary, of_best
from shoal.encoders.encoder import Encoder, TextKind, open_encoder
from shoal.models.search import BUILT_IN
from shoal.search.query_profile import MAX_REEFS_WITH_WORDS
from shoal.search.query_vectors import FLOOR_DEVIATIONS, UNRELATED
from shoal.search.signals import REEFS_BESIDE_VECTORS
from shoal.settings import Settings

BALANCED = BUILT_IN["balanced"].weights
DENSE_WEIGHTS = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
REEF_FACTORS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the reef weight that are left where there are vectors."""
DEVIATIONS = (1.0, 2.0, 3.0, 4.0)
ESTIMATES = (0.0, 0.8, 0.9, 1.0, 1.1, 1.2)
TEXTS = """
    SELECT d.title, c.text FROM chunks c JOIN documents d ON d.id = c.document_id ORDER BY c.document_id, c.id
"""


class Signals(NamedTuple):
    """The signals of a collection, (q, c) each: normalized words, reefs times trust factor, and field boost;
    cosines. `trust` is (q, 1), `floor` (q, 1), `queries` (q, n) and `chunks` (c, n) are vectors."""

    library: JudgedLibrary
    words: Doubles
    reefs: Doubles
    boost: Doubles
    trust: Doubles
    cosines: Doubles
    unrelated: Doubles
    queries: Doubles
    chunks: Doubles

    def floor(self, deviations: float = FLOOR_DEVIATIONS) -> Doubles:
        own = self.queries @ self.unrelated.T
        floors = own.mean(axis=1, keepdims=True) + deviations * own.std(axis=1, keepdims=True)
        return np.clip(floors, 0.0, 1.0)

    def dense(self, cosines: Doubles | None = None, floor: Doubles | float | None = None) -> Doubles:
        """(q, c): normalized as in `shoal.search.signals`."""
        cosines = self.cosines if cosines is None else cosines
        lowest = self.floor() if floor is None else floor
        return of_best(np.maximum(cosines - lowest, 0.0)) * self.library.demanded

    def known(self, reef_factor: float = 1.0) -> tuple[Doubles, Doubles]:
        """The sum of the known parts, and that of their weights (q, 1)."""
        reef = BALANCED.reef * reef_factor
        parts = BALANCED.lexical * self.words + reef * self.reefs + BALANCED.field_boost * self.boost
        return parts, BALANCED.lexical + reef * self.trust + BALANCED.field_boost

    def blend(
        self, weight: float, reef_factor: float = REEFS_BESIDE_VECTORS, dense: Doubles | None = None
    ) -> Doubles:
        parts, total = self.known(reef_factor)
        return (parts + weight * (self.dense() if dense is None else dense)) / (total + weight)


def read_signals(folder: Path, keep: Path, encoder: Callable[[], Encoder]) -> Signals:
    """Ingest and embed a collection, or read what is kept."""
    library = JudgedLibrary(folder, keep / f"{folder.name}.db", learning=True)
    with library.engine.database.snapshot() as snapshot:
        texts = [f"{title}\n\n{text}" for title, text in snapshot.tuples(TEXTS)]
    vectors = [
        _embedded(keep, f"{folder.name}-{name}", some, kind, encoder)
        for name, some, kind in (
            ("queries", library.texts, TextKind.query),
            ("chunks", texts, TextKind.document),
            ("unrelated", list(UNRELATED), TextKind.document),
        )
    ]
    trust = falls(library)["z/(z+4)"][:, None]
    reefs = library.overlap(feedback_profiles(library, FeedbackOptions(max_reefs=MAX_REEFS_WITH_WORDS)))
    queries, chunks, unrelated = vectors
    return Signals(
        library,
        of_best(library.lexical()),
        of_best(reefs * library.demanded) * trust,
        library.field_boost(),
        trust,
        queries @ chunks.T,
        unrelated,
        queries,
        chunks,
    )


def _embedded(
    keep: Path, name: str, texts: Sequence[str], kind: TextKind, encoder: Callable[[], Encoder]
) -> Doubles:
    """The vectors of texts, kept in a file that is named by their content."""
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
    path = keep / f"{name}-{digest}.npy"
    if not path.exists():
        np.save(path, encoder().embed(texts, kind))
    return np.asarray(np.load(path), dtype=np.float64)


def singles_part(all_signals: Sequence[Signals]) -> None:
    base = scored(all_signals, lambda signals: signals.words)
    show("words", base)
    show("reefs", scored(all_signals, lambda signals: signals.reefs))
    show("vectors", scored(all_signals, lambda signals: np.maximum(signals.cosines, 0.0)))
    show("vectors above the floor", scored(all_signals, lambda signals: signals.dense()))
    show("words and reefs", scored(all_signals, lambda signals: signals.known()[0]), base)


def weights_part(all_signals: Sequence[Signals]) -> None:
    base = scored(all_signals, lambda signals: signals.words)
    results = {
        (weight, factor): scored(all_signals, lambda signals, w=weight, f=factor: signals.blend(w, f))
        for weight, factor in itertools.product(DENSE_WEIGHTS, REEF_FACTORS)
    }
    for (weight, factor), values in results.items():
        show(f"dense {weight:g}, reef weight times {factor:g}", values, base)
    for label, choices in (
        ("dense weight alone", [key for key in results if key[1] == 1.0]),
        ("both", list(results)),
    ):
        left_out = []
        for i, signals in enumerate(all_signals):
            others = [j for j in range(len(all_signals)) if j != i]
            best = max(choices, key=lambda key: sum(results[key][j] for j in others))
            left_out.append(results[best][i])
            print(json.dumps({"chosen": label, "left out": signals.library.name, "others choose": best}))
        show(f"left out: {label}", left_out, base)


def ways_part(all_signals: Sequence[Signals]) -> None:
    base = scored(all_signals, lambda signals: signals.words)
    weight = BALANCED.dense
    for label, floor in (("no floor", 0.0), ("floor 0.2", 0.2), ("floor 0.3", 0.3)):
        show(label, scored(all_signals, lambda s, f=floor: s.blend(weight, dense=s.dense(floor=f))), base)
    for deviations in (0.0, 1.0, 2.0):
        show(
            f"over the library, mean and {deviations:g} deviations",
            scored(
                all_signals, lambda s, d=deviations: s.blend(weight, dense=s.dense(floor=_of_library(s, d)))
            ),
            base,
        )
    show(
        "reciprocal ranks of three signals",
        scored(all_signals, lambda s: by_ranks(s.words) + by_ranks(s.reefs) + by_ranks(s.dense())),
        base,
    )
    show(
        "reciprocal ranks of words and vectors",
        scored(all_signals, lambda s: by_ranks(s.words) + by_ranks(s.dense())),
        base,
    )
    for share in (0.2, 0.4):
        cosines = scored(all_signals, lambda s, x=share: s.blend(weight, dense=s.dense(_with_document(s, x))))
        show(f"the mean of the document counts {share:g}", cosines, base)
    for n, share in ((3, 0.2), (3, 0.4), (5, 0.2), (5, 0.4)):
        moved = scored(
            all_signals,
            lambda s, k=n, x=share: s.blend(weight, dense=s.dense(_moved(s, s.blend(weight), k, x))),
        )
        show(f"feedback of {n} passages, share {share:g}", moved, base)


def _of_library(signals: Signals, deviations: float) -> Doubles:
    cosines = signals.cosines
    return cosines.mean(axis=1, keepdims=True) + deviations * cosines.std(axis=1, keepdims=True)


def _with_document(signals: Signals, share: float) -> Doubles:
    library = signals.library
    means = np.add.reduceat(signals.chunks, library.starts, axis=0)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    of_document = (signals.queries @ means.T)[:, library.document]
    return (1 - share) * signals.cosines + share * of_document


def _moved(signals: Signals, scores: Doubles, n: int, share: float) -> Doubles:
    """(q, c): cosines of queries moved towards the mean vector of their first chunks."""
    first = np.argpartition(-scores, n, axis=1)[:, :n]
    means = signals.chunks[first].mean(axis=1)
    queries = signals.queries + share * means / np.linalg.norm(means, axis=1, keepdims=True)
    return (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ signals.chunks.T


def floor_part(all_signals: Sequence[Signals]) -> None:
    for deviations in DEVIATIONS:
        foreign = [
            float((queries.queries @ texts.chunks.T > queries.floor(deviations)).mean())
            for queries, texts in itertools.permutations(all_signals, 2)
        ]
        kept = [_share_of_relevant(signals, deviations) for signals in all_signals]
        line = {
            "deviations": deviations,
            "unrelated above, %": round(100 * statistics.mean(foreign), 2),
            "relevant above, %": [round(100 * share, 1) for share in kept],
        }
        print(json.dumps(line), flush=True)


def _share_of_relevant(signals: Signals, deviations: float) -> float:
    library = signals.library
    best = np.maximum.reduceat(signals.cosines, library.starts, axis=1)
    is_relevant = np.array([[sum(gains) > 0 for gains in row] for row in library.gains])
    return float((best > signals.floor(deviations))[is_relevant].mean())


def missing_part(all_signals: Sequence[Signals], seed: int) -> None:
    base = scored(all_signals, lambda signals: signals.known()[0])
    show("words and reefs", base)
    show("all vectors", scored(all_signals, lambda signals: signals.blend(BALANCED.dense)), base)
    random = np.random.default_rng(seed)
    present = [random.random(len(signals.chunks)) < 0.5 for signals in all_signals]
    by_document = [
        (random.random(len(signals.library.starts)) < 0.5)[signals.library.document]
        for signals in all_signals
    ]
    for what, masks in (("chunks", present), ("documents", by_document)):
        for estimate in ESTIMATES:
            values = [
                signals.library.ndcg(_with_missing(signals, mask, estimate))
                for signals, mask in zip(all_signals, masks, strict=True)
            ]
            show(f"half of the {what} without a vector, estimate {estimate:g}", values, base)


def _with_missing(signals: Signals, has_vector: np.ndarray, estimate: float) -> Doubles:
    known, total = signals.known(1.0 - (1.0 - REEFS_BESIDE_VECTORS) * float(has_vector.mean()))
    dense = signals.dense(np.where(has_vector, signals.cosines, 0.0))
    parts = np.where(has_vector, dense, estimate * known / total)
    return (known + BALANCED.dense * parts) / (total + BALANCED.dense)


def scored(all_signals: Sequence[Signals], scores: Callable[..., Doubles]) -> list[float]:
    return [signals.library.ndcg(scores(signals)) for signals in all_signals]


def _all_signals(folders: Sequence[Path], keep: Path) -> Iterator[Signals]:
    opened: list[Encoder] = []

    def encoder() -> Encoder:
        if not opened:
            found = open_encoder(Settings.from_environment())
            if found is None:
                raise SystemExit("set SHOAL_ENCODER to an encoder")
            opened.append(found)
        return opened[0]

    for folder in folders:
        yield read_signals(folder, keep, encoder)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", type=Path, nargs="*")
    parser.add_argument("--keep", type=Path, required=True, help="folder for databases and vectors")
    parser.add_argument("--seed", type=int, default=1, help="of the missing vectors")
    options = parser.parse_args()
    folders = collection_folders(options.collections)
    if not folders:
        parser.error("give collection folders, or set SHOAL_TEST_CORPORA")
    options.keep.mkdir(parents=True, exist_ok=True)
    all_signals = list(_all_signals(folders, options.keep))
    print(json.dumps({"collections": [signals.library.name for signals in all_signals]}))
    for name, part in (
        ("singles", singles_part),
        ("weights", weights_part),
        ("ways", ways_part),
        ("floor", floor_part),
        ("missing", lambda signals: missing_part(signals, options.seed)),
    ):
        print(f"-- {name}", flush=True)
        part(all_signals)
    for signals in all_signals:
        signals.library.engine.close()


if __name__ == "__main__":
    main()
