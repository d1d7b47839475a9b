"""Why a search finds what it finds: the query word by word, and what became of one document or chunk."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

from shoal.errors import NotFoundError, QueryError
from shoal.learned_words import LearnedWord, find
from shoal.models import QueryInfo, QueryReef, SharedReef
from shoal.search.answer import comparable, milliseconds_since
from shoal.search.citation import find_shared_reefs
from shoal.search.conditions import CURRENT_DATA, Conditions, make_conditions
from shoal.search.profile import QueryProfile, make_profile
from shoal.search.reef import Ranked, count_before, rank_within
from shoal.search.request import SearchRequest
from shoal.settings import Settings
from shoal.storage.database import Database, Snapshot
from shoal.vocabularies import scorer_for

REEFS_PER_WORD = 5
"""Reefs named for each word; a word has up to a dozen, of which the last say little."""

CUSTOM, LEARNED = "custom", "learned"
"""What the scorer calls a word it was given, and what people call it."""

CHUNK_OF = "SELECT id, document_id FROM chunks WHERE id = :chunk_id"
TITLE_OF = "SELECT title FROM documents WHERE id = :document_id"
FIRST_CHUNK_OF = (
    "SELECT id, document_id FROM chunks WHERE document_id = :document_id ORDER BY chunk_index LIMIT 1"
)
MEETS = "SELECT 1 FROM chunks c WHERE c.id = :chunk_id AND {condition}"


@dataclass(frozen=True, slots=True)
class WordReef:
    """What a word adds to a reef; comparable within one query."""

    reef_id: int
    reef_name: str
    contribution: float


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the query. `query[start_char:end_char] == text`.

    `status`: `known`, `learned`, `unknown`, `stop` (too common to say anything) or `number`. `word` is
    the form it was found under in the vocabulary. `reefs`: strongest first. `learned`: what is known of a learned
    word, None for others.
    """

    text: str
    start_char: int
    end_char: int
    status: str
    word: str | None
    reefs: tuple[WordReef, ...]
    learned: LearnedWord | None = None


@dataclass(frozen=True, slots=True)
class KeptOut:
    """A reason why a chunk is not among the results: `no shared reef`, `filter`, `other data`,
    `max_per_document` or `top_k`; `message` says it in words."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Target:
    """What became of one chunk: the one asked about, or the best one of the document asked about.

    `rank` is its place among the results, from 1, whatever page was asked for; None if it is in none. `score` is
    0.0 without a shared reef.
    """

    document_id: int
    document_title: str
    chunk_id: int
    rank: int | None
    score: float
    n_shared_reefs: int
    shared_reefs: tuple[SharedReef, ...]
    kept_out: tuple[KeptOut, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query was understood. `reefs` is the whole profile that takes part in a search, strongest first."""

    query: str
    words: tuple[Word, ...]
    query_info: QueryInfo
    reefs: tuple[QueryReef, ...]
    warnings: tuple[str, ...]
    target: Target | None
    trace_id: str
    took_ms: float


def explain(
    database: Database,
    scorer: Any,
    settings: Settings,
    request: SearchRequest,
    *,
    document_id: int | None = None,
    chunk_id: int | None = None,
) -> Explanation:
    """Explain a search, and its effect on a document or chunk.

    Raises NotFoundError where there is no such document or chunk, QueryError if both are given and don't belong
    together, or a filter names a reef or island that there isn't.
    """
    started = time.perf_counter()
    conditions = make_conditions(request.filters, scorer)
    with database.snapshot() as snapshot:
        knowing = scorer_for(request.query, snapshot, scorer)
        profile = make_profile(request.query, knowing, reefs_per_query=settings.reefs_per_query)
        words = explain_words(request.query, knowing, snapshot)
        conditions, warnings = comparable(snapshot, conditions, profile, scorer)
        target = None
        if document_id is not None or chunk_id is not None:
            aimed = _aim(snapshot, profile, document_id, chunk_id)
            target = _target(snapshot, profile, conditions, request, aimed)
    return Explanation(
        query=request.query,
        words=words,
        query_info=profile.info,
        reefs=profile.reefs,
        warnings=warnings,
        target=target,
        trace_id=uuid.uuid4().hex,
        took_ms=milliseconds_since(started),
    )


