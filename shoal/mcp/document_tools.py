"""The tools that find, list, read and explain passages of documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from mcp.types import CallToolResult
from pydantic import Field

from shoal.declared.arguments import MAX_ID, MAX_PAGE
from shoal.declared.operations.searches import SearchOperations
from shoal.declared.search import LIKELY, SEARCH
from shoal.mcp.backend import Backend
from shoal.mcp.passages import dedented, fitting_lines, head, shown_passages
from shoal.mcp.results import (
    CUT,
    DEFAULT_TOKENS,
    NOTICE,
    Budget,
    DocumentList,
    ExplainedResult,
    FacetCount,
    FacetCounts,
    FoundPassages,
    ListedDocument,
    MaxTokens,
    Page,
    PassagePlace,
    ReadPassage,
    Reason,
    RelevanceEvidence,
    Retrieved,
    RetrievedPassages,
    ScorePart,
    SharedTopic,
    answer,
    clean_value,
    count,
    of_argument,
    shortened,
    tokens_of,
)
from shoal.models.explanations import Explanation, Target
from shoal.models.search import (
    DEFAULT_TOP_K,
    ContextChunk,
    SearchMode,
    SearchResponse,
    SearchResult,
)
from shoal.models.search import Retrieved as Item
from shoal.models.stored import ChunkDetail, StoredChunk, StoredDocument
from shoal.search.request import BEST_FIRST
from shoal.search.retrieval import PLAIN, SOURCE, SUMMARY_CHARS, as_retrieval, search_arguments, summary_of
from shoal.support.plain_text import clean, in_line, indented


def facets_of(response: SearchResponse) -> list[FacetCounts]:
    """The facets of a search, if it has any."""
    return [
        FacetCounts(
            field=in_line(facet.field),
            values=[
                FacetCount(value=in_line(str(each.name or each.value)), n_documents=each.count)
                for each in facet.values
            ],
        )
        for facet in response.facets or ()
    ]


def facet_lines(facets: Sequence[FacetCounts]) -> list[str]:
    """Facets in words, one a line."""
    return (
        [
            "\n".join(
                f"Documents by {facet.field}: "
                + ", ".join(f"{each.value} {each.n_documents}" for each in facet.values)
                for facet in facets
            )
        ]
        if facets
        else []
    )


MAX_COUNTERFACTUALS = 6
MAX_NEIGHBOURS = 10
MAX_LISTED = 200
MAX_FACETS = 10

Query = Annotated[
    str,
    Field(
        min_length=1,
        description='What you want to know, in words. "exact phrases", -excluded and title:words are read.',
    ),
]
ChunkId = Annotated[int, Field(ge=1, le=MAX_ID, description="`chunk_id` of a result.")]
TopK = Annotated[
    int, Field(ge=1, description="Number of passages, up to 100 unless SHOAL_MAX_TOP_K says otherwise.")
]
"""The library knows the setting, and refuses more."""
TYPES = "such as `pdf`, `markdown`, `text`, `video`, `image`, or a suffix: `.py`."


RETRIEVAL = SearchOperations.retrieve.arguments


class DocumentTools:
    """The tools, over a backend. Each returns text and a structured result."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def search_chunks(
        self,
        query: Query,
        top_k: TopK = 10,
        file_type_filter: Annotated[
            str | None, Field(description=f"Only of documents of this type, {TYPES}")
        ] = None,
        doc_name_filter: Annotated[
            str | None, Field(description="Only of documents with this text in title or path.")
        ] = None,
        filter: Annotated[  # noqa: A002 - the name of the argument
            str | None,
            Field(
                description="Only what meets this over title, source_path, tags, created, page, section and "
                'metadata: tags = "sea" AND year >= 2020 AND NOT draft = true'
            ),
        ] = None,
        max_per_document: Annotated[
            int | None,
            of_argument(
                SEARCH["max_per_document"],
                "Most passages of one document; 0: no limit. Default: the best "
                f"{BEST_FIRST.n} of each come first.",
            ),
        ] = None,
        sort: Annotated[
            str | None,
            Field(
                description="Order all matches by fields, with commas, not by relevance: -date (newest "
                "first), title, created, or a key of the metadata."
            ),
        ] = None,
        fold_similar: Annotated[
            bool, Field(description="Leave out passages that say nearly the same as a better one.")
        ] = False,
        mode: Annotated[
            Literal["hybrid", "lexical", "reef", "dense"],
            Field(description="Rank by words (lexical), topics (reef), vectors (dense), or all."),
        ] = "hybrid",
        rerank: Annotated[
            int | None, of_argument(SEARCH["rerank"], "First results that the encoder reorders.")
        ] = None,
        facets: Annotated[
            list[str] | None,
            Field(
                max_length=MAX_FACETS,
                description="Count documents by these: `tags`, `created:year`.",
            ),
        ] = None,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, FoundPassages]:
        """Search the content of the documents. Use it to answer questions about what documents say (what,
        how, why). To discover which documents exist, or to filter them by type, use list_documents instead.
        Returns passages as numbered citations with their place: cite them as [1].
        """
        filters = {"file_type": file_type_filter or None, "name_contains": doc_name_filter or None}
        response = self._backend.search(
            query,
            syntax=PLAIN,
            top_k=top_k,
            expand="time",
            filters={name: value for name, value in filters.items() if value is not None} or None,
            filter=filter or None,
            max_per_document=max_per_document,
            sort=sort or None,
            fold_similar=fold_similar,
            mode=mode,
            rerank=rerank,
            facets=facets or None,
        )
        counted = facets_of(response)
        found = FoundPassages(
            status=status_of(response.results, is_judged=mode != SearchMode.dense),
            n_results=0,
            total=response.total,
            results=[],
            facets=counted,
        )
        return passage_answer(
            found, response.results, max_tokens, nothing_found(query, filters, filter), response.warnings
        )

    def list_documents(
        self,
        title_contains: Annotated[
            str | None, Field(description="Only documents with this text in title or path, in any case.")
        ] = None,
        tag: Annotated[str | None, Field(description="Only documents with exactly this tag.")] = None,
        format: Annotated[str | None, Field(description=f"Only documents of this type, {TYPES}")] = None,  # noqa: A002
        filter: Annotated[  # noqa: A002 - the name of the argument
            str | None, Field(description="As in search_chunks, over fields of documents.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED, description="Documents on a page.")] = 50,
        offset: Annotated[int, Field(ge=0, le=MAX_PAGE, description="`next_offset` of the page before.")] = 0,
    ) -> Annotated[CallToolResult, DocumentList]:
        """List the documents by id. Use it to discover which documents exist, or to filter them by type. For
        questions about what documents say (what, how, why), use search_chunks instead.
        """
        page = self._backend.documents(
            q=title_contains or None,
            tag=tag or None,
            file_type=format or None,
            filter=filter or None,
            limit=limit,
            offset=offset,
        )
        budget, lines = Budget(DEFAULT_TOKENS), []
        documents: list[ListedDocument] = []
        for document in page.documents:
            line, listed = _document_line(document), ListedDocument(document_id=document.id)
            if not budget.fits(line, listed) and documents:
                break
            lines.append(line)
            documents.append(listed)
        page_of = Page.of("document", page.total, offset, len(documents))
        result = DocumentList(
            status=page_of.status, total=page.total, next_offset=page_of.next_offset, documents=documents
        )
        message = page_of.message if page.total else "No document matches. Try fewer conditions."
        return answer("\n".join([message, *lines]), result)

    def read_passage(
        self,
        chunk_id: ChunkId,
        before: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS, description="Passages before it.")] = 1,
        after: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS, description="Passages after it.")] = 1,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, ReadPassage]:
        """Read a passage with the passages around it. Use it after search_chunks, when a passage alone is not
        enough to understand it."""
        detail = self._backend.chunk(chunk_id, context=max(before, after))
        chunk, document = detail.chunk, detail.document
        cited = f"{_head_of(detail)}, passage {chunk.id}"
        if chunk.time_start:
            cited += f", {chunk.time_start}–{chunk.time_end}"
        budget = Budget(max_tokens, NOTICE, cited)
        needed = max_tokens - budget.left + tokens_of(text := indented(dedented(chunk.text))) + EXTRA_TOKENS
        is_whole = budget.fits(text)
        if not is_whole:
            text = "\n".join(fitting_lines(text.split("\n"), budget.left - EXTRA_TOKENS))
            text = f"{text}\nmax_tokens of {needed:,} shows the whole passage"
        # The nearest first, as long as they fit, without gaps.
        earlier = detail.before[len(detail.before) - before :] if before and is_whole else ()
        blocks = {
            -distance: ("before", other) for distance, other in enumerate(reversed(earlier), start=1)
        } | {distance: ("after", other) for distance, other in enumerate(detail.after[:after], start=1)}
        shown: dict[int, PassagePlace] = {}
        texts = {0: text}
        for distance in sorted(blocks, key=abs) if is_whole else ():
            side, other = blocks[distance]
            block = f"{side}, line {other.start_line}:\n{indented(dedented(other.text))}"
            if not budget.fits(block, place := _place(other)):
                break
            shown[distance], texts[distance] = place, block
        passage = ReadPassage(
            **_place(chunk).model_dump(),
            document_id=document.id,
            n_chunks=document.n_chunks,
            time_start=chunk.time_start,
            time_end=chunk.time_end,
            n_tokens_needed=None if is_whole else needed,
            before=[shown[distance] for distance in sorted(shown) if distance < 0],
            after=[shown[distance] for distance in sorted(shown) if distance > 0],
        )
        return answer("\n\n".join([NOTICE, cited, *(texts[distance] for distance in sorted(texts))]), passage)

    def explain_result(self, query: Query, chunk_id: ChunkId) -> Annotated[CallToolResult, ExplainedResult]:
        """Explain why a passage has its rank for a query, or why it is missing. Use it to judge a
        surprising result of search_chunks, not to find passages."""
        explanation = self._backend.explain(query, chunk_id=chunk_id, include_scores=True, syntax=PLAIN)
        target = explanation.target
        assert target is not None, "a chunk was given"
        explained = _explained(explanation, target, chunk_id)
        return answer(_explanation_text(explained), explained)

    def retrieve(
        self,
        query: Query,
        top_k: Annotated[int, of_argument(RETRIEVAL["top_k"], "Most passages to return.")] = DEFAULT_TOP_K,
        threshold: Annotated[
            float, of_argument(RETRIEVAL["threshold"], "Lowest `similarity` of a passage.")
        ] = 0.0,
        filters: Annotated[
            dict[str, str | float | bool | None] | None,
            Field(
                description="Only passages of documents with these values in their metadata; `source` is the "
                "`source` of a result."
            ),
        ] = None,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, RetrievedPassages]:
        """Retrieve passages as plain content with metadata and a similarity, for programs that expect this
        form. To answer questions with citations, use search_chunks instead. `similarity` is the
        probability, 0 to 1, that the passage answers the query; it can be compared between queries."""
        response = self._backend.search(query, **search_arguments(top_k, threshold, filters))
        retrieval = as_retrieval(query, response.results, threshold)
        # A path can have line ends, and must not begin a line of the summary.
        summary = summary_of(
            retrieval.results,
            lambda item: (
                f"{in_line(item.metadata[SOURCE])} (sim: {item.similarity:.2f}): "
                f"{shortened(item.content, SUMMARY_CHARS)}"
            ),
        )
        results = _retrieved_in(Budget(max_tokens, NOTICE, summary, summary), retrieval.results)
        message = in_line(retrieval.message)
        if n_left_out := len(retrieval.results) - len(results):
            message += f"; {n_left_out} did not fit in max_tokens of {max_tokens:,}"
        passages = RetrievedPassages(
            results=results,
            query=clean(query),
            total_results=len(results),
            message=message,
            results_summary=summary,
        )
        return answer("\n\n".join([passages.message, *([NOTICE, summary] if summary else [])]), passages)


