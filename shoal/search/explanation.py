"""Explanations of a search: the query word by word, and the rank of a document or chunk."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lagoon.tokens import without_clitic
from shoal.errors import NotFoundError, QueryError
from shoal.filters.warnings import unmet
from shoal.index import scoring
from shoal.index.matching import near_forms
from shoal.index.scoring import WeightedTerm
from shoal.learning.scorers import find, normal_form
from shoal.models.explanations import (
    LEARNED,
    MAX_LOOKED_UP,
    Explanation,
    KeptOut,
    NearWordPart,
    Target,
    Word,
    WordReef,
)
from shoal.models.queries import NearWord
from shoal.models.search import Expand, GroupBy, SearchMode, SearchResponse, SearchResult
from shoal.scorer import Scorer
from shoal.search.counterfactuals import find_counterfactuals
from shoal.search.filters import EXCLUDED, TITLE
from shoal.search.folding import FOLD_DEPTH, select
from shoal.search.library_index import LibraryIndex, LibraryView
from shoal.search.matched_terms import TextWords, format_term
from shoal.search.nearest_sentences import NO_TIME, nearest_sentences
from shoal.search.ordering import BestFirst, per_document
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.query_language import MAX_PHRASE_WORDS, Term
from shoal.search.ranking import Ranked, Ranking
from shoal.search.relevance import describe, find_evidence, is_relevant_enough
from shoal.search.request import SearchRequest
from shoal.search.results import build_results, names_of
from shoal.search.searcher import RankedSearch, Searcher, count_pinned, milliseconds_since
from shoal.search.signals import COSINE_UNIT, UNIT, find_matches, term_weight
from shoal.storage.chunk_queries import profiles_of
from shoal.storage.database import Snapshot
from shoal.words.analysis import folded, stems_of, tokens_of

if TYPE_CHECKING:
    from shoal.search.reranking import Reranking, StoredVectors


MAX_SUGGESTIONS = 3
"""Most suggestions for a word."""
MAX_CANDIDATES = 12
"""Near forms that suggestions are chosen from; some are inflections of others."""


def suggest(word: str, library: LibraryIndex) -> tuple[str, ...]:
    """Return suggestions for an unknown word in its normal form: words of the library, nearest first, those
    of equal distance by their occurrences.

    Of several inflections of a word, one is returned. None for a word with digits, or of fewer than 4 letters
    or more than 64.
    """
    if not word.isalpha():
        return ()
    near = [each.form for each in near_forms(library.index, word, MAX_CANDIDATES)]
    of_term: dict[str, str] = {}
    for form, term in zip(near, stems_of(near), strict=True):
        of_term.setdefault(term, form)
    return tuple(of_term.values())[:MAX_SUGGESTIONS]


def count_chunks(library: LibraryIndex, words: str) -> int:
    """Count the chunks with these words side by side, in any inflection; only the first MAX_PHRASE_WORDS
    count."""
    term = Term(tuple(tokens_of(words)[:MAX_PHRASE_WORDS]))
    return find_matches(library, [term])[term].n_chunks


REEFS_PER_WORD = 5
"""Reefs listed for each word; a word has up to a dozen, and the weakest matter little."""
MAX_WORDS_WITH_SUGGESTIONS = 5

CUSTOM = "custom"
"""Status of a learned word in lagoon, and in Shoal."""


def explain_words(
    query: str,
    scorer: Scorer,
    snapshot: Snapshot,
    library: LibraryIndex,
    near_words: Sequence[NearWord] = (),
) -> tuple[Word, ...]:
    """Explain every word of a query, in order. `scorer` knows its learned words. A word with a near word that
    takes its place gets no suggestions. A viewer is not shown what a word was learned from: the counts are of
    the whole library."""
    searched_as = {folded(near.typed): near.word for near in near_words if near.replaces}
    names = {reef.id: reef.name for reef in scorer.reefs}
    matches = scorer.explain_words(query)
    custom = [match.word for match in matches if match.word and match.status == CUSTOM]
    learned = find(snapshot, scorer, library.count_by_document, custom) if custom else {}
    names_of_library = {word for word, entry in learned.items() if entry.is_name}
    counts = _counts(library, [match.token for match in matches if match.status != "stop"])
    missing = [match.token for match in matches if match.status == "unknown" and counts.get(match.token) == 0]
    missing = [token for token in missing if folded(token) not in searched_as]
    suggestions = {
        token: suggest(without_clitic(normal_form(token)), library)
        for token in list(dict.fromkeys(missing))[:MAX_WORDS_WITH_SUGGESTIONS]
    }
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
                if match.word not in names_of_library
            ),
            learned=learned.get(match.word or "") if library.viewer is None else None,
            n_chunks=counts.get(match.token) if match.status != "stop" else None,
            suggestions=suggestions.get(match.token, ()) if match.status == "unknown" else (),
            searched_as=searched_as.get(folded(match.token)),
        )
        for match in matches
    )


def _counts(library: LibraryIndex, tokens: list[str]) -> dict[str, int]:
    return {token: count_chunks(library, token) for token in list(dict.fromkeys(tokens))[:MAX_LOOKED_UP]}


CHUNK_OF = "SELECT id, document_id FROM chunks WHERE id = :chunk_id"
CHECKSUM_OF = "SELECT data_checksum FROM chunks WHERE id = :chunk_id"
CHUNK_TEXTS = """
    SELECT c.document_id, d.title, d.source_path, s.path AS section_path, c.text
    FROM chunks c JOIN documents d ON d.id = c.document_id JOIN sections s ON s.id = c.section_id
    WHERE c.id = :chunk_id
