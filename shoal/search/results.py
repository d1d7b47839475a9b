"""Results: ranked chunks or documents, with text, citation, highlights, and what they share with the query.

A document as a result has its best passages and says what it is about. Its score is that of its best passage.
`benchmarks/document_ranking.py` compares it with sums of several passages, which rank no better and could not
be compared with the scores of passages.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.learning.scorers import scorer_for
from shoal.models.recordings import EvidenceBundle
from shoal.models.scores import MatchedTerm, Reason, Scores, SharedReef, sentence_of
from shoal.models.search import DocumentReef, DocumentResult, Expand, SearchMode, SearchResult
from shoal.models.stored import StoredDocument
from shoal.models.vocabulary import Label
from shoal.scorer import Scorer
from shoal.search.library_index import LibraryIndex, LibraryView
from shoal.search.matched_terms import (
    ChunkTexts,
    TextWords,
    field_boost_parts,
    find_highlights,
    find_matched_terms,
    make_highlighter,
)
from shoal.search.ordering import Families, Order
from shoal.search.query_analysis import AnalyzedQuery
from shoal.search.ranking import Ranked, Ranking
from shoal.search.relevance import Evidence, find_evidence, is_relevant_enough, relevance
from shoal.search.request import SearchRequest
from shoal.search.signals import matching_tags
from shoal.search.why import (
    Passage,
    ReasonFinder,
    asked_by_names,
    largest_words,
    order_reasons,
    reason_probability,
    words_that_ask,
)
from shoal.storage.chunk_queries import (
    Anchor,
    StoredProfiles,
    as_profiles,
    find_evidence_bundles,
    get_neighbours,
    modality_of,
    times_of,
)
from shoal.storage.database import Query, Snapshot, listed
from shoal.storage.document_queries import get_document, place_from_json, tags_of, tags_queries
from shoal.storage.profiles import MILLIONTHS
from shoal.storage.statistics import main_reefs, main_reefs_queries

CITE = """
    SELECT c.id, c.document_id, d.title, d.source_path, d.metadata, c.chunk_index, c.text, c.start_char,
           c.end_char, c.start_line, c.end_line, s.path AS section_path, c.confidence, c.coverage,
           c.locator, c.profile, c.data_checksum, c.language
    FROM chunks c
    JOIN documents d ON d.id = c.document_id
    JOIN sections s ON s.id = c.section_id
    WHERE c.id IN ({ids})
