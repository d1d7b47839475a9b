"""Choice of the defaults of hybrid search: nDCG@10 of every alternative on retrieval test collections.

usage: python -m benchmarks.hybrid [COLLECTION...] [--keep FOLDER] [--no-learning] [--only PART,...]

Collections are ingested into temporary databases (with --keep into databases that are reused), and documents
are ranked by their best chunks. Parts:

    modes      lexical, reef and hybrid with the defaults
    lexical    weights of the title and of the block of chunks
    feedback_profile  the query's own profile compared with its profile after pseudo-relevance feedback, by
                      reefs alone
    blend      all combinations of profile, trust factor, reef weight and field boost: the best by mean gain
               over BM25, the gain of each collection with the best combination of the others, and the default
    fusion     the default compared with min-max over the best thousand, and with reciprocal rank fusion
    feedback   words of the best passages added to the query

Without arguments, the collections under $SHOAL_TEST_CORPORA are used.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import math
import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.judged_library import Doubles, JudgedLibrary, at, of_best
from benchmarks.word_contexts import ContextOptions, WordContext, adapt, max_informative_chunks
from shoal.index.scoring import BM25, UNIT
from shoal.models.search import BUILT_IN, Fusion
from shoal.search.query_language import Term
from shoal.search.query_profile import MAX_REEFS, N_FEEDBACK_CHUNKS, STEEPNESS, choose
from shoal.search.signals import HALF_TRUST_Z, RRF_K, parts
from shoal.settings import Settings
from shoal.words.analysis import stems_of, tokens_of

REEF_WEIGHTS = (0.2, 0.3, 0.4, 0.5, 0.6)
BONUS_WEIGHTS = (0.0, 0.05, 0.1)
FEEDBACK_TERMS = 20
FEEDBACK_WEIGHTS = (0.1, 0.3)


class FeedbackOptions(NamedTuple):
    """Feedback chunks of a query: their number, the steepness of their weights, and their share besides the
    query."""

    n: int = N_FEEDBACK_CHUNKS
    steepness: float = STEEPNESS
    share: float = Settings().feedback_weight
    max_reefs: int = MAX_REEFS

    def __str__(self) -> str:
        return f"feedback of {self.n} chunks, steepness {self.steepness:g}, share {self.share:g}"


class Blend(NamedTuple):
    profile: str
    fall: str
    reef: float
    field_boost: float

    def __str__(self) -> str:
        return (
            f"{self.profile}; reefs {self.reef:g}, trust factor {self.fall}, field boost {self.field_boost:g}"
        )


def feedback_profiles(library: JudgedLibrary, kept: FeedbackOptions) -> Doubles:
    """(q, reefs): profiles after feedback as in `shoal.search.query_profile`."""
    profiles = []
    scores = np.round(library.lexical() * UNIT).astype(np.int64)
    for own, row in zip(library.own, scores, strict=True):
        if not own.any() or not row.any():
            profiles.append(own)
            continue
        shares = choose(library.chunk_ids, row, n=kept.n, steepness=kept.steepness)
        places = np.searchsorted(library.chunk_ids, list(shares))
        profiles.append(
            _strongest(
                own + kept.share * _scaled(list(shares.values()) @ library.weights[places], own),
                kept.max_reefs,
            )
        )
    return np.stack(profiles)


def word_context_profiles(library: JudgedLibrary, share: float) -> Doubles:
    """(q, reefs): profiles moved towards the mean profiles of the chunks with each word."""
    average, n_chunks = library.weights.mean(axis=0), len(library.chunk_ids)
    options = ContextOptions(share=share, max_reefs=MAX_REEFS)
    profiles = []
    for query, own in zip(library.queries, library.own, strict=True):
        words = []
        for term in query.parsed.terms:
            holding = library.holding(term)
            if 0 < len(holding) <= max_informative_chunks(n_chunks, options):
                words.append(WordContext(term.text, len(holding), library.weights[holding].mean(axis=0)))
        profiles.append(adapt(own, words, average, n_chunks, options).profile)
    return np.stack(profiles)


def _scaled(profile: Doubles, own: Doubles) -> Doubles:
    length = float(np.linalg.norm(profile))
    return profile * (float(np.linalg.norm(own)) / length if length else 0.0)


def _strongest(profile: Doubles, n: int) -> Doubles:
    kept = profile.copy()
    kept[np.argsort(-profile, kind="stable")[n:]] = 0.0
    return kept


def falls(library: JudgedLibrary) -> Mapping[str, Doubles]:
    """(q,) by name: trust factors, by which the reef weight is multiplied."""
    strength = np.array([query.strength for query in library.queries])
    words = np.array([query.known_words for query in library.queries])
    lead = np.array([query.lead for query in library.queries])
    return {
        "none": np.ones(len(strength)),
        "z/(z+4)": strength / (strength + HALF_TRUST_Z),
        "z/(z+8)": strength / (strength + 2 * HALF_TRUST_Z),
        "words/(words+0.5)": words / (words + 0.5),
        "words/(words+2)": words / (words + 2.0),
        "lead/(lead+0.5)": lead / (lead + 0.5),
    }


def show(label: str, values: Sequence[float], base: Sequence[float] | None = None) -> None:
    line: dict[str, object] = {"what": label, "ndcg@10": [round(value, 4) for value in values]}
    line["mean"] = round(statistics.mean(values), 4)
    if base is not None:
        gains = [100 * (value / before - 1) for value, before in zip(values, base, strict=True)]
        line |= {
            "gain %": [round(gain, 1) for gain in gains],
            "mean gain %": round(statistics.mean(gains), 2),
        }
    print(json.dumps(line), flush=True)


def modes_part(libraries: Sequence[JudgedLibrary]) -> None:
    base = [library.ndcg(library.lexical()) for library in libraries]
    show("lexical", base)
    reefs = [library.overlap(feedback_profiles(library, FeedbackOptions())) for library in libraries]
    show("reef", [library.ndcg(scores) for library, scores in zip(libraries, reefs, strict=True)], base)
    blends = [
        default_blend(library, of_best(library.lexical()), of_best(scores))
        for library, scores in zip(libraries, reefs, strict=True)
    ]
    show("hybrid", [library.ndcg(scores) for library, scores in zip(libraries, blends, strict=True)], base)


def lexical_part(libraries: Sequence[JudgedLibrary]) -> None:
    for title in (0.0, 1.0, 2.0, 3.0, 5.0):
        bm25 = BM25._replace(weights=BM25.weights._replace(title=title))
        show(f"title counts {title:g}", [library.ndcg(library.lexical(bm25)) for library in libraries])
    base = [library.ndcg(library.lexical()) for library in libraries]
    for share in (0.0, 0.25, 0.75, 1.0):
        bm25 = BM25._replace(context=share)
        helped = [library.ndcg(library.lexical(bm25)) for library in libraries]
        show(f"the block of chunks counts {share:g}", helped, base)


def feedback_profile_part(libraries: Sequence[JudgedLibrary]) -> None:
    base = [library.ndcg(library.overlap(library.own)) for library in libraries]
    show("own profile", base)
    for share in (0.5, 1.0):
        profiles = [
            library.ndcg(library.overlap(word_context_profiles(library, share))) for library in libraries
        ]
        show(f"context of each word, share {share:g}", profiles, base)
    others = [FeedbackOptions(n, steepness) for n in (1, 2, 3, 5, 10) for steepness in (1, STEEPNESS)]
    for kept in (
        *others,
        FeedbackOptions(share=0.25),
        FeedbackOptions(share=1.0),
        FeedbackOptions(share=2.0),
    ):
        show(
            str(kept),
            [library.ndcg(library.overlap(feedback_profiles(library, kept))) for library in libraries],
            base,
        )


def blend_part(libraries: Sequence[JudgedLibrary]) -> None:
    chosen = str(FeedbackOptions())
    profiles = {
        "own profile": [library.own for library in libraries],
        "context of each word, share 0.5": [word_context_profiles(library, 0.5) for library in libraries],
        chosen: [feedback_profiles(library, FeedbackOptions()) for library in libraries],
        str(FeedbackOptions(share=1.0)): [
            feedback_profiles(library, FeedbackOptions(share=1.0)) for library in libraries
        ],
    }
    results: dict[Blend, list[float]] = {}
    base = []
    for i, library in enumerate(libraries):
        lexical, field_boost = of_best(library.lexical()), library.field_boost()
        reefs = {
            name: of_best(library.overlap(values[i])) * library.demanded for name, values in profiles.items()
        }
        signals = [
            lexical,
            lexical + field_boost,
            *reefs.values(),
            *(lexical + reef for reef in reefs.values()),
        ]
        candidates = library.candidates(signals)
        lexical, field_boost = at(lexical, candidates), at(field_boost, candidates)
        base.append(library.ndcg(lexical, candidates))
        for name, scores in reefs.items():
            reef = at(scores, candidates)
            for (fall, trust_factor), weight, boost in itertools.product(
                falls(library).items(), REEF_WEIGHTS, BONUS_WEIGHTS
            ):
                blended = (
                    (1 - weight) * lexical + (weight * trust_factor)[:, None] * reef + boost * field_boost
                )
                results.setdefault(Blend(name, fall, weight, boost), []).append(
                    library.ndcg(blended, candidates)
                )
    show("lexical", base)
    gains = {
        blend: [100 * (value / before - 1) for value, before in zip(values, base, strict=True)]
        for blend, values in results.items()
    }

    def best(of: Sequence[int]) -> Blend:
        return max(gains, key=lambda blend: statistics.mean(gains[blend][i] for i in of))

    all_collections = range(len(libraries))
    show(f"best of {len(gains)}: {best(all_collections)}", results[best(all_collections)], base)
    for fall in dict.fromkeys(blend.fall for blend in gains):
        winner = max((b for b in gains if b.fall == fall), key=lambda b: statistics.mean(gains[b]))
        show(f"best with trust factor {fall}: {winner}", results[winner], base)
    for name in profiles:
        winner = max((b for b in gains if b.profile == name), key=lambda b: statistics.mean(gains[b]))
        show(f"best with {name}: {winner}", results[winner], base)
    for label, eligible in (
        ("anything", list(gains)),
        ("weights, given the default feedback", [blend for blend in gains if blend.profile == chosen]),
    ):
        _leave_one_out(
            label, [library.name for library in libraries], {blend: gains[blend] for blend in eligible}
        )
    default = Blend(chosen, "z/(z+4)", 0.5, 0.05)
    show(f"default: {default}", results[default], base)


def _leave_one_out(label: str, names: Sequence[str], gains: Mapping[Blend, Sequence[float]]) -> None:
    """Print the gain of each collection with the blend that is best on the others."""
    held_out = []
    for i in range(len(names)):
        others = [j for j in range(len(names)) if j != i]
        choice = max(gains, key=lambda blend: sum(gains[blend][j] for j in others))
        held_out.append(gains[choice][i])
        print(
            json.dumps(
                {
                    "chosen": label,
                    "left out": names[i],
                    "others choose": str(choice),
                    "gain %": round(gains[choice][i], 1),
                }
            )
        )
    print(json.dumps({"chosen": label, "mean gain % left out": round(statistics.mean(held_out), 2)}))


def default_blend(library: JudgedLibrary, lexical: Doubles, reef: Doubles) -> Doubles:
    weights = BUILT_IN["balanced"].weights
    trust_factor = falls(library)["z/(z+4)"][:, None]
    reef = reef * library.demanded
    return (
        weights.lexical * lexical
        + weights.reef * trust_factor * reef
        + weights.field_boost * library.field_boost()
    )


def fusion_part(libraries: Sequence[JudgedLibrary]) -> None:
    base = [library.ndcg(library.lexical()) for library in libraries]
    show("lexical", base)
    rows: dict[str, list[float]] = collections.defaultdict(list)
    for library in libraries:
        lexical, reef = library.lexical(), library.overlap(feedback_profiles(library, FeedbackOptions()))
        rows["scores over the largest, the default"].append(
            library.ndcg(default_blend(library, of_best(lexical), of_best(reef)))
        )
        rows["min-max over the best thousand"].append(
            library.ndcg(default_blend(library, _min_max(lexical), _min_max(reef)))
        )
        rows[f"reciprocal ranks, k = {RRF_K}"].append(library.ndcg(by_ranks(lexical) + by_ranks(reef)))
        rows["the same, with the weights of the default"].append(
            library.ndcg(default_blend(library, by_ranks(lexical), by_ranks(reef)))
        )
    for label, values in rows.items():
        show(label, values, base)


def _min_max(scores: Doubles) -> Doubles:
    best = -np.sort(-scores, axis=1)[:, :1000]
    low, high = best[:, -1:], best[:, :1]
    return np.clip((scores - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)


def by_ranks(scores: Doubles) -> Doubles:
    """(q, c): reciprocal ranks, scaled so that the first has 1."""
    return np.stack([parts(np.round(row * 1e9).astype(np.int64), Fusion.rrf) for row in scores])


def feedback_part(libraries: Sequence[JudgedLibrary]) -> None:
    base = [library.ndcg(library.lexical()) for library in libraries]
    show("lexical", base)
    rows: dict[str, list[float]] = collections.defaultdict(list)
    defaults = []
    for library in libraries:
        lexical, reef = (
            library.lexical(),
            of_best(library.overlap(feedback_profiles(library, FeedbackOptions()))),
        )
        defaults.append(library.ndcg(default_blend(library, of_best(lexical), reef)))
        for name, terms in _feedback(library, lexical).items():
            added = library.by_terms(terms)
            for weight in FEEDBACK_WEIGHTS:
                expanded, label = lexical + weight * added, f"{name}, weight {weight:g}"
                rows[f"lexical, {label}"].append(library.ndcg(expanded))
                rows[f"hybrid, {label}"].append(library.ndcg(default_blend(library, of_best(expanded), reef)))
    show("hybrid", defaults, base)
    for label, values in sorted(rows.items(), reverse=True):
        show(label, values, base if label.startswith("lexical") else defaults)


def _feedback(library: JudgedLibrary, lexical: Doubles) -> Mapping[str, list[tuple[Term, ...]]]:
    """Most informative words of the best chunks of each query: of all, and of those most similar to it by
    reefs."""
    with library.engine.database.snapshot() as snapshot:
        rows = snapshot.tuples("SELECT text FROM chunks ORDER BY document_id, id")
        words = [collections.Counter(token.lower() for token in tokens_of(text)) for (text,) in rows]
    forms = sorted({form for counts in words for form in counts})
    stem_of = dict(zip(forms, stems_of(forms), strict=True))
    n_holding = collections.Counter(stem for counts in words for stem in {stem_of[form] for form in counts})
    overlap = library.overlap(library.own)
    results: dict[str, list[tuple[Term, ...]]] = {
        "words of the best 5": [],
        "of the best 10": [],
        "of 5 of 10 by reefs": [],
    }
    for i, query in enumerate(library.queries):
        own = {stem for term in query.parsed.terms for stem in stems_of(term.tokens)}
        order = np.argsort(-lexical[i], kind="stable")[:10]
        order = order[lexical[i][order] > 0]
        most_similar = order[np.argsort(-overlap[i][order], kind="stable")[:5]]
        for chosen, name in zip((order[:5], order, most_similar), results, strict=True):
            informativeness: collections.Counter[str] = collections.Counter()
            form_of: dict[str, str] = {}
            for chunk in chosen:
                for form, count in words[chunk].items():
                    stem = stem_of[form]
                    if stem not in own and form.isalpha():
                        form_of.setdefault(stem, form)
                        informativeness[stem] += count * math.log(len(words) / n_holding[stem])
            best = sorted(informativeness, key=lambda stem: (-informativeness[stem], stem))[:FEEDBACK_TERMS]
            results[name].append(tuple(Term((form_of[stem],)) for stem in best))
    return results


PARTS = {
    "modes": modes_part,
    "lexical": lexical_part,
    "feedback_profile": feedback_profile_part,
    "blend": blend_part,
    "fusion": fusion_part,
    "feedback": feedback_part,
}


def collection_folders(folders: Sequence[Path]) -> list[Path]:
    """`folders`, or else all under $SHOAL_TEST_CORPORA."""
    if not folders and "SHOAL_TEST_CORPORA" in os.environ:
        return sorted((Path(os.environ["SHOAL_TEST_CORPORA"]) / "collections").iterdir())
    return list(folders)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", type=Path, nargs="*")
    parser.add_argument("--keep", type=Path, help="folder for the databases NAME.db")
    parser.add_argument("--no-learning", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    options = parser.parse_args()
    folders = collection_folders(options.collections)
    if not folders:
        parser.error("give collection folders, or set SHOAL_TEST_CORPORA")
    with tempfile.TemporaryDirectory() as scratch:
        libraries = list(_opened(folders, options.keep or Path(scratch), learning=not options.no_learning))
        print(
            json.dumps(
                {"collections": [library.name for library in libraries], "learning": not options.no_learning}
            )
        )
        for name in options.only.split(","):
            print(f"-- {name}", flush=True)
            PARTS[name](libraries)
        for library in libraries:
            library.engine.close()


def _opened(folders: Sequence[Path], databases: Path, *, learning: bool) -> Iterator[JudgedLibrary]:
    for folder in folders:
        yield JudgedLibrary(folder, databases / f"{folder.name}.db", learning=learning)


if __name__ == "__main__":
    main()
