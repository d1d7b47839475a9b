"""Why a search finds what it finds: the query word by word, and what became of one document or chunk."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

from shoal.errors import NotFoundError, QueryError
from shoal.learned_words import LearnedWord, find
from shoal.models import QueryInfo, QueryReef, Scores, SearchMode, SharedReef
from shoal.search.answer import milliseconds_since, rank_for
from shoal.search.citation import find_shared_reefs, reef_part, scores_of
from shoal.search.conditions import EXCLUDED, PHRASE, TITLE, Conditions, make_conditions
from shoal.search.postings import KeptPostings
from shoal.search.ranking import Ranked, Ranking, chunks_of
from shoal.search.request import SearchRequest
from shoal.search.understanding import Understood, understand
from shoal.settings import Settings
from shoal.storage.database import Database, Snapshot

REEFS_PER_WORD = 5
"""Reefs named for each word; a word has up to a dozen, of which the last say little."""

CUSTOM, LEARNED = "custom", "learned"
"""What the scorer calls a word it was given, and what people call it."""

CHUNK_OF = "SELECT id, document_id FROM chunks WHERE id = :chunk_id"
CHECKSUM_OF = "SELECT data_checksum FROM chunks WHERE id = :chunk_id"
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
    """A reason why a chunk is not among the results: `no match` (by words, or by words and reefs), `no shared reef`,
    `other data`, `filter`, `phrase`, `title`, `excluded`, `max_per_document` or `top_k`; `message` says it in words."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Target:
    """What became of one chunk: the one asked about, or the best one of the document asked about.

    `rank` is its place among the results, from 1, whatever page was asked for; None if it is in none. `score` is
    0.0 without a match, `scores` its parts.
    """

    document_id: int
    document_title: str
    chunk_id: int
    rank: int | None
    score: float
    n_shared_reefs: int
    shared_reefs: tuple[SharedReef, ...]
    kept_out: tuple[KeptOut, ...]
    scores: Scores


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
    kept: KeptPostings,
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
        understood = understand(snapshot, scorer, settings, request)
        words = explain_words(understood.parsed.about, understood.scorer, snapshot)
        target = None
        if document_id is not None or chunk_id is not None:
            ranking = rank_for(snapshot, understood, conditions, request, kept, scorer.n_reefs)
            aimed = _aim(snapshot, ranking, document_id, chunk_id)
            demands = conditions.and_of_query(
                understood.parsed, with_required=request.mode is not SearchMode.reef
            )
            target = _target(snapshot, understood, ranking, demands, request, aimed, scorer.data_checksum)
    return Explanation(
        query=request.query,
        words=words,
        query_info=understood.profile.info,
        reefs=understood.reefs,
        warnings=understood.warnings,
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


def _aim(snapshot: Snapshot, ranking: Ranking, document_id: int | None, chunk_id: int | None) -> Ranked:
    """The chunk asked about, or the one of the document that matches the query best."""
    if chunk_id is not None:
        row = snapshot.first(CHUNK_OF, {"chunk_id": chunk_id})
        if row is None:
            raise NotFoundError(f"there is no chunk {chunk_id}")
        if document_id not in (None, row["document_id"]):
            raise QueryError("chunk_id", f"chunk {chunk_id} is not part of document {document_id}")
        return ranking.of(chunk_id, row["document_id"])
    row = snapshot.first(FIRST_CHUNK_OF, {"document_id": document_id})
    if row is None:
        raise NotFoundError(f"there is no document {document_id}")
    best = ranking.best_of(chunks_of(snapshot, row["document_id"]))
    return ranking.of(row["id"] if best is None else best, row["document_id"])


def _target(
    snapshot: Snapshot,
    understood: Understood,
    ranking: Ranking,
    conditions: Conditions,
    request: SearchRequest,
    aimed: Ranked,
    data_checksum: str,
) -> Target:
    kept_out = _kept_out(snapshot, understood, conditions, request.mode, aimed)
    rank = None
    if not kept_out:
        rank, kept_out = _place(ranking, request, aimed)
    part = {aimed.chunk_id: reef_part(aimed, request.mode, understood)}
    shared = find_shared_reefs(snapshot, part, understood.reefs, data_checksum)
    return Target(
        document_id=aimed.document_id,
        document_title=snapshot.value(TITLE_OF, {"document_id": aimed.document_id}),
        chunk_id=aimed.chunk_id,
        rank=rank,
        score=aimed.score,
        n_shared_reefs=len(shared.get(aimed.chunk_id, ())),
        shared_reefs=shared.get(aimed.chunk_id, ()),
        kept_out=tuple(kept_out),
        scores=scores_of(aimed, request.mode),
    )


def _kept_out(
    snapshot: Snapshot, understood: Understood, conditions: Conditions, mode: SearchMode, aimed: Ranked
) -> list[KeptOut]:
    """What keeps a chunk from being ranked at all."""
    reasons = []
    matches = bool(aimed.n_shared) if mode is SearchMode.reef else aimed.score > 0
    if not matches and _is_of_other_data(snapshot, understood, aimed):
        reasons.append(KeptOut("other data", "it was scored with other lagoon data than the query"))
    elif not matches and mode is SearchMode.reef:
        reasons.append(KeptOut("no shared reef", "it has no reef in common with the query"))
    elif not matches:
        what = "no word" if mode is SearchMode.lexical else "neither word nor reef"
        reasons.append(KeptOut("no match", f"it has {what} in common with the query"))
    for name, condition in conditions.by_filter.items():
        asked = {**conditions.parameters, "chunk_id": aimed.chunk_id}
        if not snapshot.first(MEETS.format(condition=condition), asked):
            reasons.append(_not_met(name))
    return reasons


def _is_of_other_data(snapshot: Snapshot, understood: Understood, aimed: Ranked) -> bool:
    if understood.other_data is None:
        return False
    return bool(snapshot.value(CHECKSUM_OF, {"chunk_id": aimed.chunk_id}) != understood.other_data)


def _not_met(name: str) -> KeptOut:
    if name == EXCLUDED:
        return KeptOut(name, "it holds a word that the query leaves out")
    if name == PHRASE:
        return KeptOut(name, "it does not hold the phrase that stands in quotation marks")
    if name == TITLE:
        return KeptOut(name, "its title does not hold what the query wants in a title")
    return KeptOut("filter", f"it does not meet the filter {name}")


def _place(ranking: Ranking, request: SearchRequest, aimed: Ranked) -> tuple[int | None, list[KeptOut]]:
    """The place of an eligible chunk among the results, and what keeps it from the page asked for."""
    most = request.max_per_document
    rank = ranking.rank_of(aimed.chunk_id, most)
    if rank is None:
        message = f"better chunks of the same document match; a document may have {most} results"
        return None, [KeptOut("max_per_document", message)]
    last = request.offset + request.top_k
    if rank > last:
        return rank, [KeptOut("top_k", f"it is number {rank:,}; only the first {last:,} were asked for")]
    return rank, []
