"""One search in passages and notes, ranked by the same formulas (`shoal.search.ranking`).

A note takes part as a document of one passage, under a heading of its domain and tags. A pin that counts
everywhere gives a note the whole field boost. The notes of an owner are segments in memory,
which stand beside those of the library in one index: its numbers of passages, of passages with a word and of
words are those of both, and so is the best score that normalizes each signal. Feedback comes from passages.

A search in notes can also be shown step by step: how many notes each step keeps, and how the best of them
move.
"""

from __future__ import annotations

import dataclasses
import uuid
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.declared.search import SEARCH
from shoal.errors import QueryError
from shoal.index.building import NEXT, IndexedDocument, Words, segment_bytes
from shoal.index.building import Profiles as IndexedProfiles
from shoal.index.format import MAX_CHUNKS
from shoal.index.index import Index, Part
from shoal.index.segment import Segment
from shoal.models.notes import Note, NoteHit, NoteScores, UnitResponse
from shoal.models.scores import FieldBoostParts
from shoal.models.search import UNITS, SearchMode, SearchResponse, SearchResult
from shoal.notes.context import NoteContext
from shoal.notes.note_index import PINNED, Block, LiveBlock, NoteIndex, parse_list
from shoal.notes.note_rows import NoteRows
from shoal.notes.ranking import Doubles, NoteRanking
from shoal.notes.searching import FoundNotes, NoteSearch
from shoal.notes.texts import joined
from shoal.search.audit import AuditLog, complete_entry, make_entry
from shoal.search.filters import CompiledFilters
from shoal.search.library_index import LibraryIndex, LibraryView
from shoal.search.matched_terms import TextWords, find_highlights, format_term, make_highlighter
from shoal.search.ordering import Order
from shoal.search.query_analysis import AnalyzedQuery, analyze_query
from shoal.search.query_profile import MAX_REEFS, MAX_REEFS_WITH_WORDS, apply_feedback
from shoal.search.query_vectors import EmbeddedQuery
from shoal.search.ranking import Ranked, Ranking, rank
from shoal.search.relevance import find_evidence, is_relevant_enough, relevance
from shoal.search.request import SearchRequest, make_request
from shoal.search.results import (
    build_results,
    count_shared_reefs,
    find_shared_reefs,
    name_words,
    provenance_of,
    reef_part,
    scores_of,
)
from shoal.search.searcher import Searcher, filter_warnings, milliseconds_since, relevance_warnings
from shoal.search.signals import score_chunks
from shoal.settings import Settings
from shoal.storage.chunk_queries import StoredProfiles
from shoal.storage.profiles import Profiles
from shoal.words.analysis import terms_of
from shoal.words.terms import Terms

FIRST_NOTE = 1 << 62
"""In an index of both kinds, a note has this number more than its id; no passage has so large an id."""

_SEGMENTS: weakref.WeakKeyDictionary[Block, tuple[Segment, ...]] = weakref.WeakKeyDictionary()
"""The segments of blocks that this process has searched together with passages."""
_WITHOUT_CHANGE = Terms(lambda parts: parts)
"""Terms of texts that are terms already."""


def checked_units(units: object) -> tuple[str, ...]:
    """Return the kinds to search. Raises QueryError."""
    if isinstance(units, str | bytes) or not isinstance(units, Iterable):
        raise QueryError("units", f"must be a list of {' and '.join(UNITS)}")
    given = list(units)
    if not given or any(unit not in UNITS for unit in given):
        raise QueryError("units", f"must be one or both of {', '.join(UNITS)}")
    return tuple(unit for unit in UNITS if unit in given)


def make_unit_request(query: object, settings: Settings, search: Mapping[str, Any]) -> SearchRequest:
    """Validate the arguments of a search in passages and notes. Raises QueryError."""
    for name, argument in SEARCH.items():
        if not argument.is_for_notes and search.get(name) and search[name] != argument.default:
            raise QueryError(name, "is only for searches of passages alone")
    return make_request(query, settings=settings, **{**search, "rerank": 0, "pins": "off"})