"""
MAX_PATHS = 256
"""Section paths that are kept as read: results of a search read each several times."""
MAX_REEFS = 5
"""Reefs that summarize a document."""
MAX_KEPT = 10_000
"""Documents whose main reefs are kept in memory for a state of the library."""


def build_results(
    view: LibraryView, ranked: Sequence[Ranked], analyzed_query: AnalyzedQuery, request: SearchRequest
) -> list[SearchResult]:
    """Return the results of a search, in the order of the ranking. Shared reefs from the probability
    `SHOAL_LABEL_THRESHOLD` on are reasons."""
    if not ranked:
        return []
    snapshot, library, scorer, settings = view
    label_threshold = settings.label_threshold
    chunk_ids = [chunk.chunk_id for chunk in ranked]
    snapshot.prefetch(results_queries(ranked))
    rows = {row["id"]: row for row in snapshot.rows(*_cite_query(ranked))}
    in_order = [rows[chunk_id] for chunk_id in chunk_ids]
    stored = as_profiles(in_order)
    # Reefs of other data cannot be compared with the query's.
    comparable = stored.scored_with(scorer.data_checksum)
    tags = tags_of(snapshot, _document_ids(ranked))
    shared: dict[int, tuple[SharedReef, ...]] = {}
    if request.include_scores:
        parts = {chunk.chunk_id: reef_part(chunk, request.mode, analyzed_query) for chunk in ranked}
        shared = find_shared_reefs(comparable, parts, analyzed_query, label_threshold)
    if request.include_scores:
        scored_texts = {chunk_id: scored_text(rows[chunk_id]) for chunk_id in shared}
        shared = name_words(snapshot, shared, scored_texts, analyzed_query, scorer)
    terms_by_chunk = (
        matched_terms(snapshot, analyzed_query, in_order, tags)
        if request.include_scores
        else [None] * len(ranked)
    )
    labels = stored.labels(snapshot, label_threshold, scorer)
    n_shared = count_shared_reefs(comparable, ranked, request.mode, analyzed_query)
    places = np.array([chunk.place for chunk in ranked])
    coverage = analyzed_query.term_statistics.term_coverage(analyzed_query.matches, chunk_ids, places)
    texts = [row["text"] for row in in_order]
    names = [names_of(row) for row in in_order]
    words, heads = TextWords(texts, names, languages=analyzed_query.parsed.all_languages).by_group()
    parsed, languages = analyzed_query.parsed, [row["language"] for row in in_order]
    by_language = {code: make_highlighter(parsed, request.mode, code) for code in set(languages)}
    highlighter = make_highlighter(parsed, request.mode)
    highlights = find_highlights(texts, highlighter, words, [by_language[code] for code in languages])
    evidence = find_evidence(comparable, analyzed_query, chunk_ids, coverage, words, heads)
    finder = ReasonFinder(analyzed_query, library, scorer, label_threshold)
    reefs = finder.reefs_of(comparable)
    reasons = [
        finder.find(
            Passage(
                chunk,
                row["text"],
                head,
                in_text,
                in_head,
                forms,
                tags.get(chunk.document_id, ()),
                labels.get(chunk.chunk_id, ()),
                row["language"],
                reefs.get(chunk.chunk_id, {}),
            )
        )
        for chunk, row, head, in_text, in_head, forms in zip(
            ranked,
            in_order,
            names,
            words.find(finder.stems),
            heads.find(finder.stems),
            words.forms_of_each(),
            strict=True,
        )
    ]
    anchors = [_anchor(row, library) for row in in_order]
    bundles = find_evidence_bundles(snapshot, anchors) if request.expand is Expand.time else {}
    return [
        _result(
            snapshot,
            chunk,
            rows[chunk.chunk_id],
            tags,
            labels.get(chunk.chunk_id, ()),
            shared.get(chunk.chunk_id, ()),
            n_shared.get(chunk.chunk_id, 0),
            terms,
            coverage.get(chunk.chunk_id),
            each,
            why,
            spans,
            anchor,
            bundles.get(chunk.chunk_id),
            anchor.metadata,
            request,
            analyzed_query,
            scorer.data_checksum,
        )
        for chunk, terms, each, why, spans, anchor in zip(
            ranked, terms_by_chunk, evidence, reasons, highlights, anchors, strict=True
        )
    ]


def results_queries(ranked: Sequence[Ranked]) -> Iterator[Query]:
    """Yield what `build_results` reads of all chunks."""
    if ranked:
        yield _cite_query(ranked)
        yield from tags_queries(_document_ids(ranked))


def _cite_query(ranked: Sequence[Ranked]) -> Query:
    ids, parameters = listed("id", (chunk.chunk_id for chunk in ranked))
    return Query(CITE.format(ids=ids), parameters)


def _document_ids(ranked: Sequence[Ranked]) -> list[int]:
    return sorted({chunk.document_id for chunk in ranked})


def _anchor(row: Any, library: LibraryIndex) -> Anchor:
    """What the place, the modality and the evidence of a result follow from."""
    place, metadata = place_from_json(row["locator"]), library.shown(json.loads(row["metadata"]))
    modality = modality_of(place, headings_of(row["section_path"]), metadata, row["source_path"])
    return Anchor(row["id"], row["document_id"], place, modality, metadata, row["source_path"])


def matched_terms(
    snapshot: Snapshot,
    analyzed_query: AnalyzedQuery,
    rows: Sequence[Any],
    tags: Mapping[int, tuple[str, ...]],
) -> list[tuple[MatchedTerm, ...]]:
    """Return the matched terms of each chunk. `rows` have document_id, title, section_path and text."""
    chunks = [
        ChunkTexts(
            row["title"],
            headings_of(row["section_path"]),
            row["text"],
            tags.get(row["document_id"], ()),
            row["language"],
        )
        for row in rows
    ]
    parsed = analyzed_query.parsed
    tags_of_terms = matching_tags(snapshot, parsed.terms)
    return find_matched_terms(
        parsed.terms,
        tags_of_terms,
        chunks,
        parsed.synonyms,
        parsed.all_languages,
        parsed.languages_of_forms,
        parsed.typed_lemmas,
    )


def names_of(row: Any) -> str:
    """Return the title, the headings and the path of a chunk, which are searched beside its text."""
    return "\n".join([title_and_headings(row), row["source_path"] or ""])


def title_and_headings(row: Any) -> str:
    """Return the title and the headings of a chunk as one text."""
    return "\n".join([row["title"], *headings_of(row["section_path"])])


@functools.lru_cache(maxsize=MAX_PATHS)
def headings_of(section_path: str) -> tuple[str, ...]:
    """Return the headings of a section, which are stored as JSON."""
    return tuple(json.loads(section_path))


def reef_part(ranked: Ranked, mode: SearchMode, analyzed_query: AnalyzedQuery) -> float:
    """Return the part of a chunk's score that comes from reefs."""
    if mode is SearchMode.reef:
        return ranked.score
    return analyzed_query.weights.reef * ranked.reef if mode is SearchMode.hybrid else 0.0