EXTRA_TOKENS = 20
"""Of the line that says how many tokens show the whole passage."""


def status_of(
    results: Sequence[SearchResult], *, is_judged: bool = True
) -> Literal["ok", "no_answer", "no_results"]:
    """Return whether a result is likely to answer. `is_judged`: their relevance says so."""
    if not results:
        return "no_results"
    is_answer = not is_judged or any(result.relevance >= LIKELY for result in results)
    return "ok" if is_answer else "no_answer"


def passage_answer(
    found: FoundPassages,
    results: Sequence[SearchResult],
    max_tokens: int,
    nothing: str,
    warnings: Iterable[str],
) -> CallToolResult:
    """Return the answer with the results that fit. `nothing`: what it says if there are none."""
    said = [*facet_lines(found.facets), *warning_lines(list(dict.fromkeys(map(in_line, warnings))))]
    passages = shown_passages(results, Budget(max_tokens, NOTICE, *said))
    n_shown, n_left_out = len(passages.texts), len(results) - len(passages.texts)
    total = "" if found.total is None else f" of {found.total:,}"
    message = f"{n_shown}{total} matching passage{'' if (found.total or n_shown) == 1 else 's'}"
    if n_left_out:
        message += f"; {n_left_out} more did not fit in max_tokens of {max_tokens:,}"
    texts = [NOTICE, *passages.texts, message] if results else [nothing]
    found = found.model_copy(
        update={"n_results": n_shown, "n_left_out": n_left_out, "results": passages.citations}
    )
    return answer("\n\n".join([*texts, *said]), found)