def search_units(
    searcher: Searcher,
    context: NoteContext,
    owner: str,
    request: SearchRequest,
    units: Sequence[str],
    *,
    trace_id: str | None = None,
) -> UnitResponse:
    """Run a search; `Engine.search_units` describes it. Notes have no vectors."""
    prepared = searcher.prepare(request)
    audit = searcher.get_audit()
    searcher.index.prepare()
    with context.database.snapshot() as snapshot:
        rows = NoteRows(snapshot, owner)
        notes, passages = context.index_of(rows), searcher.view(snapshot)
        both = passages._replace(library=_with_notes(passages.library, notes))
        analyzed = _analyze(passages, both, request, prepared.embedded)
        ranking = rank(
            snapshot,
            both.library,
            analyzed,
            CompiledFilters(),
            mode=request.mode,
            fusion=request.fusion,
            has_whole_boost=_is_pinned(passages.library, notes),
        )
        is_met = _meets(both, notes, analyzed, prepared.filters, request, units)
        order = Order(both.library.index, ranking.order.keys, ranking.is_found & is_met)
        ranking = dataclasses.replace(ranking, order=order)
        total = ranking.n_results
        analyzed = analyzed.warned(filter_warnings(passages, prepared.filters, request, is_met=total > 0))
        last = request.offset + request.top_k
        ranked = ranking.first(last, request.limit_per_document)[request.offset :]
        results = _results(rows, both, ranked, analyzed, request)
        if request.offset == 0:
            analyzed = analyzed.warned(relevance_warnings(analyzed, results, request.mode))
        entry = _audit_entry(audit, both, request, analyzed, ranking, ranked, units)
        chunks = [each for each in ranked if each.chunk_id < FIRST_NOTE]
        took_ms = milliseconds_since(prepared.started)
    response = UnitResponse(
        results=tuple(each for each in results if is_relevant_enough(each.relevance, request.min_relevance)),
        query_info=analyzed.info,
        trace_id=trace_id or uuid.uuid4().hex,
        took_ms=took_ms,
        warnings=analyzed.warnings,
        weights=analyzed.weights._asdict(),
        total=total,
    )
    if audit and entry is not None:
        # The entry takes the trace id and the time.
        logged = SearchResponse(
            (), response.query_info, response.trace_id, response.took_ms, response.warnings
        )
        audit.write(complete_entry(entry, logged, chunks))
    return response


def _audit_entry(
    audit: AuditLog | None,
    view: LibraryView,
    request: SearchRequest,
    analyzed: AnalyzedQuery,
    ranking: Ranking,
    ranked: Sequence[Ranked],
    units: Sequence[str],
) -> dict[str, object] | None:
    if audit is None:
        return None
    entry = make_entry(audit.level, view, request, analyzed, ranking)
    note_ids = [each.chunk_id - FIRST_NOTE for each in ranked if each.chunk_id >= FIRST_NOTE]
    return {**entry, "units": list(units), "notes": note_ids}


# The index of both kinds


def _with_notes(passages: LibraryIndex, notes: NoteIndex) -> LibraryIndex:
    """The index of a library and of notes. The places of passages stay, and those of notes follow."""
    parts = [part for own in notes.parts for part in _index_parts(own, notes)]
    index = Index.of_parts([*passages.index.parts, *parts])
    both = LibraryIndex(index, passages.n_missing, passages.fields, passages.vectors, passages.encoder)
    both.other_data = passages.other_data
    return both


def _is_pinned(passages: LibraryIndex, notes: NoteIndex) -> NDArray[np.bool_]:
    """Whether the note at each place has a pin that counts everywhere."""
    is_yes = np.array([value == PINNED for value in notes.facets.values("is_pinned")], dtype=np.bool_)
    return np.concatenate([np.zeros(len(passages), dtype=np.bool_), is_yes[notes.facet("is_pinned")]])


def _index_parts(part: LiveBlock, notes: NoteIndex) -> list[Part]:
    segments = _SEGMENTS.get(part.block)
    if segments is None:
        n = len(part)
        ranges = [(first, min(first + MAX_CHUNKS, n)) for first in range(0, n, MAX_CHUNKS)]
        segments = tuple(_segment(part.block, notes, first, end) for first, end in ranges)
        _SEGMENTS[part.block] = segments
    if part.live is None:
        return [Part(segment) for segment in segments]
    hidden = part.block.note_ids[~part.live] + FIRST_NOTE
    return [Part.without(segment, hidden.tolist()) for segment in segments]