def scores_of(
    ranked: Ranked, mode: SearchMode, terms: Sequence[MatchedTerm] | None, analyzed_query: AnalyzedQuery
) -> Scores:
    """Return a chunk's scores by signal; None for a signal that the mode does not use.

    `terms` are its matched terms; without them the field boost has no parts.
    """
    by_words, by_reefs = mode.uses("lexical"), mode.uses("reef")
    by_vectors = (
        mode.uses("dense") and analyzed_query.weights.dense > 0 and analyzed_query.cosines is not None
    )
    return Scores(
        final=ranked.score,
        reef=ranked.reef if by_reefs else None,
        lexical=ranked.lexical if by_words else None,
        field_boost=ranked.field_boost,
        reef_raw=ranked.reef_raw if by_reefs else None,
        lexical_raw=ranked.lexical_raw if by_words else None,
        field_boost_parts=(
            None
            if terms is None
            else field_boost_parts(terms if ranked.field_boost else (), len(analyzed_query.parsed.terms))
        ),
        dense=ranked.dense if by_vectors else None,
        dense_raw=ranked.dense_raw if by_vectors else None,
        decay=ranked.decay,
        boosts=ranked.boosts,
        exact_name=ranked.exact_name,
        identifiers=ranked.identifiers,
    )


def count_shared_reefs(
    stored: StoredProfiles, ranked: Sequence[Ranked], mode: SearchMode, analyzed_query: AnalyzedQuery
) -> dict[int, int]:
    """Return how many reefs chunks share with the query, by chunk id. `stored` are the profiles by the same
    data as the query's; a ranking by reefs has counted."""
    if mode.uses("reef"):
        return {chunk.chunk_id: chunk.n_shared for chunk in ranked}
    profiles = stored.profiles
    in_query = np.isin(profiles.reef_ids, [reef.reef_id for reef in analyzed_query.reefs])
    counts = np.bincount(profiles.chunks[in_query], minlength=len(profiles))
    return dict(zip(stored.chunk_ids, counts.tolist(), strict=True))