def nothing_found(query: str, filters: Mapping[str, str | None], expression: str | None) -> str:
    given = [value for value in (*filters.values(), expression) if value]
    advice = "without the filters, or " if given else ""
    return f"No results for “{shortened(query, 200)}”. Try again {advice}with other words."


def warning_lines(warnings: Sequence[str]) -> list[str]:
    return ["\n".join(f"Warning: {warning}" for warning in warnings)] if warnings else []


def _retrieved_in(budget: Budget, items: Sequence[Item]) -> list[Retrieved]:
    """The first items whose contents fit. That of the first is cut if need be."""
    results: list[Retrieved] = []
    for item in items:
        view = Retrieved(
            content=clean(item.content), metadata=clean_value(item.metadata), similarity=item.similarity
        )
        if not budget.fits(view):
            if results:
                break
            room = budget.left - tokens_of(view.model_copy(update={"content": ""}))
            start = "\n".join(fitting_lines(view.content.splitlines(), room)) or CUT
            view = view.model_copy(update={"content": start})
        results.append(view)
    return results


def _document_line(document: StoredDocument) -> str:
    title, path = in_line(document.title), in_line(document.source_path or "")
    facts = [path, document.format.value, count(document.n_chunks, "passage")]
    facts += [f"tags {', '.join(map(in_line, document.tags))}"] if document.tags else []
    return f"{document.id}. {title} ({', '.join(fact for fact in facts if fact)})"