def _segment(block: Block, notes: NoteIndex, first: int, end: int) -> Segment:
    """A segment of the notes `first:end` of a block."""
    names = notes.terms.names(block.terms)
    domains, tags = (
        [notes.facets.values(name)[number] for number in block.facet(name).tolist()]
        for name in ("domain", "tags")
    )
    words = np.empty(len(block.positions), dtype=np.int64)
    words[block.positions] = np.repeat(np.arange(len(names)), np.diff(block.term_starts))
    by_note = np.argsort(block.reef_notes, kind="stable")
    reef_ids = np.repeat(np.arange(len(block.reef_starts) - 1), np.diff(block.reef_starts))[by_note]
    weights = block.reef_weights[by_note]
    reef_starts = np.searchsorted(block.reef_notes[by_note], np.arange(len(block) + 1))
    one_section, no_confidence = np.zeros(1, dtype=np.int64), np.zeros(1)
    documents = []
    for ordinal in range(first, end):
        start, title_end, stop = (
            int(block.token_starts[ordinal]),
            int(block.title_ends[ordinal]),
            int(block.token_starts[ordinal + 1]),
        )
        reefs = slice(int(reef_starts[ordinal]), int(reef_starts[ordinal + 1]))
        number = int(block.note_ids[ordinal]) + FIRST_NOTE
        documents.append(
            IndexedDocument(
                document_id=number,
                chunk_ids=np.array([number], dtype=np.int64),
                words=_unit(names, words[title_end:stop]),
                title=_unit(names, words[start:title_end]),
                sections=one_section,
                headings={0: _unit_of(" ".join((domains[ordinal], *parse_list(tags[ordinal]))))},
                profiles=IndexedProfiles(
                    np.array([0, reefs.stop - reefs.start]), reef_ids[reefs], weights[reefs]
                ),
                confidence=no_confidence,
            )
        )
    return Segment(segment_bytes(documents, _WITHOUT_CHANGE))


def _unit_of(text: str) -> Words:
    terms = terms_of(text)
    return _unit(terms, np.arange(len(terms)))


def _unit(names: Sequence[str], words: NDArray[np.int64]) -> Words:
    n = len(words)
    return Words(
        names, words, np.full(n, NEXT, dtype=np.uint8), np.array([0, n]), np.zeros(n, dtype=np.bool_)
    )


# Ranking


def _analyze(
    passages: LibraryView, both: LibraryView, request: SearchRequest, embedded: EmbeddedQuery
) -> AnalyzedQuery:
    """Analyze a query for both kinds, with feedback from passages."""
    snapshot, _, scorer, settings = passages
    without_feedback = dataclasses.replace(settings, feedback_weight=0.0)
    analyzed = analyze_query(both._replace(settings=without_feedback), request, embedded)
    share = settings.feedback_weight if settings.learning else 0.0
    if not request.mode.uses("reef") or not analyzed.profile.reefs or not share:
        return analyzed
    lexical_scores = score_chunks(both.library, analyzed.parsed, analyzed.matches)
    feedback = apply_feedback(
        snapshot,
        passages.library,
        scorer,
        analyzed.profile.reefs,
        analyzed.parsed,
        lexical_scores[: len(passages.library)],
        share=share,
        max_reefs=MAX_REEFS if request.mode is SearchMode.reef else MAX_REEFS_WITH_WORDS,
        other_data_than=analyzed.other_data,
    )
    return dataclasses.replace(analyzed, lexical_scores=lexical_scores, feedback=feedback)


def _meets(
    both: LibraryView,
    notes: NoteIndex,
    analyzed: AnalyzedQuery,
    compiled: CompiledFilters,
    request: SearchRequest,
    units: Sequence[str],
) -> NDArray[np.bool_]:
    """Whether each place meets the filters and the query's own conditions, and is of a wanted kind."""
    snapshot, library, *_ = both
    with_required = request.mode is not SearchMode.reef
    of_query = CompiledFilters().and_of_query(analyzed.parsed, with_required=with_required)
    is_met = of_query.met_by(snapshot, library, analyzed.matches)
    n_passages = len(library) - len(notes)
    if compiled:
        is_met[:n_passages] &= compiled.met_by(snapshot, library)[:n_passages]
    if "chunk" not in units:
        is_met[:n_passages] = False
    if "note" not in units or compiled.tree is not None or compiled.by_filter.keys() - {"tags"}:
        is_met[n_passages:] = False
    elif request.filters.tags:
        wanted = set(request.filters.tags)
        needs_all = request.filters.tags_match == "all"
        tags = notes.facets.values("tags")
        is_tagged = np.array(
            [
                wanted <= own if needs_all else bool(wanted & own)
                for own in (set(parse_list(each)) for each in tags)
            ],
            dtype=np.bool_,
        )
        is_met[n_passages:] &= is_tagged[notes.facet("tags")]
    return is_met


# Results