def find_shared_reefs(
    stored: StoredProfiles,
    parts: Mapping[int, float],
    analyzed_query: AnalyzedQuery,
    label_threshold: float,
) -> dict[int, tuple[SharedReef, ...]]:
    """Return the reefs that each chunk shares with the query: reasons first, most probable first, then the
    others by their share of the score.

    `stored` are the profiles by the same data as the query's. `parts` maps chunk ids to the part of the score
    that comes from reefs; the shares of a chunk's reefs add up to it.
    """
    profiles = stored.profiles
    of_query = {reef.reef_id: reef for reef in analyzed_query.reefs}
    overlap_of = {reef_id: round(reef.z_score * MILLIONTHS) for reef_id, reef in of_query.items()}
    in_query = np.flatnonzero(np.isin(profiles.reef_ids, list(of_query)))
    columns = profiles.chunks, profiles.weights, profiles.reef_ids, profiles.z_scores, profiles.probabilities
    by_chunk: dict[int, list[tuple[int, int, float, float]]] = {}
    for place, weight, reef_id, *scores in zip(
        *(column[in_query].tolist() for column in columns), strict=True
    ):
        overlap = weight * overlap_of[reef_id]
        by_chunk.setdefault(stored.chunk_ids[place], []).append((overlap, reef_id, *scores))
    asked_for, meant = analyzed_query.profile.probabilities, words_that_ask(analyzed_query)
    by_names = asked_by_names(analyzed_query, meant)
    shared: dict[int, tuple[SharedReef, ...]] = {}
    for chunk_id, reefs in by_chunk.items():
        part, total = parts[chunk_id], sum(overlap for overlap, *_ in reefs) or 1
        in_order = []
        for overlap, reef_id, chunk_z, probability in sorted(reefs, key=lambda each: (-each[0], each[1])):
            reef = of_query[reef_id]
            is_asked = probability >= label_threshold or reef_id not in by_names
            asked = asked_for.get(reef_id, 0.0) if is_asked else 0.0
            chance = reason_probability(probability, asked, is_meant=reef_id in meant)
            is_reason = chance >= label_threshold
            share = part * overlap / total
            in_order.append(
                SharedReef(reef_id, reef.reef_name, chunk_z, reef.z_score, share, chance, is_reason)
            )
        shared[chunk_id] = order_reasons(in_order)
    return shared


def name_words(
    snapshot: Snapshot,
    shared: Mapping[int, tuple[SharedReef, ...]],
    texts: Mapping[int, str],
    analyzed_query: AnalyzedQuery,
    scorer: Scorer,
) -> dict[int, tuple[SharedReef, ...]]:
    """Name the words of query and passage that show the reasons. `texts`: title, headings and text of each
    chunk by id. `scorer` has no learned words."""
    reasons_of = {
        chunk_id: {reef.reef_id for reef in reefs if reef.is_reason} for chunk_id, reefs in shared.items()
    }
    reasons = set().union(*reasons_of.values())
    if not reasons:
        return dict(shared)
    of_query = largest_words(analyzed_query.scorer.supporting_words(analyzed_query.topical, reasons))
    with_reasons = (texts[chunk_id] for chunk_id, ids in reasons_of.items() if ids)
    with_learned = scorer_for("\n\n".join(with_reasons), snapshot, scorer)
    named: dict[int, tuple[SharedReef, ...]] = {}
    for chunk_id, reefs in shared.items():
        ids = reasons_of[chunk_id]
        of_passage = largest_words(with_learned.supporting_words(texts[chunk_id], ids)) if ids else {}
        named[chunk_id] = tuple(
            dataclasses.replace(
                reef,
                query_words=of_query.get(reef.reef_id, ()),
                passage_words=of_passage.get(reef.reef_id, ()),
            )
            if reef.reef_id in ids
            else reef
            for reef in reefs
        )
    return named


def scored_text(row: Any) -> str:
    """Title, headings and text of a chunk, which its profile counts; `row` has title, section_path, text."""
    return f"{title_and_headings(row)}\n\n{row['text']}"