def _head_of(detail: ChunkDetail) -> str:
    chunk, document = detail.chunk, detail.document
    return head(
        document.title,
        document.source_path,
        chunk.section_path,
        lines=(chunk.start_line, chunk.end_line),
        place=chunk.place.beside_lines if chunk.place else None,
        modality=chunk.modality,
    )


def _place(chunk: ContextChunk | StoredChunk) -> PassagePlace:
    return PassagePlace(
        chunk_id=chunk.chunk_id if isinstance(chunk, ContextChunk) else chunk.id,
        chunk_index=chunk.chunk_index,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
    )


def _explained(explanation: Explanation, target: Target, chunk_id: int) -> ExplainedResult:
    scores, weights = target.scores, explanation.weights
    values = {"lexical": scores.lexical, "reef": scores.reef, "field_boost": scores.field_boost}
    if scores.dense is not None:
        values["dense"] = scores.dense
    return ExplainedResult(
        query=clean(explanation.query),
        chunk_id=chunk_id,
        document_id=target.document_id,
        title=in_line(target.document_title),
        rank=target.rank,
        would_rank=target.would_rank,
        why=in_line(target.why),
        kept_out=[Reason(reason=why.reason, message=in_line(why.message)) for why in target.kept_out],
        pinned_by=target.pinned_by,
        score=target.score,
        parts=[
            ScorePart(
                signal=name,
                value=value or 0.0,
                weight=weights.get(name, 0.0),
                contribution=(value or 0.0) * weights.get(name, 0.0),
            )
            for name, value in values.items()
        ]
        + [
            ScorePart(signal=name, value=value, weight=1.0, contribution=value)
            for name, value in (("exact_name", scores.exact_name), ("identifiers", scores.identifiers))
            if value
        ],
        relevance=target.relevance,
        relevance_evidence=[
            RelevanceEvidence(
                evidence=part.name, contribution=part.contribution, description=in_line(part.description)
            )
            for part in target.relevance_parts
        ],
        term_coverage=target.term_coverage,
        matched_words=[in_line(term.term) for term in target.matched_terms],
        missing_words=[in_line(word) for word in explanation.query_info.missing_terms],
        nearest_sentence=(in_line(target.nearest_sentence.description) if target.nearest_sentence else None),
        shared_topics=[
            SharedTopic(
                topic=reef.reef_name,
                contribution=reef.share,
                query_words=list(map(in_line, reef.query_words)),
                passage_words=list(map(in_line, reef.passage_words)),
            )
            for reef in target.shared_reefs
            if reef.is_reason
        ],
        counterfactuals=[
            in_line(change.message)
            for found in [explanation.counterfactuals]
            if found is not None
            for change in found.changes[:MAX_COUNTERFACTUALS]
        ],
        warnings=[in_line(warning) for warning in explanation.warnings],
    )