def _results(
    rows: NoteRows,
    view: LibraryView,
    ranked: Sequence[Ranked],
    analyzed: AnalyzedQuery,
    request: SearchRequest,
) -> list[SearchResult | NoteHit]:
    chunks = [each for each in ranked if each.chunk_id < FIRST_NOTE]
    passages = build_results(view, chunks, analyzed, request)
    in_notes = [each for each in ranked if each.chunk_id >= FIRST_NOTE]
    hits = _hits(rows, view, in_notes, analyzed, request)
    by_id: dict[int, SearchResult | NoteHit] = {result.chunk_id: result for result in passages}
    by_id |= {hit.note.id + FIRST_NOTE: hit for hit in hits}
    return [by_id[each.chunk_id] for each in ranked]


def _hits(
    rows: NoteRows,
    view: LibraryView,
    ranked: Sequence[Ranked],
    analyzed: AnalyzedQuery,
    request: SearchRequest,
) -> list[NoteHit]:
    """The results for notes, with what results for passages have."""
    if not ranked:
        return []
    snapshot, _, scorer, settings = view
    threshold = settings.label_threshold
    numbers = [each.chunk_id for each in ranked]
    notes = rows.get_many([number - FIRST_NOTE for number in numbers], label_threshold=threshold)
    stored = {note.id + FIRST_NOTE: note for note in rows.packed([note.id for note in notes])}
    profiles = Profiles.of([stored[number].profile for number in numbers])
    checksums = [stored[number].data_checksum for number in numbers]
    comparable = StoredProfiles(numbers, profiles, checksums).scored_with(scorer.data_checksum)
    shared = {}
    if request.include_scores:
        parts = {each.chunk_id: reef_part(each, request.mode, analyzed) for each in ranked}
        shared = find_shared_reefs(comparable, parts, analyzed, threshold)
    if request.include_scores:
        texts = {note.id + FIRST_NOTE: joined(note.title, note.text) for note in notes}
        shared = name_words(snapshot, shared, texts, analyzed, scorer)
    n_shared = count_shared_reefs(comparable, ranked, request.mode, analyzed)
    places = np.array([each.place for each in ranked])
    coverage = analyzed.term_statistics.term_coverage(analyzed.matches, numbers, places)
    words, heads = TextWords([note.text for note in notes], [note.title for note in notes]).by_group()
    highlighter = make_highlighter(analyzed.parsed, request.mode)
    highlights = find_highlights([note.text for note in notes], highlighter, words)
    evidence = find_evidence(comparable, analyzed, numbers, coverage, words, heads)
    is_matched = {term: found.are_in(places) for term, found in analyzed.matches.items()}
    return [
        NoteHit(
            note=note,
            match_score=each.score,
            relevance=relevance(evidence[i]),
            scores=dataclasses.replace(
                scores_of(each, request.mode, None, analyzed),
                field_boost_parts=_boost_parts(note, each.field_boost, analyzed)
                if request.include_scores
                else None,
            ),
            n_shared_reefs=n_shared.get(each.chunk_id, 0),
            provenance=provenance_of(each),
            term_coverage=coverage.get(each.chunk_id),
            matched_words=tuple(format_term(term) for term, found in is_matched.items() if found[i]),
            highlights=highlights[i],
            shared_reefs=shared.get(each.chunk_id, ()) if request.include_scores else None,
        )
        for i, (each, note) in enumerate(zip(ranked, notes, strict=True))
    ]


def _boost_parts(note: Note, field_boost: float, analyzed: AnalyzedQuery) -> FieldBoostParts:
    """Return what title, domain, tags and pin of a note add to its field boost; the parts add up to it."""
    terms = [frozenset(terms_of(" ".join(term.tokens))) for term in analyzed.parsed.terms]
    fields = [note.title, note.domain, " ".join(note.tags)]
    words = [frozenset(terms_of(text)) for text in fields]
    parts = [0.0] * len(fields)
    for term in terms if field_boost else ():
        place = next((place for place, has in enumerate(words) if term <= has), None)
        if place is not None:
            parts[place] += 1 / len(terms)
    rest = max(field_boost - sum(parts), 0.0)
    is_pinned = note.pinned_by is not None and not note.pin_tags
    if not is_pinned:
        # Other forms of a word, such as its synonyms, which the ranking found in one of the fields.
        parts[max((place for place, text in enumerate(fields) if text), default=0)] += rest
    title, domain, tags = parts
    return FieldBoostParts(title, 0.0, tags, domain, rest if is_pinned else 0.0)


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
    vector = context.query_vector(request.query)
    with context.database.snapshot() as snapshot:
        found = FoundNotes(context, snapshot, owner, request, vector)
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