def provenance_of(ranked: Ranked) -> tuple[str, ...]:
    """Return the names of the signals that matched a chunk."""
    signals = (
        ("lexical", ranked.lexical_raw > 0),
        ("reef", ranked.n_shared > 0),
        ("dense", ranked.is_dense_match),
    )
    return tuple(name for name, is_match in signals if is_match)


def _other_language(code: str, request: SearchRequest, query: AnalyzedQuery) -> str | None:
    """The language of a passage that a search across languages finds in another one than its own."""
    return code if request.languages and code not in query.parsed.languages else None


def _result(
    snapshot: Snapshot,
    ranked: Ranked,
    row: Any,
    tags: Mapping[int, tuple[str, ...]],
    labels: tuple[Label, ...],
    shared: tuple[SharedReef, ...],
    n_shared: int,
    terms: tuple[MatchedTerm, ...] | None,
    term_coverage: float | None,
    evidence: Evidence,
    reasons: tuple[Reason, ...],
    highlights: tuple[tuple[int, int], ...],
    anchor: Anchor,
    bundle: EvidenceBundle | None,
    metadata: Mapping[str, Any],
    request: SearchRequest,
    analyzed_query: AnalyzedQuery,
    data_checksum: str,
) -> SearchResult:
    before, after = (
        get_neighbours(snapshot, ranked.document_id, row["chunk_index"], request.context)
        if request.context
        else ((), ())
    )
    time_start, time_end = times_of(anchor.place)
    return SearchResult(
        text=row["text"],
        match_score=ranked.score,
        relevance=relevance(evidence),
        n_shared_reefs=n_shared,
        document_id=ranked.document_id,
        document_title=row["title"],
        source_path=row["source_path"],
        chunk_id=ranked.chunk_id,
        chunk_index=row["chunk_index"],
        start_char=row["start_char"],
        end_char=row["end_char"],
        start_line=row["start_line"],
        end_line=row["end_line"],
        section_path=headings_of(row["section_path"]),
        confidence=row["confidence"],
        coverage=row["coverage"],
        top_reef_name=labels[0].reef_name if labels else None,
        labels=labels,
        awaits_rescore=row["data_checksum"] != data_checksum,
        tags=tags.get(ranked.document_id, ()),
        highlights=highlights,
        scores=scores_of(ranked, request.mode, terms, analyzed_query),
        provenance=provenance_of(ranked),
        why=sentence_of(reasons),
        reasons=reasons,
        shared_reefs=shared if request.include_scores else None,
        matched_terms=terms,
        term_coverage=term_coverage,
        before=before,
        after=after,
        metadata=metadata,
        place=anchor.place,
        modality=anchor.modality,
        time_start=time_start,
        time_end=time_end,
        evidence=bundle,
        sort_values=ranked.sort_values,
        pinned=ranked.is_pinned,
        other_language=_other_language(row["language"], request, analyzed_query),
        further=ranked.is_further,
        lacking=evidence.bounds.lacking,
    )


@dataclass(frozen=True)
class DocumentParts:
    """What documents have besides their best passages, by document id.

    others     their further passages, best first
    n_matches  passages that are results
    reefs      the first labels of most of their passages
    head_of    the document that one is grouped under, if it is not itself
    heads      these
    """

    others: Mapping[int, Sequence[SearchResult]]
    n_matches: Mapping[int, int]
    reefs: Mapping[int, tuple[DocumentReef, ...]]
    head_of: Mapping[int, int]
    heads: Mapping[int, StoredDocument]

    def document(self, best: SearchResult, min_relevance: float) -> DocumentResult:
        """Return the document of its best passage; the others are as relevant as required."""
        document_id = self.head_of.get(best.document_id, best.document_id)
        head = self.heads.get(document_id)
        others = [
            each
            for each in self.others.get(document_id, ())
            if is_relevant_enough(each.relevance, min_relevance, is_pinned=each.pinned)
        ]
        return DocumentResult(
            document_id=document_id,
            document_title=head.title if head else best.document_title,
            source_path=head.source_path if head else best.source_path,
            tags=head.tags if head else best.tags,
            metadata=head.metadata if head else best.metadata,
            match_score=best.match_score,
            relevance=best.relevance,
            best_chunk_id=best.chunk_id,
            n_matches=self.n_matches[document_id],
            reefs=self.reefs.get(document_id, ()),
            passages=(best, *others),
            folded=best.folded,
            sort_values=best.sort_values,
            pinned=best.pinned,
        )


