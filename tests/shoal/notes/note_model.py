"""Notes and their ranking in plain Python, as a model for the index."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from shoal.models.notes import TagRelevance
from shoal.notes.affinity import affinity, tag_weights
from shoal.notes.environment import Environment
from shoal.notes.note_rows import IndexRow
from shoal.notes.prerequisites import Prerequisites
from shoal.notes.ranking import NoteFilters, NoteQuery, QueryTerm
from shoal.notes.relevance import relevance_in
from shoal.settings import Settings
from shoal.storage.profiles import RECORD

CHECKSUM = "data"
WORDS = ("ash", "bay", "cod", "dew", "elk", "fig")
TAGS = ("go", "react", "web")
CATEGORIES = ("build", "build/docker", "builder", "test")
UNIT = 1_000_000_000


@dataclass(frozen=True)
class ModelNote:
    """What the index stores of a note. `z_scores`: in steps of 0.004, by reef."""

    id: int
    title: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    z_scores: Mapping[int, int] = field(default_factory=dict)
    kind: str = "lesson"
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    prerequisites: Mapping[str, Sequence[str]] = field(default_factory=dict)
    relevance: Mapping[str, TagRelevance] = field(default_factory=dict)
    is_active: bool = True
    is_comparable: bool = True

    def row(self) -> IndexRow:
        strongest = sorted(self.z_scores.items(), key=lambda pair: (-pair[1], pair[0]))
        records = np.array([(reef_id, z, 0, 1, 0) for reef_id, z in strongest], dtype=RECORD)
        relevance = [[tag, *each] for tag, each in sorted(self.relevance.items())]
        return IndexRow(
            self.id,
            int(self.is_active),
            self.kind,
            f"{' '.join(self.title)}\n{' '.join(self.text)}".encode(),
            records.tobytes(),
            CHECKSUM if self.is_comparable else "other data",
            json.dumps(self.prerequisites),
            json.dumps(sorted(self.tags)),
            json.dumps(sorted(self.categories)),
            json.dumps(relevance, separators=(",", ":")),
            "",
            "no",
        )


def words(most: int) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(WORDS), max_size=most).map(tuple)


def subsets(values: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.sets(st.sampled_from(values)).map(sorted).map(tuple)


relevances = st.builds(
    TagRelevance, st.sampled_from([-1.0, -0.3, -0.05, 0.2, 1.0]), st.integers(0, 3), st.integers(0, 3)
)


def model_notes(ids: st.SearchStrategy[int]) -> st.SearchStrategy[ModelNote]:
    return st.builds(
        ModelNote,
        id=ids,
        title=words(2),
        text=words(5),
        z_scores=st.dictionaries(st.integers(0, 3), st.integers(1, 2_000), max_size=3),
        kind=st.sampled_from(["lesson", "atom"]),
        tags=subsets(TAGS),
        categories=subsets(CATEGORIES),
        prerequisites=st.sampled_from([{}, {"os": ["linux"]}, {"os": ["darwin"]}, {"mcp_servers": ["x"]}]),
        relevance=st.dictionaries(st.sampled_from(TAGS), relevances, max_size=2),
        is_active=st.sampled_from([True, True, True, False]),
        is_comparable=st.sampled_from([True, True, True, False]),
    )


def overlap(note: ModelNote, query_z: Mapping[int, float]) -> int:
    if not note.is_comparable or not note.is_active:
        return 0
    norm = math.sqrt(sum(z * z for z in note.z_scores.values())) or 1.0
    return sum(
        round(note.z_scores[reef_id] * 65_535 / norm) * round(z * 1_000_000)
        for reef_id, z in query_z.items()
        if reef_id in note.z_scores
    )


def bm25_scores(notes: Sequence[ModelNote], terms: Sequence[QueryTerm]) -> dict[int, int]:
    """BM25F of active notes with k1 = 1.2, b = 0.75, and titles that weigh 2."""
    n = len(notes)
    mean_text = sum(len(note.text) for note in notes) / max(n, 1) or 1.0
    mean_title = sum(len(note.title) for note in notes) / max(n, 1) or 1.0
    scores = dict.fromkeys((note.id for note in notes), 0)
    for term in terms:
        holding = [note for note in notes if term.term in (*note.title, *note.text)]
        idf = math.log1p((n - len(holding) + 0.5) / (len(holding) + 0.5))
        scale = UNIT * 2.2 * math.sqrt(term.frequency) * idf
        for note in holding:
            frequency = note.text.count(term.term) / (0.25 + 0.75 * (len(note.text) / mean_text))
            frequency += 2.0 * note.title.count(term.term) / (0.25 + 0.75 * (len(note.title) / mean_title))
            scores[note.id] += max(round(scale * frequency / (frequency + 1.2)), 1)
    return scores


@dataclass(frozen=True)
class ModelScore:
    note_id: int
    words_part: float
    reefs_part: float
    affinity: float
    relevance_part: float
    failed: tuple[str, ...]

    @property
    def final(self) -> float:
        return (self.words_part + self.reefs_part) * self.affinity + self.relevance_part


def rank(
    notes: Sequence[ModelNote], query: NoteQuery, filters: NoteFilters, settings: Settings
) -> dict[int, ModelScore]:
    """The scores of the matching notes, and the gates and filters that each fails."""
    active = [note for note in notes if note.is_active]
    k = max(1, len(active) // 5)
    by_words = bm25_scores(active, query.terms)
    by_reefs = {note.id: overlap(note, query.query_z) for note in active}
    environment = filters.environment or Environment()
    counts = {tag: sum(tag in note.tags for note in active) for tag in TAGS}
    weigh = tag_weights(len(active), counts)

    def part(raw: Mapping[int, int], note_id: int) -> float:
        better = sum(score > raw[note_id] for score in raw.values())
        return 1.0 / (k + better) if raw[note_id] > 0 else 0.0

    scores = {}
    for note in active:
        if not by_words[note.id] and not by_reefs[note.id]:
            continue
        relevance = relevance_in(note.relevance, environment.tags)
        scores[note.id] = ModelScore(
            note.id,
            part(by_words, note.id),
            part(by_reefs, note.id),
            affinity(note.tags, environment.tags, weigh).factor,
            settings.note_relevance_weight * relevance.average * min(1.0, 20 / k),
            tuple(_failed(note, filters, relevance.average, relevance.n_evals)),
        )
    return scores


def _failed(note: ModelNote, filters: NoteFilters, average: float, n_evals: int) -> list[str]:
    gates = Prerequisites.from_json(note.prerequisites)
    category = filters.category
    in_category = any(path == category or path.startswith(f"{category}/") for path in note.categories)
    checks = {
        "relevance": n_evals >= 3 and average < -0.1,
        "prerequisites": filters.environment is not None and not gates.hold_in(filters.environment),
        "category": category is not None and not in_category,
        "kind": filters.kind not in (None, note.kind),
        "tags": not set(filters.tags) <= set(note.tags),
        "shown": note.id in filters.shown,
    }
    return [name for name, is_failed in checks.items() if is_failed]
