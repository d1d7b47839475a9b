"""One search in notes from text to response, its explanation, and recall by similarity."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shoal.models.notes import (
    TURN,
    ContextTurn,
    Note,
    NoteExplanation,
    NoteReason,
    NoteResponse,
    NoteResult,
    NoteScores,
    NoteStep,
    Recall,
    RecalledNote,
)
from shoal.models.scores import sentence_of
from shoal.notes.context import NoteContext
from shoal.notes.environment import Environment
from shoal.notes.note_query import NoteQuery, analyze
from shoal.notes.note_rows import NoteRows, PackedNote
from shoal.notes.note_times import NoteTimes
from shoal.notes.note_vectors import NoteCosines, owner_vectors
from shoal.notes.prerequisites import Prerequisites
from shoal.notes.ranking import MAX_COMPARED, NoteFilters, NoteRanking, matched_words, rank_notes, reef_shares
from shoal.notes.reasons import note_reasons
from shoal.notes.session_rows import SessionRows
from shoal.notes.similarity import (
    RecallSimilarities,
    TextFeatures,
    recall_similarities,
    turn_similarity,
    vector_similarity,
)
from shoal.notes.texts import all_features
from shoal.scorer import Scorer
from shoal.storage.database import IDS_PER_STATEMENT, Snapshot
from shoal.storage.profiles import Profiles
from shoal.support.plain_text import in_line

MAX_REPLACED = 5
"""Notes of the same fact that a result names."""
if TYPE_CHECKING:
    from shoal.search.query_vectors import QueryVector

N_SHARED_REEFS = 5
"""Reefs that a result names."""


@dataclass(frozen=True, slots=True)
class NoteSearch:
    """A checked request. `threshold`: least similarity, 0 to 1; `session_id`: omits what it was shown;
    `context`: turns before and behind a turn that come with it; `max_chars`: most characters of all texts."""

    query: str
    top_k: int
    filters: NoteFilters
    session_id: str = ""
    threshold: float = 0.0
    include_scores: bool = False
    context: int = 0
    max_chars: int | None = None


def search(context: NoteContext, owner: str, request: NoteSearch) -> NoteResponse:
    """Run a search."""
    started = time.perf_counter()
    vector = context.query_vector(request.query)
    with context.database.snapshot() as snapshot:
        found = FoundNotes(context, snapshot, owner, request, vector)
        results = found.results(request, include_scores=request.include_scores)
    took_ms = round((time.perf_counter() - started) * 1000, 3)
    return NoteResponse(request.query, tuple(results), found.index.n_active, took_ms, found.warnings)


def recall(context: NoteContext, owner: str, request: NoteSearch) -> Recall:
    """The best of the notes that are similar enough to a question, in the order of a search."""
    vector = context.query_vector(request.query)
    with context.database.snapshot() as snapshot:
        found = FoundNotes(context, snapshot, owner, request, vector)
        results = found.results(request)
        nearest = () if results else found.results(dataclasses.replace(request, top_k=1, threshold=0.0))
    items = tuple(map(_recalled, results))
    near = _recalled(nearest[0]) if nearest else None
    topics = tuple(dict.fromkeys(topic for item in items if (topic := item.metadata["topic"])))
    text = _as_text(request.query, items, near)
    return Recall(text, len(items), items, topics, tuple(item.similarity for item in items), near)


def _recalled(result: NoteResult) -> RecalledNote:
    note = result.note
    metadata = {**note.metadata, "topic": topic_of(note), "note_id": note.id}
    return RecalledNote(
        note.text,
        metadata,
        round(result.similarity, 4),
        kind=note.kind,
        said_at=note.said_at,
        event=note.event,
        valid_from=note.valid_from,
        valid_to=note.valid_to,
        session_id=next(iter(note.sessions), ""),
        replaced=result.replaced,
        context=result.context,
    )


def topic_of(note: Note) -> str:
    """Return the topic of a note: that of its metadata, else title, first category or first label."""
    given = note.metadata.get("topic")
    labels = (label.reef_name for label in note.labels)
    return next(
        (text for text in (given, note.title, *note.categories, *labels) if isinstance(text, str) and text),
        "",
    )


def explain(
    context: NoteContext, owner: str, note_id: int, query: str, environment: Environment | None
) -> NoteExplanation:
    """Why a note is shown for a query, or not. Raises NotFoundError."""
    request = NoteSearch(query, 1, NoteFilters(environment))
    vector = context.query_vector(query)
    with context.database.snapshot() as snapshot:
        note = NoteRows(snapshot, owner).get(note_id, label_threshold=context.settings.label_threshold)
        found = FoundNotes(context, snapshot, owner, request, vector)
        ordinal = found.ranking.ordinal_of(note_id) if note.is_active else None
        [packed] = found.rows.packed([note_id])
        similarity = found.similarity(packed, ordinal)
        place = found.index.place_of(note_id)
        words = () if place is None else matched_words(found.index, found.query.terms, [place])[0]
        reefs = found.shared_reefs(packed)
        [reasons] = note_reasons(found.query, [note], context.settings.label_threshold)
    return NoteExplanation(
        note=note,
        query=query,
        rank=None if ordinal is None else found.ranking.rank_of(ordinal),
        scores=None if ordinal is None else found.ranking.scores(ordinal),
        similarity=similarity,
        matched_words=words,
        shared_reefs=reefs,
        why=sentence_of(reasons),
        reasons=reasons,
        steps=tuple(_steps(note, found.ranking, ordinal, request.filters)),
    )


class FoundNotes:
    """The ranking of one search, and what results need besides."""

    def __init__(
        self,
        context: NoteContext,
        snapshot: Snapshot,
        owner: str,
        request: NoteSearch,
        vector: QueryVector | None = None,
    ) -> None:
        """`vector`: that of the query, None without an encoder."""
        self._context = context
        self.scorer: Scorer = context.get_scorer()
        self.rows = NoteRows(snapshot, owner)
        self.query: NoteQuery = analyze(
            snapshot, self.scorer, context.settings, request.query, knows_learned=context.knows_learned
        )
        self.index = context.index_of(self.rows)
        shown = SessionRows(snapshot, owner).shown(request.session_id) if request.session_id else ()
        filters = dataclasses.replace(request.filters, shown=tuple(shown))
        cosines = None if vector is None else self._cosines(snapshot, owner, vector)
        ranking = rank_notes(self.index, self.query, filters, context.settings, cosines)
        ordinals = list(dict.fromkeys((*ranking.most(MAX_COMPARED), *ranking.first(MAX_COMPARED))))
        self._names, self._support = ranking.names, ranking.support
        self._packed: dict[int, PackedNote] = {}
        self._similarity, self._matched = self._compared(ranking, ordinals)
        self.ranking = ranking.with_similarities(self._similarity)

    def _cosines(self, snapshot: Snapshot, owner: str, vector: QueryVector) -> NoteCosines:
        """The cosines of the query and the notes of the index that have a vector."""
        stored = owner_vectors(snapshot, owner, vector.encoder)
        if len(stored.note_ids) < self.index.n_active:
            self._context.embedder.begin()
        values = np.einsum("ij,j->i", stored.vectors, vector.vector).astype(np.float64)
        return NoteCosines.of(self.index, stored.note_ids, values, vector.floor)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know about the query."""
        if not self.query.terms and not self.query.reefs:
            return ("the query has only common words, which say nothing about a subject",)
        return ()

    def similarity(self, note: PackedNote, ordinal: int | None) -> float:
        """How well a note answers the query, whether it is among those that were compared or not."""
        if ordinal is not None and ordinal in self._similarity:
            return self._answers([ordinal])[ordinal]
        return float(self._similarities([note]).values[0])

    def _similarities(self, notes: Sequence[PackedNote]) -> RecallSimilarities:
        question = TextFeatures.of(self.scorer, self.query.text)
        return recall_similarities(question, all_features(notes, self.scorer), self._names)

    def _compared(
        self, ranking: NoteRanking, ordinals: Sequence[int]
    ) -> tuple[dict[int, float], dict[int, float]]:
        """The similarity of each of some ranked notes, and the share of the query that it matches."""
        if not ordinals:
            return {}, {}
        ids = ranking.note_ids[np.array(ordinals, dtype=np.int64)].tolist()
        packed = self.rows.packed(ids)
        self._packed = {note.id: note for note in packed}
        found = self._similarities(packed)
        values = dict(zip(self._packed, found.values.tolist(), strict=True))
        matched = dict(zip(self._packed, found.matched.tolist(), strict=True))
        places = dict(zip(ordinals, ids, strict=True))
        return (
            {ordinal: values[note_id] for ordinal, note_id in places.items()},
            {ordinal: matched[note_id] for ordinal, note_id in places.items()},
        )

    def _answers(self, ordinals: Sequence[int]) -> dict[int, float]:
        """How well each of some notes answers, or the best note of its fact."""
        values = np.zeros(len(self.ranking.places))
        for ordinal in self._similarity:
            values[ordinal] = self._answer(ordinal)
        best = self.ranking.best_of_facts(values)
        return {ordinal: float(best[ordinal]) for ordinal in ordinals}

    def _answer(self, ordinal: int) -> float:
        matched, nearness = self._matched[ordinal], float(self.ranking.nearness[ordinal])
        if self.ranking.is_turn[ordinal]:
            return turn_similarity(matched, self._support)
        if math.isnan(nearness) or self._similarity[ordinal] == 1.0:
            return self._similarity[ordinal]
        return vector_similarity(matched, nearness, float(self.ranking.margins[ordinal]))

    def results(self, request: NoteSearch, *, include_scores: bool = False) -> list[NoteResult]:
        """The best results that are similar enough, best first."""
        best = self.ranking.first(MAX_COMPARED)
        similarity = self._answers(best)
        ordinals = [each for each in best if similarity[each] >= request.threshold][: request.top_k]
        if not ordinals:
            return []
        chosen = np.array(ordinals, dtype=np.int64)
        ids = self.ranking.note_ids[chosen].tolist()
        notes = self.rows.get_many(ids, label_threshold=self._context.settings.label_threshold)
        fact_ids = self.ranking.fact_ids[chosen].tolist()
        facts = (
            NoteTimes(self.rows).of_facts(sorted({fact for fact in fact_ids if fact}))
            if any(fact_ids)
            else {}
        )
        contexts = self._contexts(self.ranking.places[chosen].tolist(), request.context)
        results: list[NoteResult] = []
        n_chars = 0
        words = matched_words(self.index, self.query.terms, self.ranking.places[chosen].tolist())
        reasons = note_reasons(self.query, notes, self._context.settings.label_threshold)
        for ordinal, note, fact_id, context, own_words, own_reasons in zip(
            ordinals, notes, fact_ids, contexts, words, reasons, strict=True
        ):
            others = [each for each in facts.get(fact_id, ()) if each.id != note.id][:MAX_REPLACED]
            texts = (note.text, *(each.text for each in others), *(each.text for each in context))
            n_own = sum(map(len, texts))
            if request.max_chars is not None and results and n_chars + n_own > request.max_chars:
                continue
            n_chars += n_own
            results.append(
                NoteResult(
                    note=note,
                    score=float(self.ranking.final[ordinal]),
                    similarity=similarity[ordinal],
                    matched_words=own_words,
                    shared_reefs=self.shared_reefs(self._packed.get(note.id)),
                    why=sentence_of(own_reasons),
                    reasons=own_reasons,
                    scores=self.ranking.scores(ordinal) if include_scores else None,
                    replaced=tuple(others),
                    context=context,
                )
            )
        return results

    def _contexts(self, places: Sequence[int], reach: int) -> list[tuple[ContextTurn, ...]]:
        """The turns around each of some places in their sessions, without those that are among the places or
        come with an earlier one."""
        sessions = self.index.sessions
        if sessions is None or not reach:
            return [()] * len(places)
        seen = set(places)
        beside: list[list[int]] = []
        for place in places:
            found: list[int] = []
            for distance in range(-reach, reach + 1):
                _, others = sessions.beside(np.array([place]), distance)
                found += [other for other in others.tolist() if other not in seen]
            seen.update(found)
            beside.append(self.index.note_ids[found].tolist() if found else [])
        turns: dict[int, ContextTurn] = {}
        wanted = [note_id for ids in beside for note_id in ids]
        for start in range(0, len(wanted), IDS_PER_STATEMENT):
            turns |= NoteTimes(self.rows).turns(wanted[start : start + IDS_PER_STATEMENT])
        return [tuple(turns[note_id] for note_id in ids if note_id in turns) for ids in beside]

    def shared_reefs(self, note: PackedNote | None) -> tuple[NoteReason, ...]:
        """The reefs that query and note share, by their part of the overlap; none of a note that was not
        compared."""
        if note is None or note.data_checksum != self.scorer.data_checksum:
            return ()
        profile = Profiles.of([note.profile])
        z_scores = dict(zip(profile.reef_ids.tolist(), profile.z_scores.tolist(), strict=True))
        names = {reef.reef_id: reef.reef_name for reef in self.query.reefs}
        return tuple(
            NoteReason(reef_id, names[reef_id], round(share, 6))
            for reef_id, share in reef_shares(self.query.query_z, z_scores, N_SHARED_REEFS)
        )


