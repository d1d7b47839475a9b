"""A search in notes, step by step: how many notes each step keeps, and how the best of them move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.models.notes import Note, NoteScores
from shoal.notes.context import NoteContext
from shoal.notes.ranking import Doubles, NoteRanking
from shoal.notes.searching import FoundNotes, NoteSearch


class StepCount(NamedTuple):
    """A gate or filter: how many of the notes that came to it did not pass, and how many are left."""

    name: str
    n_left_out: int
    n_left: int


@dataclass(frozen=True, slots=True)
class RankedNote:
    """One of the best notes, with its place after each step among all notes that match, from 1.

    signals_place   by words, reefs and similarity alone
    weighed_place   after affinity
    final_place     after relevance
    left_out_by     the gates and filters that it does not pass
    """

    note: Note
    scores: NoteScores
    signals_place: int
    weighed_place: int
    final_place: int
    left_out_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoteSearchSteps:
    """What each step of a search contributed.

    n_active     notes that were searched
    n_words, n_reefs, n_matched   notes that share a word, a reef, or either with the query
    steps        gates and filters, in order
    notes        the best by score, those that a gate or filter leaves out included
    """

    query: str
    n_active: int
    n_words: int
    n_reefs: int
    n_matched: int
    steps: tuple[StepCount, ...]
    notes: tuple[RankedNote, ...]
    warnings: tuple[str, ...]


def search_steps(context: NoteContext, owner: str, request: NoteSearch) -> NoteSearchSteps:
    """Run a search and return its steps with the `top_k` best notes."""
    with context.database.snapshot() as snapshot:
        found = FoundNotes(context, snapshot, owner, request)
        ranking = found.ranking
        best = ranking.most(request.top_k)
        ids = [int(ranking.note_ids[ordinal]) for ordinal in best]
        notes = found.rows.get_many(ids, label_threshold=context.settings.label_threshold)
    weighed = ranking.signals * ranking.affinity
    places = [_places(ranking, values, best) for values in (ranking.signals, weighed, ranking.final)]
    return NoteSearchSteps(
        query=request.query,
        n_active=found.index.n_active,
        n_words=int(np.count_nonzero(ranking.words)),
        n_reefs=int(np.count_nonzero(ranking.reefs)),
        n_matched=len(ranking.places),
        steps=tuple(_counts(ranking)),
        notes=tuple(
            RankedNote(
                note,
                ranking.scores(ordinal),
                signals_place,
                weighed_place,
                final_place,
                tuple(step.name for step in ranking.steps if not step.passes[ordinal]),
            )
            for ordinal, note, signals_place, weighed_place, final_place in zip(
                best, notes, *places, strict=True
            )
        ),
        warnings=found.warnings,
    )


def _counts(ranking: NoteRanking) -> Sequence[StepCount]:
    passes, counts = np.ones(len(ranking.places), dtype=np.bool_), []
    for step in ranking.steps:
        before = int(np.count_nonzero(passes))
        passes &= step.passes
        left = int(np.count_nonzero(passes))
        counts.append(StepCount(step.name, before - left, left))
    return counts


def _places(ranking: NoteRanking, values: Doubles, ordinals: Sequence[int]) -> list[int]:
    """The places of notes by some values, from 1; equal values by id."""
    return [
        1
        + int(np.count_nonzero(values > values[ordinal]))
        + int(np.count_nonzero((values == values[ordinal]) & (ranking.note_ids < ranking.note_ids[ordinal])))
        for ordinal in ordinals
    ]