def _explanation_text(explained: ExplainedResult) -> str:
    lines = [f"Passage {explained.chunk_id} of document {explained.document_id}, “{explained.title}”"]
    if explained.rank is not None:
        lines.append(f"Number {explained.rank} of the results, with a score of {explained.score:.3f}:")
    if explained.pinned_by is not None:
        lines.append(f"A person put it first (pin {explained.pinned_by}), whatever its score.")
    lines += [f"Not among the results: {why.message}." for why in explained.kept_out]
    if explained.rank is None and explained.would_rank is not None:
        lines.append(f"Without that it would be number {explained.would_rank}.")
    if explained.why:
        lines.append(f"Why: {explained.why}")
    lines += [
        f"- {part.signal}: {part.value:.2f} × {part.weight:.2f} = {part.contribution:.2f}"
        for part in explained.parts
        if part.contribution
    ]
    lines.append(f"Relevance: {explained.relevance:.0%}")
    lines += [f"- {part.description}: {part.contribution:+.2f}" for part in explained.relevance_evidence]
    if explained.matched_words:
        lines.append(f"Matched words: {', '.join(explained.matched_words)}")
    if explained.missing_words:
        lines.append(f"In no passage: {', '.join(explained.missing_words)}")
    if explained.nearest_sentence:
        lines.append(f"Nearest: {explained.nearest_sentence}")
    lines += [
        f"Shared topic: {topic.topic} (query: {', '.join(topic.query_words)}; passage: "
        f"{', '.join(topic.passage_words)})"
        for topic in explained.shared_topics
    ]
    lines += [f"Found by searching again: {message}" for message in explained.counterfactuals]
    return "\n".join([*lines, *warning_lines(explained.warnings)])
