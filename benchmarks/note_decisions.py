"""Decisions about notes: how measures of tag affinity agree with labels, and what the decisions cost.

    python benchmarks/note_decisions.py

Affinity: every note below is labelled by hand for every environment: `same` (written for this stack), `part`
(some of it applies), `other`. The idea of the curve is a factor of 1.7 for the first, 1.0 for the second and
0.3 for the third. Printed are the mean factor by label, the share of pairs with different labels that the
measure orders like the labels, and the mean distance from the idea. Weights come from the tags of the notes.
The labels were written with the tags in view: they show how a measure uses the curve, not how good tags are.

    share       weight of the note's tags that the environment has, of all its tags (what Shoal uses)
    share, =    the same with equal weights
    cosine      of the two sets of tags, weighted
    jaccard     of the two sets, weighted
    reefs       cosine of lagoon's profiles of the tags written as a text; no profile: neutral

Costs: milliseconds on this machine, the best of several runs.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np

import lagoon
from shoal.notes.affinity import factor, similarity_of_share, tag_weights
from shoal.notes.environment import Environment, detect
from shoal.notes.pinning import smallest_tag_subset
from shoal.notes.prerequisites import Prerequisites

IDEA = {"same": 1.7, "part": 1.0, "other": 0.3}

ENVIRONMENTS = {
    "web": "acme davinci docker frontend github jest monorepo nodejs react tailwind testing typescript",
    "api": "acme backend celery database docker fastapi github postgresql pydantic pytest python testing",
    "app": "acme github mobile nodejs react react-native testing typescript",
    "cli": "cli github open-source rust serde tokio",
    "ops": "acme github-actions gitlab helm kubernetes terraform",
    "ml": "data gitlab jupyter machine-learning numpy pandas python pytorch",
}

# Tags of a note, environments with the same stack, environments where part of it applies.
NOTES: tuple[tuple[str, str, str], ...] = (
    ("frontend react", "web", "app"),
    ("react typescript", "web app", ""),
    ("frontend tailwind", "web", ""),
    ("jest testing", "web", "api app"),
    ("monorepo nodejs typescript", "web", "app"),
    ("acme", "web api app ops", ""),
    ("acme frontend", "web", "api app ops"),
    ("backend fastapi python", "api", "ml"),
    ("backend database postgresql", "api", ""),
    ("celery docker python", "api", "ml web"),
    ("pytest python testing", "api", "ml web app"),
    ("docker", "web api", ""),
    ("github", "web api app cli", ""),
    ("github rust tokio", "cli", "web api app"),
    ("cli rust", "cli", ""),
    ("open-source", "cli", ""),
    ("helm kubernetes", "ops", ""),
    ("gitlab terraform", "ops", "ml"),
    ("data pandas python", "ml", "api"),
    ("machine-learning pytorch", "ml", ""),
    ("jupyter numpy", "ml", ""),
    ("python", "api ml", ""),
    ("mobile react-native", "app", ""),
    ("backend django python", "", "api ml"),
    ("frontend vue", "", "web"),
    ("php laravel", "", ""),
    ("java jvm spring", "", ""),
    ("go kubernetes", "", "ops"),
    ("ios swift", "", ""),
    ("github-actions rust", "", "cli ops"),
)

Tags = frozenset[str]
Weight = Callable[[str], float]


def main() -> None:
    print(json.dumps({"affinity": compare_measures(), "milliseconds": measure_costs()}, indent=2))


def compare_measures() -> dict[str, dict[str, float]]:
    tags_by_note = [frozenset(tags.split()) for tags, _, _ in NOTES]
    weight = tag_weights(len(NOTES), Counter(tag for tags in tags_by_note for tag in tags))
    scorer = lagoon.load()

    def total(tags: Tags, weigh: Weight) -> float:
        return math.fsum(map(weigh, tags))

    def reefs(note: Tags, environment: Tags) -> float:
        a, b = (np.maximum(scorer.score(" ".join(sorted(tags))).z_scores, 0) for tags in (note, environment))
        norm = float(np.linalg.norm(a) * np.linalg.norm(b))
        return float(a @ b) / norm if norm else 0.5

    def cosine(note: Tags, environment: Tags) -> float:
        dot, a, b = (
            math.fsum(weight(tag) ** 2 for tag in tags) for tags in (note & environment, note, environment)
        )
        return dot / math.sqrt(a * b)

    measures: dict[str, Callable[[Tags, Tags], float]] = {
        "share": lambda note, there: total(note & there, weight) / total(note, weight),
        "share, =": lambda note, there: len(note & there) / len(note),
        "cosine": cosine,
        "jaccard": lambda note, there: total(note & there, weight) / total(note | there, weight),
        "reefs": reefs,
    }
    return {name: _agreement(measure) for name, measure in measures.items()}


def _agreement(measure: Callable[[Tags, Tags], float]) -> dict[str, float]:
    by_label: dict[str, list[float]] = {label: [] for label in IDEA}
    for note, environment, label in _labelled():
        by_label[label].append(factor(similarity_of_share(measure(note, environment))))
    ordered = [
        (better > worse) + (better == worse) / 2
        for high, low in combinations(IDEA, 2)
        for better in by_label[high]
        for worse in by_label[low]
    ]
    distances = [abs(value - IDEA[label]) for label, values in by_label.items() for value in values]
    means = {label: sum(values) / len(values) for label, values in by_label.items()}
    means |= {"ordered": sum(ordered) / len(ordered), "distance": sum(distances) / len(distances)}
    return {name: round(value, 3) for name, value in means.items()}


def _labelled() -> Iterator[tuple[Tags, Tags, str]]:
    for tags, same, part in NOTES:
        for name, environment in ENVIRONMENTS.items():
            label = "same" if name in same.split() else "part" if name in part.split() else "other"
            yield frozenset(tags.split()), frozenset(environment.split()), label


def measure_costs() -> dict[str, float]:
    hostile_sets = [([f"t{(i * 7 + j) % 4000}" for j in range(40)], 1) for i in range(200)]
    alike_sets = [([f"t{j}" for j in range(40)], i) for i in range(200)]
    gates = Prerequisites(paths=("~/work/*/app-repo", "**/packages/**/src"), repos=("a", "b"), os=("linux",))
    here = Environment("linux", "b", "/home/ann/work/acme/app-repo/packages/web/src")
    with tempfile.TemporaryDirectory() as scratch:
        small, crowded = _project(Path(scratch) / "small", 0), _project(Path(scratch) / "crowded", 20_000)
        return {
            "environment of a project": _best(lambda: detect(small / "packages" / "web")),
            "environment of a folder of 20,000 files": _best(lambda: detect(crowded)),
            "tag subset of 200 sets of 40 tags": _best(lambda: smallest_tag_subset(hostile_sets, 15)),
            "tag subset of 200 equal sets of 40 tags": _best(lambda: smallest_tag_subset(alike_sets, 15)),
            "prerequisites of 1,000 notes": _best(lambda: [gates.hold_in(here) for _ in range(1000)]),
        }


def _project(root: Path, n_files: int) -> Path:
    """Write a project with manifests of usual size, and `n_files` others."""
    packages = {f"package-{i}": "^1.0.0" for i in range(80)}
    (root / ".git").mkdir(parents=True)
    (root / "packages" / "web").mkdir(parents=True)
    (root / ".git" / "config").write_text('[remote "origin"]\nurl = git@github.com:acme/app-repo.git\n')
    (root / "package.json").write_text(json.dumps({"dependencies": packages | {"react": "18"}}))
    (root / "packages" / "web" / "package.json").write_text(json.dumps({"devDependencies": packages}))
    (root / "pyproject.toml").write_text(
        "[project]\ndependencies = [" + ",\n".join(f'"package-{i}>=1.{i}"' for i in range(80)) + "]\n"
    )
    for i in range(n_files):
        (root / f"file-{i}.txt").touch()
    return root


def _best(action: Callable[[], object], runs: int = 7) -> float:
    def seconds() -> float:
        began = time.perf_counter()
        action()
        return time.perf_counter() - began

    return round(1000 * min(seconds() for _ in range(runs)), 3)


if __name__ == "__main__":
    main()