def _as_text(query: str, items: Sequence[RecalledNote], nearest: RecalledNote | None) -> str:
    """Return the items as text for a prompt, each on a line with its id, behind which its context follows."""
    if not items:
        return f"No relevant knowledge found for {query!r}." + (
            f" Nothing here answers this; the nearest is {_in_line(nearest)}" if nearest else ""
        )
    noun = "item" if len(items) == 1 else "items"
    lines = [f"## Memory recall: {query!r}", f"Found {len(items)} relevant knowledge {noun}:", ""]
    for number, item in enumerate(items, 1):
        lines.append(f"{number}. {_in_line(item)}")
        lines += [
            f"   [{turn.note_id}] {in_line(turn.speaker)}: {in_line(turn.text)}" for turn in item.context
        ]
    return "\n".join(lines)


def _in_line(item: RecalledNote) -> str:
    topic = in_line(item.metadata["topic"])
    about = f"**{topic}**: " if topic else ""
    return f"{about}{in_line(item.content)} ({described(item, in_line)})"


def described(item: RecalledNote, clean: Callable[[str], str]) -> str:
    """Say in a line where an item comes from, how similar it is, its days, and what it replaced. `clean`:
    puts a stored text on one line."""
    note_id = item.metadata["note_id"]
    noun = "turn" if item.kind == TURN else "note"
    parts = [f"{noun} {note_id}, similarity {item.similarity:.2f}, said {item.said_at[:10]}"]
    if item.kind == TURN and item.session_id:
        parts.append(f"session {clean(item.session_id)}")
    if item.event is not None:
        days = item.event.first_day
        if item.event.last_day != days:
            days += f" to {item.event.last_day}"
        parts.append(f"{clean(item.event.words)} is {days}")
    if item.kind != TURN and item.valid_from != item.said_at[:10]:
        parts.append(f"since {item.valid_from}")
    if item.valid_to is not None:
        parts.append(f"until {item.valid_to}")
    parts += [
        f"{'replaced' if each.valid_to else 'replaced by'} note {each.id}, from {each.valid_from}"
        f"{f' to {each.valid_to}' if each.valid_to else ''}: {clean(each.text)}"
        for each in item.replaced
    ]
    return "; ".join(parts)


