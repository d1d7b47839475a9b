"""Truth of similarities: paraphrases against opposites and other texts, and answers of questions.

usage: python -m benchmarks.similarity [--fit] [--encoder NAME]

`judgements/similar_texts.jsonl` has 130 statements (`text`) of 13 domains, in the style of lessons of coding
agents, facts about a user and general knowledge. To each belong texts that were written for it:

    near        the same, with the parts of the sentence in another order
    reworded    the same, as another author would note it down
    far         the same with hardly a common word
    opposite    what contradicts it, by an exchange (`swap`), a `negation`, an `antonym`, another `number` or
                exchanged roles (`role`)
    sibling     the same statement about another subject, such as another tool, file or person
    template    a sentence of the same form about another matter
    neighbour   something else about the same subject
    question    what the statement answers

All were written by hand, without looking at a measure, but for `reworded` and `sibling`: an early look at
shared words had shown that nothing lay between `near` and `far`. Every second statement, with all its
texts, is in the half `choose`, from which `--fit` computes the constants of `shoal.notes.similarity`; the
figures are of the half `report`. A text of one half is never compared with one of the other. The rules of
`opposites` were drawn up with the errors of both halves in view once, and refined on `choose` alone; so 24
`fresh` statements of 8 other domains were written when rules and constants were fixed.

With `--encoder`, a name as `SHOAL_ENCODER` takes it, texts have vectors: `--fit` computes
`SAME_BY_VECTORS`, and the figures are of texts with vectors. `OPPOSITE_AT_LEAST_BY_VECTORS` is the largest of
0.3, 0.25, 0.2 and so on with which no more pairs of opposites in `choose` count as duplicates than without
vectors.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import lagoon
from shoal.encoders.encoder import VectorCache, open_encoder
from shoal.notes import opposites, similarity
from shoal.notes.note_vectors import with_vectors
from shoal.notes.similarity import SAME, TextFeatures, Weights, similarities
from shoal.search.query_vectors import LOADING_SECONDS, QueryVectors
from shoal.settings import Settings

TEXTS = Path(__file__).parent / "judgements" / "similar_texts.jsonl"
THRESHOLDS = (0.5, 0.7, 0.85)
LEVELS = ("near", "reworded", "far")
OTHERS = ("sibling", "template", "neighbour")
SAME_CLASSES = frozenset({"near", "reworded", "near, reworded", "far"})
FAR_WEIGHT = 0.2
"""Weight of a paraphrase without common words. Most pairs without common words are unrelated."""
PENALTY = 0.02
"""Of the squares of the coefficients of standardized measures, in a pair."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two texts and what they are to each other."""

    group: int
    domain: str
    label: str
    opposite_by: str
    left: str
    right: str