def further_passages(
    ranking: Ranking, best: Sequence[Ranked], n_per_document: int
) -> tuple[list[Ranked], dict[int, int]]:
    """Return up to `n_per_document` - 1 further passages of the documents of the given ones, best first, and
    the number of passages of each document that are results."""
    index, families = ranking.library.index, ranking.order.families
    own = np.array([chunk.document_id for chunk in best], dtype=np.int64)
    if families is not None:
        own = families.members(families.of(own))
    is_own = ranking.order.is_result & index.of_documents(own)
    # Sorted documents are not: their passages are in order of their scores.
    order = Order(index, ranking.order.keys, is_own, families=families)
    documents, counts = np.unique(order.groups(np.flatnonzero(is_own)), return_counts=True)
    n_matches = dict(zip(documents.tolist(), counts.tolist(), strict=True))
    places = order.first(len(best) * n_per_document, n_per_document)
    known = {chunk.chunk_id for chunk in best}
    return [chunk for chunk in ranking.at(places) if chunk.chunk_id not in known], n_matches


def parts_queries(view: LibraryView, n_matches: Mapping[int, int]) -> Iterator[Query]:
    """Yield what `make_parts` reads."""
    library, label_threshold = view.library, view.settings.label_threshold
    unread = _unread(library, n_matches, label_threshold)
    return main_reefs_queries(unread, MAX_REEFS, label_threshold=label_threshold)


def _unread(library: LibraryIndex, document_ids: Iterable[int], label_threshold: float) -> list[int]:
    return sorted(each for each in document_ids if (each, label_threshold) not in library.main_reefs)


def make_parts(
    view: LibraryView,
    best: Sequence[SearchResult],
    others: Sequence[SearchResult],
    n_matches: Mapping[int, int],
    families: Families | None,
) -> DocumentParts:
    """Return the parts of the documents of their best passages; `others` are the further ones."""
    snapshot, library, label_threshold = view.snapshot, view.library, view.settings.label_threshold
    head_of = {} if families is None else _heads(families, [*best, *others])
    by_document: dict[int, list[SearchResult]] = {}
    for result in others:
        by_document.setdefault(head_of.get(result.document_id, result.document_id), []).append(result)
    unread = _unread(library, n_matches, label_threshold)
    read = main_reefs(snapshot, unread, MAX_REEFS, label_threshold=label_threshold)
    reefs = {each: library.main_reefs.get((each, label_threshold), read.get(each, ())) for each in n_matches}
    if len(library.main_reefs) < MAX_KEPT:
        library.main_reefs.update({(each, label_threshold): reefs[each] for each in unread})
    return DocumentParts(
        by_document,
        n_matches,
        {
            document_id: tuple(DocumentReef(reef.reef_id, reef.reef_name, reef.n_chunks) for reef in each)
            for document_id, each in reefs.items()
        },
        head_of,
        {head: _head(view, head) for head in set(head_of.values())},
    )


def _head(view: LibraryView, document_id: int) -> StoredDocument:
    document = get_document(view.snapshot, document_id)
    return dataclasses.replace(document, metadata=view.library.shown(document.metadata))


def _heads(families: Families, results: Sequence[SearchResult]) -> dict[int, int]:
    """Return what attached documents among those of results are grouped under."""
    own = np.unique(np.array([result.document_id for result in results], dtype=np.int64))
    heads = families.of(own)
    return {each: head for each, head in zip(own.tolist(), heads.tolist(), strict=True) if each != head}