def explain_words(query: str, scorer: Any, snapshot: Snapshot) -> tuple[Word, ...]:
    """Every word of a query in order, with the reefs it adds most to; of a learned one, what it was learned from."""
    names = {reef.id: reef.name for reef in scorer.reefs}
    matches = scorer.explain_words(query)
    custom = [match.word for match in matches if match.status == CUSTOM]
    learned = find(snapshot, scorer, custom) if custom else {}
    return tuple(
        Word(
            text=match.token,
            start_char=match.start,
            end_char=match.end,
            status=LEARNED if match.status == CUSTOM else match.status,
            word=match.word,
            reefs=tuple(
                WordReef(reef_id, names[reef_id], round(float(contribution), 6))
                for reef_id, contribution in sorted(match.reefs, key=lambda pair: (-pair[1], pair[0]))[
                    :REEFS_PER_WORD
                ]
            ),
            learned=learned.get(match.word),
        )
        for match in matches
    )


def _aim(snapshot: Snapshot, profile: QueryProfile, document_id: int | None, chunk_id: int | None) -> Ranked:
    """The chunk asked about, or the one of the document that has most in common with the query."""
    if chunk_id is not None:
        row = snapshot.first(CHUNK_OF, {"chunk_id": chunk_id})
        if row is None:
            raise NotFoundError(f"there is no chunk {chunk_id}")
        if document_id not in (None, row["document_id"]):
            raise QueryError("chunk_id", f"chunk {chunk_id} is not part of document {document_id}")
    else:
        row = snapshot.first(FIRST_CHUNK_OF, {"document_id": document_id})
        if row is None:
            raise NotFoundError(f"there is no document {document_id}")
    within = rank_within(snapshot, profile.reefs, row["document_id"])
    if chunk_id is None and within:
        return within[0]
    found = (one for one in within if one.chunk_id == row["id"])
    return next(found, Ranked(row["id"], row["document_id"], overlap=0, n_shared=0))


def _target(
    snapshot: Snapshot, profile: QueryProfile, conditions: Conditions, request: SearchRequest, aimed: Ranked
) -> Target:
    kept_out = _kept_out(snapshot, conditions, aimed)
    rank = None
    if not kept_out:
        rank, kept_out = _place(snapshot, profile, conditions, request, aimed)
    return Target(
        document_id=aimed.document_id,
        document_title=snapshot.value(TITLE_OF, {"document_id": aimed.document_id}),
        chunk_id=aimed.chunk_id,
        rank=rank,
        score=aimed.score,
        n_shared_reefs=aimed.n_shared,
        shared_reefs=find_shared_reefs(snapshot, [aimed.chunk_id], profile.reefs).get(aimed.chunk_id, ()),
        kept_out=tuple(kept_out),
    )


def _kept_out(snapshot: Snapshot, conditions: Conditions, aimed: Ranked) -> list[KeptOut]:
    """What keeps a chunk from being ranked at all."""
    reasons = []
    if not aimed.n_shared:
        reasons.append(KeptOut("no shared reef", "it has no reef in common with the query"))
    for name, condition in conditions.by_filter.items():
        asked = {**conditions.parameters, "chunk_id": aimed.chunk_id}
        if snapshot.first(MEETS.format(condition=condition), asked):
            continue
        if name == CURRENT_DATA:
            reasons.append(KeptOut("other data", "it was scored with other lagoon data than the query"))
        else:
            reasons.append(KeptOut("filter", f"it does not meet the filter {name}"))
    return reasons


def _place(
    snapshot: Snapshot, profile: QueryProfile, conditions: Conditions, request: SearchRequest, aimed: Ranked
) -> tuple[int | None, list[KeptOut]]:
    """The place of an eligible chunk among the results, and what keeps it from the page asked for."""
    most = request.max_per_document
    within = Conditions(
        {**conditions.by_filter, "document": "c.document_id = :aimed_document"},
        {**conditions.parameters, "aimed_document": aimed.document_id},
    )
    better = count_before(snapshot, profile.reefs, within, aimed, max_per_document=None)
    if most is not None and better >= most:
        message = f"{better} chunks of the same document match better; a document may have {most} results"
        return None, [KeptOut("max_per_document", message)]
    rank = 1 + count_before(snapshot, profile.reefs, conditions, aimed, max_per_document=most)
    last = request.offset + request.top_k
    if rank > last:
        return rank, [KeptOut("top_k", f"it is number {rank:,}; only the first {last:,} were asked for")]
    return rank, []