# Explanation, step by step


def _steps(note: Note, ranking: NoteRanking, ordinal: int | None, filters: NoteFilters) -> list[NoteStep]:
    if not note.is_active:
        reason = f": {note.deprecated_reason}" if note.deprecated_reason else ""
        merged = f"; it was merged into note {note.merged_into}" if note.merged_into else ""
        return [NoteStep("active", False, f"the note was deprecated at {note.deprecated_at}{reason}{merged}")]
    if ordinal is None:
        return [
            NoteStep("words", False, "no word of the query is in title or text"),
            NoteStep("reefs", False, "query and note share no reef, so the note does not match"),
        ]
    scores = ranking.scores(ordinal)
    passed = {step.name: bool(step.passes[ordinal]) for step in ranking.steps}
    steps = [
        _signal_step("words", "BM25", scores.bm25, scores.words_part),
        _signal_step("reefs", "overlap", scores.overlap, scores.reefs_part),
        *(
            [NoteStep("vectors", True, f"cosine {scores.cosine:.4g} adds {scores.vectors_part:.6g}")]
            if scores.cosine is not None
            else []
        ),
        *(
            NoteStep(name, True, f"adds {part:.6g}")
            for name, part in (
                ("passage", scores.passage_part),
                ("similarity", scores.similarity_part),
                ("turn", scores.turn_part),
                ("recency", scores.recency_part),
                ("fact", scores.fact_part),
            )
        ),
        NoteStep(
            "signals",
            True,
            " + ".join(f"{part:.6g}" for part in scores.parts) + f" = {scores.signals:.6g}",
        ),
        _affinity_step(scores),
        _relevance_step(scores, passed["relevance"]),
    ]
    if filters.environment is not None:
        steps.append(_gate_step(note, filters.environment))
    steps += [
        NoteStep(name, is_passed, _DETAILS[name][not is_passed])
        for name, is_passed in passed.items()
        if name in _DETAILS
    ]
    steps.append(
        NoteStep(
            "score",
            True,
            f"{scores.signals:.6g} * {scores.affinity:.6g} + {scores.relevance_part:.6g} = "
            f"{scores.final:.6g}",
        )
    )
    return steps