class Groups:
    """The labelled texts, and their features."""

    def __init__(self, encoder: str = "") -> None:
        self.rows = [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").splitlines()]
        self.scorer = lagoon.load()
        self._get_vectors = functools.cache(functools.partial(_text_vectors, encoder))
        self.features = functools.cache(self._features)

    def _features(self, text: str) -> TextFeatures:
        plain = TextFeatures.of(self.scorer, text)
        return with_vectors([plain], [text], self._get_vectors, LOADING_SECONDS)[0]

    def half(self, name: str) -> list[dict[str, str]]:
        if name == "fresh":
            return [row for row in self.rows if row.get("fresh")]
        return [
            row for row in self.rows if not row.get("fresh") and (row["group"] % 2 == 0) == (name == "choose")
        ]

    def other_domains(self, domain: str) -> list[dict[str, str]]:
        return [row for row in self.rows if row["domain"] != domain and not row.get("fresh")]


def _text_vectors(name: str) -> QueryVectors | None:
    encoder = open_encoder(Settings.from_environment(encoder=name)) if name else None
    return None if encoder is None else QueryVectors(encoder, VectorCache())


def pairs(rows: Sequence[dict[str, str]]) -> Iterator[Pair]:
    """Yield all pairs of some statements; unrelated texts are those of the next statement of the domain,
    and of one of another domain."""
    by_domain = defaultdict(list)
    for row in rows:
        by_domain[row["domain"]].append(row)
    for place, row in enumerate(rows):
        domain = by_domain[row["domain"]]
        labelled = [(name, "text", name) for name in (*LEVELS, "opposite", *OTHERS)]
        labelled += [
            ("near, reworded", "near", "reworded"),
            ("opposite, near", "near", "opposite"),
            ("opposite, reworded", "reworded", "opposite"),
            ("sibling, reworded", "reworded", "sibling"),
        ]
        for label, left, right in labelled:
            if left in row and right in row:
                yield _pair(row, label, row[left], row[right])
        if len(domain) > 1:
            following = domain[(domain.index(row) + 1) % len(domain)]
            yield _pair(row, "unrelated, same domain", row["text"], following["text"])
        distant = rows[(place + len(rows) // 2) % len(rows)]
        if distant["domain"] != row["domain"]:
            yield _pair(row, "unrelated", row["text"], distant["text"])


def _pair(row: dict[str, str], label: str, left: str, right: str) -> Pair:
    return Pair(int(row["group"]), row["domain"], label, row["opposite_by"], left, right)


# -- fits


def fit(measures: Doubles, is_true: Doubles, weights: Doubles, signs: Sequence[int]) -> Weights:
    """Fit a logistic function by Newton's method; leave out measures whose coefficient has the wrong sign."""
    used = np.ones(len(signs), dtype=bool)
    while True:
        coefficients, bias = _newton(measures[:, used], is_true, weights)
        wrong = coefficients * np.array(signs)[used] < 0
        if not wrong.any():
            break
        used[np.flatnonzero(used)[wrong][np.argmax(np.abs(coefficients[wrong]))]] = False
    full = np.zeros(len(signs))
    full[used] = coefficients
    return Weights(round(bias, 2), tuple(full.round(2).tolist()))


def _newton(measures: Doubles, is_true: Doubles, weights: Doubles) -> tuple[Doubles, float]:
    mean, deviation = measures.mean(axis=0), measures.std(axis=0) + 1e-9
    rows = np.c_[(measures - mean) / deviation, np.ones(len(measures))]
    penalty = np.full(rows.shape[1], PENALTY * weights.sum() / 10)
    penalty[-1] = 0
    beta = np.zeros(rows.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-rows @ beta))
        gradient = rows.T @ (weights * (p - is_true)) + penalty * beta
        hessian = (rows * (weights * p * (1 - p))[:, None]).T @ rows + np.diag(penalty + 1e-9)
        beta -= np.linalg.solve(hessian, gradient)
    coefficients = beta[:-1] / deviation
    return coefficients, float(beta[-1] - coefficients @ mean)


def fit_same(groups: Groups, rows: Sequence[dict[str, str]]) -> Weights:
    """Fit the similarity; opposites are left out, because they are about the same matter."""
    used = [pair for pair in pairs(rows) if not pair.label.startswith("opposite")]
    measures = _measured(groups, used, similarity._measures)
    is_true = np.array([pair.label in SAME_CLASSES for pair in used], dtype=float)
    weights = np.array([FAR_WEIGHT if pair.label == "far" else 1.0 for pair in used])
    return fit(measures, is_true, weights, (1, 1, -1, -1))


def fit_same_by_vectors(groups: Groups, rows: Sequence[dict[str, str]]) -> Weights:
    """Fit the similarity of texts with vectors, as `fit_same` does."""
    used = [pair for pair in pairs(rows) if not pair.label.startswith("opposite")]
    cosines = _measured(groups, used, lambda *texts: similarity._cosines(*texts)[:, None])
    measures = np.c_[_measured(groups, used, similarity._measures), cosines]
    is_true = np.array([pair.label in SAME_CLASSES for pair in used], dtype=float)
    weights = np.array([FAR_WEIGHT if pair.label == "far" else 1.0 for pair in used])
    return fit(measures, is_true, weights, (1, 1, -1, -1, 1))


def fit_opposite(groups: Groups, rows: Sequence[dict[str, str]], same: Weights) -> Weights:
    """Fit the flag of a contradiction on the signs and the similarity of all pairs that are examined."""
    measures, is_true = [], []
    for pair in pairs(rows):
        left, right = groups.features(pair.left), groups.features(pair.right)
        value = same.probabilities(similarity._measures(left, [right]))[0]
        if value >= similarity.LEAST_RELATED:
            measures.append((*opposites.signs(left.statement, right.statement), value))
            is_true.append(pair.label.startswith("opposite"))
    n_signs = len(opposites.Signs._fields)
    return fit(
        np.array(measures), np.array(is_true, dtype=float), np.ones(len(measures)), (1,) * (n_signs + 1)
    )


def fit_answers(groups: Groups, rows: Sequence[dict[str, str]]) -> Weights:
    """Fit the similarity of questions and notes."""
    measures, is_true = [], []
    for row, notes in libraries(rows):
        question = groups.features(row["question"])
        measures.append(similarity._recall_measures(question, [groups.features(text) for text, _ in notes]))
        is_true += [is_answer for _, is_answer in notes]
    return fit(np.concatenate(measures), np.array(is_true, dtype=float), np.ones(len(is_true)), (1, 1, 1, -1))


def libraries(rows: Sequence[dict[str, str]]) -> Iterator[tuple[dict[str, str], list[tuple[str, bool]]]]:
    """Yield each statement with a question, and the notes of a library with whether they answer it: the
    statements, reworded ones, siblings and neighbours of all."""
    for row in rows:
        if "question" in row:
            yield (
                row,
                [
                    (other[name], other is row and name in ("text", "reworded"))
                    for other in rows
                    for name in ("text", "reworded", "sibling", "neighbour")
                ],
            )


def _measured(groups: Groups, used: Iterable[Pair], measure: Callable[..., Doubles]) -> Doubles:
    return np.concatenate(
        [measure(groups.features(pair.left), [groups.features(pair.right)]) for pair in used]
    )


# -- figures


def auc(positive: Doubles, negative: Doubles) -> float:
    """Probability that a positive value is larger than a negative one; equal ones count half."""
    greater = (positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean()
    return float(greater)


def calibration_error(values: Doubles, is_true: NDArray[np.bool_]) -> float:
    """Mean difference of value and truth in five bins of equal width, weighted by their pairs."""
    bins = np.minimum((values * 5).astype(int), 4)
    gaps = [
        abs(values[bins == each].mean() - is_true[bins == each].mean()) * (bins == each).mean()
        for each in range(5)
        if (bins == each).any()
    ]
    return float(sum(gaps))


def report(title: str, measured: Sequence[tuple[Pair, float, bool]]) -> None:
    """Print the figures of pairs with their similarity and flag."""
    labels = np.array([pair.label for pair, _, _ in measured])
    values = np.array([value for _, value, _ in measured])
    flags = np.array([flag for _, _, flag in measured])
    is_same = np.isin(labels, sorted(SAME_CLASSES))
    is_opposite = np.char.startswith(labels, "opposite")
    is_direct = np.isin(labels, [*LEVELS, "opposite", *OTHERS])
    print(f"\n{title}: {len(measured)} pairs")
    print(f"{'pairs of':26}{'n':>5}" + "".join(f"  >= {each:.2f}" for each in THRESHOLDS) + "  flagged")
    for label in dict.fromkeys(labels.tolist()):
        at = labels == label
        shares = "".join(f"{(values[at] >= each).mean():9.2f}" for each in THRESHOLDS)
        print(f"{label:26}{at.sum():5}{shares}{flags[at].mean():9.2f}")
    for each in THRESHOLDS:
        above = (values >= each) & ~flags
        print(f"opposites at {each:.2f}, not flagged: {(above & is_opposite).sum()}")
        if above.any():
            common = is_same & (labels != "far")
            print(
                f"at {each:.2f}, not flagged: precision {is_same[above].mean():.3f} of {above.sum()}, with "
                f"each statement itself {is_same[above & is_direct].mean():.3f}; recall "
                f"{above[common].mean():.2f}"
            )
    rest = ~is_opposite & (labels != "far")
    print(
        "AUC of near and reworded against all but opposites "
        f"{auc(values[rest & is_same], values[rest & ~is_same]):.3f}, "
        f"calibration error {calibration_error(values[rest], is_same[rest]):.3f}"
    )
    kinds = np.array([pair.opposite_by for pair, _, _ in measured])
    found = {kind: flags[(labels == "opposite") & (kinds == kind)] for kind in sorted(set(kinds.tolist()))}
    print(
        "flagged by kind: "
        + ", ".join(f"{kind} {each.mean():.2f} of {len(each)}" for kind, each in found.items())
    )


def report_answers(title: str, groups: Groups, rows: Sequence[dict[str, str]], answers: Weights) -> None:
    """Print how often a question recalls its notes, and others."""
    values, is_true, first = [], [], []
    for row, notes in libraries(rows):
        features = [groups.features(text) for text, _ in notes]
        measures = similarity._recall_measures(groups.features(row["question"]), features)
        of_question = answers.probabilities(measures)
        truth = np.array([is_answer for _, is_answer in notes])
        values.append(of_question)
        is_true.append(truth)
        first.append(bool(truth[np.argmax(of_question)]))
    every, truth = np.concatenate(values), np.concatenate(is_true)
    print(
        f"\n{title}: {len(values)} questions, each to a library of {len(values[0])} notes, "
        "two of which answer it"
    )
    for each in (0.3, *THRESHOLDS):
        above = every >= each
        hit = np.mean([bool((v[t] >= each).any()) for v, t in zip(values, is_true, strict=True)])
        precision = truth[above].mean() if above.any() else float("nan")
        print(
            f"at {each:.2f}: {above.sum()} recalled, precision {precision:.2f}, "
            f"recall of answers {above[truth].mean():.2f}, questions with an answer {hit:.2f}"
        )
    print(
        f"best note answers {np.mean(first):.2f}, AUC {auc(every[truth], every[~truth]):.3f}, "
        f"calibration error {calibration_error(every, truth):.3f}"
    )


def measure(
    groups: Groups, rows: Sequence[dict[str, str]], same: Weights = SAME
) -> list[tuple[Pair, float, bool]]:
    """Compute similarity and flag of all pairs, with other constants if given."""
    measured = []
    for pair in pairs(rows):
        left, right = groups.features(pair.left), groups.features(pair.right)
        value, flag = (each[0] for each in similarities(left, [right]))
        if same is not SAME:
            value = same.probabilities(similarity._measures(left, [right]))[0]
        measured.append((pair, float(value), bool(flag)))
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true", help="print the constants of the half `choose`")
    parser.add_argument("--encoder", default="")
    options = parser.parse_args()
    groups = Groups(options.encoder)
    if options.encoder:
        if options.fit:
            print("SAME_BY_VECTORS =", fit_same_by_vectors(groups, groups.half("choose")))
        for half in ("choose", "report", "fresh"):
            report(f"`{half}`, with vectors", measure(groups, groups.half(half)))
        return 0
    if options.fit:
        choose = groups.half("choose")
        same = fit_same(groups, choose)
        print("SAME =", same)
        print("OPPOSITE =", fit_opposite(groups, choose, same))
        print("ANSWERS =", fit_answers(groups, choose))
        return 0
    report("The half `report`", measure(groups, groups.half("report")))
    lenient = similarity.ANSWERS._replace(bias=similarity.ANSWERS.bias + similarity.LENIENCE)
    report_answers("Recall, the half `report`", groups, groups.half("report"), lenient)
    domains = list(dict.fromkeys(row["domain"] for row in groups.rows if not row.get("fresh")))
    left_out = []
    for domain in domains:
        same = fit_same(groups, groups.other_domains(domain))
        rows = [row for row in groups.rows if row["domain"] == domain and not row.get("fresh")]
        left_out += measure(groups, rows, same)
    report("Each domain by constants of the others", left_out)
    if groups.half("fresh"):
        report("Fresh statements", measure(groups, groups.half("fresh")))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
