"""Notes and their ranking in plain Python, as a model for the index."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np
from hypothesis import strategies as st

from shoal.models.notes import TagRelevance
from shoal.notes.affinity import affinity, tag_weights
from shoal.notes.environment import Environment
from shoal.notes.note_query import NoteQuery, QueryTerm
from shoal.notes.note_rows import IndexRow
from shoal.notes.prerequisites import Prerequisites
from shoal.notes.ranking import NoteFilters
from shoal.notes.relevance import relevance_in
from shoal.settings import Settings
from shoal.storage.profiles import RECORD

CHECKSUM = "data"
WORDS = ("ash", "bay", "cod", "dew", "elk", "fig", "i", "user")
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
    session: str = ""
    is_question: bool = False
    said: str = "2025-03-01"
    valid_to: str | None = None
    fact_id: int | None = None

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
            self.session,
            "yes" if self.is_question else "no",
            f"{self.said}T12:00:00.000Z",
            None,
            None,
            self.said,
            self.valid_to,
            self.fact_id,
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
        kind=st.sampled_from(["lesson", "atom", "turn"]),
        tags=subsets(TAGS),
        categories=subsets(CATEGORIES),
        prerequisites=st.sampled_from([{}, {"os": ["linux"]}, {"os": ["darwin"]}, {"mcp_servers": ["x"]}]),
        relevance=st.dictionaries(st.sampled_from(TAGS), relevances, max_size=2),
        is_active=st.sampled_from([True, True, True, False]),
        is_comparable=st.sampled_from([True, True, True, False]),
        session=st.sampled_from(["", "monday", "tuesday"]),
        is_question=st.booleans(),
        said=st.sampled_from(["2025-03-01", "2025-05-30"]),
        valid_to=st.sampled_from([None, None, "2025-06-01"]),
        fact_id=st.sampled_from([None, None, 1, 2]),
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


def has_pair(words: Sequence[str], pair: Sequence[str]) -> int:
    return sum(tuple(two) == tuple(pair) for two in itertools.pairwise(words))


def bm25_of(notes: Sequence[ModelNote], terms: Sequence[str], weight: float) -> dict[int, int]:
    """BM25F, with k1 = 1.2, b = 0.3 and titles that weigh 2, of a term or of two neighbours."""
    n = len(notes)
    mean_text = sum(len(note.text) for note in notes) / max(n, 1) or 1.0
    mean_title = sum(len(note.title) for note in notes) / max(n, 1) or 1.0

    def count(words: Sequence[str]) -> int:
        return words.count(terms[0]) if len(terms) == 1 else has_pair(words, terms)

    holding = [note for note in notes if count(note.title) or count(note.text)]
    scale = UNIT * 2.2 * weight * idf(n, len(holding))
    scores = {}
    for note in holding:
        frequency = count(note.text) / (0.7 + 0.3 * (len(note.text) / mean_text))
        frequency += 2.0 * count(note.title) / (0.7 + 0.3 * (len(note.title) / mean_title))
        scores[note.id] = max(round(scale * frequency / (frequency + 1.2)), 1)
    return scores


def idf(n: int, n_holding: int) -> float:
    return math.log1p((n - n_holding + 0.5) / (n_holding + 0.5))


def bm25_scores(notes: Sequence[ModelNote], terms: Sequence[QueryTerm]) -> dict[int, int]:
    """BM25F of active notes by their own words."""
    scores = dict.fromkeys((note.id for note in notes), 0)
    for term in terms:
        for note_id, score in bm25_of(notes, [term.term], math.sqrt(term.frequency)).items():
            scores[note_id] += score
    return scores


def word_scores(notes: Sequence[ModelNote], terms: Sequence[QueryTerm]) -> dict[int, int]:
    """The same with pairs of neighbours, and with the words of the notes around each in its session."""
    scores = dict.fromkeys((note.id for note in notes), 0)
    for term in terms:
        own = bm25_of(notes, [term.term], math.sqrt(term.frequency))
        for note in notes:
            session = sorted(each.id for each in notes if note.session and each.session == note.session)
            place = session.index(note.id) if session else 0
            reached = [own.get(note.id, 0)]
            for other, note_id in enumerate(session):
                share = {1: 0.5, 2: 0.4}.get(abs(other - place), 0.0)
                reached.append(round(own.get(note_id, 0) * share))
            scores[note.id] += max(reached)
    for first, second in itertools.pairwise(terms):
        for note_id, score in bm25_of(notes, [first.term, second.term], 0.2).items():
            scores[note_id] += score
    return scores


def passage_of(note: ModelNote, notes: Sequence[ModelNote]) -> list[ModelNote]:
    """The note with four before and behind it in its session."""
    session = sorted((each for each in notes if each.session == note.session), key=lambda each: each.id)
    if not note.session:
        return [note]
    place = session.index(note)
    return session[max(0, place - 4) : place + 5]


def passage_scores(notes: Sequence[ModelNote], terms: Sequence[QueryTerm]) -> dict[int, int]:
    """BM25 of the passages, with k1 = 1.2 and b = 0.75."""
    scores = dict.fromkeys((note.id for note in notes), 0)
    if not any(note.session for note in notes):
        return scores
    passages = {
        note.id: [word for each in passage_of(note, notes) for word in (*each.title, *each.text)]
        for note in notes
    }
    mean = sum(map(len, passages.values())) / len(notes) or 1.0
    for term in terms:
        n_holding = sum(term.term in (*note.title, *note.text) for note in notes)
        scale = UNIT * 2.2 * math.sqrt(term.frequency) * idf(len(notes), n_holding)
        for note_id, passage in passages.items():
            frequency = passage.count(term.term) / (0.25 + 0.75 * len(passage) / mean)
            scores[note_id] += round(scale * frequency / (frequency + 1.2)) if n_holding else 0
    return scores


@dataclass(frozen=True)
class ModelScore:
    note_id: int
    words_part: float
    passage_part: float
    reefs_part: float
    turn_part: float
    recency_part: float
    fact_part: float
    affinity: float
    relevance_part: float
    failed: tuple[str, ...]

    @property
    def final(self) -> float:
        signals = self.words_part + self.passage_part + self.reefs_part + self.turn_part + self.recency_part
        return (signals + self.fact_part) * self.affinity + self.relevance_part

    @property
    def own(self) -> float:
        return self.words_part + self.passage_part + self.reefs_part + self.turn_part + self.recency_part


def rank(
    notes: Sequence[ModelNote], query: NoteQuery, filters: NoteFilters, settings: Settings
) -> dict[int, ModelScore]:
    """The scores of the matching notes, and the gates and filters that each fails."""
    active = [note for note in notes if note.is_active]
    by_words = word_scores(active, query.terms)
    by_passages = passage_scores(active, query.terms)
    by_reefs = {note.id: overlap(note, query.query_z) for note in active}
    environment = filters.environment or Environment()
    counts = {tag: sum(tag in note.tags for note in active) for tag in TAGS}
    weigh = tag_weights(len(active), counts)

    all_words = UNIT * math.fsum(
        math.sqrt(term.frequency)
        * idf(len(active), sum(term.term in (*note.title, *note.text) for note in active))
        for term in query.terms
    )
    most = max(by_reefs.values(), default=0)
    is_match = {note.id: by_words[note.id] + by_passages[note.id] + by_reefs[note.id] > 0 for note in active}
    facts = {note.fact_id for note in active if is_match[note.id] and note.fact_id}
    matches = [note for note in active if is_match[note.id] or note.fact_id in facts]
    newest = max((date.fromisoformat(note.said) for note in matches), default=date.min)
    scores: dict[int, ModelScore] = {}
    for note in matches:
        relevance = relevance_in(note.relevance, environment.tags)
        scores[note.id] = ModelScore(
            note.id,
            by_words[note.id] / max(all_words, 1.0),
            by_passages[note.id] / max(all_words, 1.0),
            0.1 * by_reefs[note.id] / max(most, 1),
            0.2 * any(term.term in note.title for term in query.terms) - 0.15 * note.is_question
            if note.kind == "turn"
            else 0.05 * (query.is_of_self and not {"i", "user"}.isdisjoint((*note.title, *note.text))),
            0.02 * 0.5 ** ((newest - date.fromisoformat(note.said)).days / 90),
            0.0,
            affinity(note.tags, environment.tags, weigh).factor,
            10 * settings.note_relevance_weight * relevance.average,
            tuple(_failed(note, filters, relevance.average, relevance.n_evals)),
        )
    for note in matches:
        own = scores[note.id].own
        of_fact = [scores[each.id].own for each in matches if note.fact_id and each.fact_id == note.fact_id]
        scores[note.id] = replace(scores[note.id], fact_part=max(of_fact, default=own) - own)
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
        "turns": filters.kind is None and not filters.turns and note.kind == "turn",
        "tags": not set(filters.tags) <= set(note.tags),
        "valid": note.valid_to is not None,
        "shown": note.id in filters.shown,
    }
    return [name for name, is_failed in checks.items() if is_failed]