_DETAILS = {
    "category": ("the note is in the category", "the note is in another category"),
    "kind": ("the note has the kind", "the note has another kind"),
    "tags": ("the note has the tags", "the note lacks a tag of the filter"),
    "turns": ("the note is no turn", "the note is a turn, which only `recall` and `kind` find"),
    "valid": ("the note holds", "another note replaced it"),
    "time": ("the note is of that time", "the note is of another time"),
    "shown": ("the session was not shown the note", "the session was shown the note already"),
}


def _signal_step(name: str, measure: str, raw: float, part: float) -> NoteStep:
    return NoteStep(
        name, True, f"{measure} {raw:.6g} adds {part:.6g}" if raw else "no match, so it adds nothing"
    )


def _affinity_step(scores: NoteScores) -> NoteStep:
    if scores.tag_similarity is None:
        return NoteStep("affinity", True, "no tags to compare: factor 1")
    return NoteStep(
        "affinity", True, f"tag similarity {scores.tag_similarity:.4g}: factor {scores.affinity:.4g}"
    )


def _relevance_step(scores: NoteScores, passed: bool) -> NoteStep:
    if scores.relevance is None:
        return NoteStep("relevance", passed, "not judged with these tags: adds 0")
    detail = f"mean relevance {scores.relevance:.4g} adds {scores.relevance_part:.6g}"
    return NoteStep(
        "relevance", passed, detail if passed else f"{detail}; the note was judged not applicable here"
    )


def _gate_step(note: Note, environment: Environment) -> NoteStep:
    failed = Prerequisites.from_json(dict(note.prerequisites)).failed_in(environment)
    if failed:
        return NoteStep("prerequisites", False, f"these do not hold here: {', '.join(failed)}")
    return NoteStep("prerequisites", True, "all hold")