"""
FIRST_CHUNK_OF = (
    "SELECT id, document_id FROM chunks WHERE document_id = :document_id ORDER BY chunk_index LIMIT 1"
)


def explain(
    searcher: Searcher,
    request: SearchRequest,
    *,
    document_id: int | None = None,
    chunk_id: int | None = None,
) -> Explanation:
    """Explain a search and, if given, the rank of a document or chunk.

    Raises NotFoundError if the document or chunk does not exist, and QueryError if the chunk is not part of
    the document or a filter names a reef or island that does not exist; for mode `dense`, as a search does.
    """
    prepared = searcher.prepare(request)
    with searcher.open([prepared]) as view:
        search = searcher.rank(view, prepared).with_warnings()
        words = _words(search)
        target = None
        text = ""
        results: Sequence[SearchResult] = ()
        stored: StoredVectors | None = None
        n_pinned = 0
        chunk = None
        if document_id is not None or chunk_id is not None:
            chunk = _select_chunk(view, search.ranking, document_id, chunk_id)
            target = _explain_chunk(search, chunk)
            text = view.snapshot.first(CHUNK_TEXTS, {"chunk_id": target.chunk_id})["text"]
            reranker = searcher.reranker_for(request)
            if reranker is not None:
                plain = dataclasses.replace(request, include_scores=False, context=0, expand=Expand.none)
                ranked = select(view.snapshot, search.ranking, request, request.rerank).ranked
                results = build_results(view, ranked, search.analyzed_query, plain)
                n_pinned = count_pinned(results)
                results = results[n_pinned:]
                stored = reranker.stored_vectors(view.snapshot, results)
        counterfactuals = find_counterfactuals(searcher, search, chunk)
    analyzed_query, vector = search.analyzed_query, prepared.embedded.vector
    query_vectors = searcher.get_query_vectors()
    if target and query_vectors and vector and target.scores.dense_raw and target.scores.dense:
        nearest, is_complete = nearest_sentences(query_vectors, vector, {target.chunk_id: text})
        target = dataclasses.replace(target, nearest_sentence=nearest.get(target.chunk_id))
        analyzed_query = analyzed_query.warned(() if is_complete else (NO_TIME,))
    reranking = searcher.rerank(request, analyzed_query, results, stored)
    explanation = _explanation(
        request, analyzed_query, words, target, uuid.uuid4().hex, milliseconds_since(prepared.started)
    )
    explanation = dataclasses.replace(explanation, counterfactuals=counterfactuals)
    if target is None or reranking is None:
        return explanation
    return dataclasses.replace(
        explanation,
        target=_reranked(target, request, reranking, [result.chunk_id for result in results], n_pinned),
        warnings=(*explanation.warnings, *reranking.warnings),
        rerank=reranking.info,
    )


def _words(search: RankedSearch) -> tuple[Word, ...]:
    """The words of the query as typed."""
    query, view = search.analyzed_query, search.view
    return explain_words(query.typed_about, query.scorer, view.snapshot, view.library, query.near_words)


def search_and_explain(
    searcher: Searcher, request: SearchRequest, *, trace_id: str | None = None, with_sentences: bool = True
) -> tuple[SearchResponse, Explanation]:
    """Run a search and explain its query, which is analyzed once for both; `with_sentences` as in
    `Searcher.search_and_inspect`. Raises QueryError."""
    started = time.perf_counter()
    response, (analyzed_query, words) = searcher.search_and_inspect(
        request,
        lambda search: (search.analyzed_query, _words(search)),
        trace_id=trace_id,
        with_sentences=with_sentences,
    )
    took_ms = milliseconds_since(started)
    explanation = _explanation(request, analyzed_query, words, None, response.trace_id, took_ms)
    return response, dataclasses.replace(explanation, warnings=response.warnings, rerank=response.rerank)


def _explanation(
    request: SearchRequest,
    analyzed_query: AnalyzedQuery,
    words: tuple[Word, ...],
    target: Target | None,
    trace_id: str,
    took_ms: float,
) -> Explanation:
    return Explanation(
        query=request.query,
        mode=request.mode.value,
        weights=analyzed_query.weights._asdict(),
        terms=tuple(map(format_term, analyzed_query.parsed.terms)),
        required=tuple(map(format_term, analyzed_query.parsed.required)),
        excluded=tuple(map(format_term, analyzed_query.parsed.excluded)),
        words=words,
        query_info=analyzed_query.info,
        reefs=analyzed_query.reefs,
        feedback=() if analyzed_query.feedback is None else analyzed_query.feedback.feedback_chunks,
        warnings=analyzed_query.warnings,
        target=target,
        trace_id=trace_id,
        took_ms=took_ms,
    )


def _select_chunk(
    view: LibraryView, ranking: Ranking, document_id: int | None, chunk_id: int | None
) -> Ranked:
    """The given chunk, or the chunk of the given document that matches the query best. What a viewer may not
    see is not found."""
    snapshot, library, *_ = view
    is_whole = library.viewer is None
    if chunk_id is not None:
        is_visible = is_whole or library.index.place_of(chunk_id) is not None
        row = snapshot.first(CHUNK_OF, {"chunk_id": chunk_id}) if is_visible else None
        if row is None:
            raise NotFoundError(f"there is no chunk {chunk_id}")
        if document_id not in (None, row["document_id"]):
            raise QueryError("chunk_id", f"chunk {chunk_id} is not part of document {document_id}")
        return ranking.of(chunk_id, row["document_id"])
    assert document_id is not None, "a chunk or a document is given"
    is_visible = is_whole or library.sees_document(snapshot, document_id)
    row = snapshot.first(FIRST_CHUNK_OF, {"document_id": document_id}) if is_visible else None
    if row is None:
        raise NotFoundError(f"there is no document {document_id}")
    best = ranking.best_of(row["document_id"])
    return ranking.of(row["id"] if best is None else best, row["document_id"])


def _explain_chunk(search: RankedSearch, chunk: Ranked) -> Target:
    request, ranking, analyzed_query = search.request, search.ranking, search.analyzed_query
    snapshot, _, scorer, _ = search.view
    kept_out = _kept_out(search, chunk)
    if kept_out:
        rank, would_rank = None, _unfiltered_rank(ranking, request, chunk)
    else:
        rank, kept_out = _rank(snapshot, ranking, request, chunk)
        would_rank = ranking.rank_of(chunk.chunk_id, None) if rank is None else rank
    result = search.explained(chunk)
    stored = profiles_of(snapshot, [chunk.chunk_id]).scored_with(scorer.data_checksum)
    row = snapshot.first(CHUNK_TEXTS, {"chunk_id": chunk.chunk_id})
    coverage = {} if result.term_coverage is None else {chunk.chunk_id: result.term_coverage}
    words = TextWords(
        [row["text"]], [names_of(row)], languages=analyzed_query.parsed.all_languages
    ).by_group()
    (evidence,) = find_evidence(stored, analyzed_query, [chunk.chunk_id], coverage, *words)
    if not is_relevant_enough(result.relevance, request.min_relevance, is_pinned=chunk.is_pinned):
        message = f"its relevance is {result.relevance:.2f}, and {request.min_relevance:g} was required"
        kept_out = [*kept_out, KeptOut("min_relevance", message)]
    return Target(
        document_id=chunk.document_id,
        document_title=result.document_title,
        chunk_id=chunk.chunk_id,
        rank=rank,
        score=chunk.score,
        why=result.why,
        reasons=result.reasons,
        n_shared_reefs=len(result.shared_reefs or ()),
        shared_reefs=result.shared_reefs or (),
        kept_out=tuple(kept_out),
        scores=result.scores,
        matched_terms=result.matched_terms or (),
        would_rank=would_rank,
        relevance=result.relevance,
        relevance_parts=describe(evidence, analyzed_query.term_statistics.missing),
        term_coverage=result.term_coverage,
        near_words=_near_word_parts(ranking.library, analyzed_query, chunk.chunk_id),
        sort_values=chunk.sort_values,
        pinned_by=_pin_of(ranking, chunk) if rank is not None and chunk.is_pinned else None,
    )


def _pin_of(ranking: Ranking, chunk: Ranked) -> int | None:
    place = ranking.library.index.place_of(chunk.chunk_id)
    return None if ranking.pins is None or place is None else ranking.pins.pin_of.get(place)


def _near_word_parts(
    library: LibraryIndex, analyzed_query: AnalyzedQuery, chunk_id: int
) -> tuple[NearWordPart, ...]:
    place = library.index.place_of(chunk_id)
    if place is None:
        return ()
    parts = []
    for near in analyzed_query.near_words:
        term = Term((near.word,))
        (matches,) = find_matches(library, [term]).values()
        weighted = WeightedTerm(matches, term_weight(analyzed_query.parsed, term), has_context=True)
        score = int(scoring.score_terms(library.index, [weighted])[place]) / UNIT
        parts.append(NearWordPart(near.typed, near.word, score))
    return tuple(parts)


def _unfiltered_rank(ranking: Ranking, request: SearchRequest, chunk: Ranked) -> int | None:
    """The rank without filters, phrases and exclusions; and without the limit per document, if that keeps the
    chunk out."""
    if not ranking.matches(chunk.chunk_id):
        return None
    limited = ranking.rank_of(chunk.chunk_id, request.limit_per_document, filtered=False)
    return ranking.rank_of(chunk.chunk_id, None, filtered=False) if limited is None else limited


def _kept_out(search: RankedSearch, chunk: Ranked) -> list[KeptOut]:
    """The reasons why a chunk is not ranked at all."""
    snapshot, library, *_ = search.view
    ranking, compiled_filters = search.ranking, search.filters
    reasons = _without_match(snapshot, ranking, search.analyzed_query, search.request.mode, chunk)
    place = library.index.place_of(chunk.chunk_id)
    if compiled_filters.names is not None and place is not None:
        state, by_filter = compiled_filters.state(snapshot, library), compiled_filters.by_filter
        not_met = [name for name, node in by_filter.items() if any(unmet(state, node, place))]
        if compiled_filters.tree is not None:
            not_met += unmet(state, compiled_filters.tree, place)
        reasons += [KeptOut("filter", f"it does not meet the filter {text}") for text in not_met]
    for name, terms in compiled_filters.required.items():
        missing = _terms_of(library, terms, chunk.chunk_id, are_held=False)
        if missing:
            where = "its title" if name == TITLE else "it"
            reasons.append(KeptOut(name, f"{where} does not contain what the query requires: {missing}"))
    if ranking.pins is not None and place in ranking.pins.hidden_by:
        reasons.append(KeptOut("hidden", f"it is hidden by pin {ranking.pins.hidden_by[place]}"))
    if ranking.shortlist is not None and not reasons and not chunk.is_pinned:
        document_rank = ranking.shortlist.rank_of(chunk.document_id)
        if document_rank is not None and document_rank > ranking.shortlist.size:
            size = ranking.shortlist.size
            message = f"its document has rank {document_rank:,}, and the shortlist has {size:,}"
            reasons.append(KeptOut("shortlist", message))
    excluded = _terms_of(library, compiled_filters.excluded, chunk.chunk_id, are_held=True)
    if excluded:
        reasons.append(KeptOut(EXCLUDED, f"it contains what the query excludes: {excluded}"))
    return reasons


def _without_match(
    snapshot: Snapshot, ranking: Ranking, analyzed_query: AnalyzedQuery, mode: SearchMode, chunk: Ranked
) -> list[KeptOut]:
    """Why no signal found a chunk; empty if one did, or if a pin put it first."""
    if ranking.matches(chunk.chunk_id) or chunk.is_pinned:
        return []
    if mode is SearchMode.dense:
        return [_not_near(ranking, chunk)]
    if _is_of_other_data(snapshot, analyzed_query, chunk):
        return [KeptOut("other data", "it was scored with other lagoon data than the query")]
    if mode is SearchMode.reef:
        return [KeptOut("no shared reef", "it has no reef in common with the query")]
    if chunk.field_boost > 0:
        return [KeptOut("no match", "only its tags have words of the query, and tags alone make no result")]
    what = "no word" if mode is SearchMode.lexical else "neither word nor reef"
    end = ", and its vector is not near" if chunk.dense_raw is not None else ""
    return [KeptOut("no match", f"it has {what} in common with the query{end}")]


def _not_near(ranking: Ranking, chunk: Ranked) -> KeptOut:
    """Why the dense signal does not match a chunk."""
    if ranking.cosines is None or chunk.dense_raw is None:
        return KeptOut("no vector", "it has no vector yet")
    floor = ranking.cosines.floor / COSINE_UNIT
    message = f"its similarity is {chunk.dense_raw:.2f}, and texts on other subjects have up to {floor:.2f}"
    return KeptOut("not near", message)


def _is_of_other_data(snapshot: Snapshot, analyzed_query: AnalyzedQuery, chunk: Ranked) -> bool:
    if analyzed_query.other_data is None:
        return False
    return bool(snapshot.value(CHECKSUM_OF, {"chunk_id": chunk.chunk_id}) != analyzed_query.other_data)


def _terms_of(library: LibraryIndex, terms: Sequence[Term], chunk_id: int, *, are_held: bool) -> str:
    """Those of the terms that a chunk contains, or those that it does not contain, joined by commas."""
    places = library.index.places_of([chunk_id])
    return ", ".join(
        format_term(term)
        for term, found in find_matches(library, terms).items()
        if bool(found.are_in(places)[0]) == are_held
    )


def _rank(
    snapshot: Snapshot, ranking: Ranking, request: SearchRequest, chunk: Ranked
) -> tuple[int | None, list[KeptOut]]:
    """The rank of an eligible chunk, and why it is not within the requested page and those before it."""
    limit = request.limit_per_document
    rank = ranking.rank_of(chunk.chunk_id, limit)
    n_best = per_document(limit, 0)
    better = f"{n_best} better passages of the same document come before it"
    if rank is None and request.is_grouped:
        message = "the mail that it belongs to is ranked by a better passage"
        if request.group_by is GroupBy.document:
            best = ranking.best_of(chunk.document_id)
            message = f"its document is ranked by a better passage, chunk {best}"
        return None, [KeptOut("grouped", message)]
    if rank is not None and request.fold_similar:
        selection = select(snapshot, ranking, request, FOLD_DEPTH)
        folder = selection.folder_of(chunk.chunk_id)
        if folder is not None:
            message = f"it is folded under chunk {folder}, which says nearly the same"
            return None, [KeptOut("folded", message)]
        ranks = {each.chunk_id: number for number, each in enumerate(selection.ranked, start=1)}
        rank = ranks.get(chunk.chunk_id, rank - sum(map(len, selection.folded.values())))
    if rank is None:
        return None, [KeptOut("max_per_document", f"{better}, and a document may have no more")]
    kept_out = _below_page(rank, request)
    if kept_out and isinstance(limit, BestFirst) and ranking.rank_of(chunk.chunk_id, n_best) is None:
        message = f"{better}; it comes after the best {n_best} of every document"
        kept_out.append(KeptOut("max_per_document", message))
    return rank, kept_out


def _below_page(rank: int, request: SearchRequest) -> list[KeptOut]:
    last = request.start + request.top_k
    if rank <= last:
        return []
    return [KeptOut("top_k", f"it has rank {rank:,}; only the first {last:,} were requested")]


def _reranked(
    target: Target, request: SearchRequest, reranking: Reranking, chunk_ids: Sequence[int], n_pinned: int
) -> Target:
    """The target with its rank after reranking. `chunk_ids`: the reranked results in the order of the
    blend, which `n_pinned` others come before."""
    for rank, (number, parts) in enumerate(reranking.in_order(), start=n_pinned + 1):
        if chunk_ids[number] == target.chunk_id:
            kept_out = [reason for reason in target.kept_out if reason.reason != "top_k"]
            kept_out = [*_below_page(rank, request), *kept_out]
            return dataclasses.replace(
                target, rank=rank, would_rank=rank, kept_out=tuple(kept_out), rerank=parts
            )
    return target
