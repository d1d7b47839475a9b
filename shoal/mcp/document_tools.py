"""The tools that find, list, read and explain passages of documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal

from mcp.types import CallToolResult
from pydantic import Field

from shoal.declared.arguments import MAX_ID
from shoal.declared.search import MAX_PER_DOCUMENT, MAX_RERANK
from shoal.formats.headings import headings_below
from shoal.mcp.backend import Backend
from shoal.mcp.results import (
    NOTICE,
    Citation,
    DocumentList,
    ExplainedResult,
    FacetCount,
    FacetCounts,
    FoundPassages,
    ListedDocument,
    Neighbour,
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
    quoted,
    shortened,
)
from shoal.models.explanations import Explanation, Target
from shoal.models.recordings import Modality, ShownEvidence
from shoal.models.retrieval import MAX_TOP_K
from shoal.models.search import ContextChunk, SearchResponse, SearchResult
from shoal.models.stored import ChunkDetail, StoredDocument
from shoal.search.request import BEST_FIRST
from shoal.search.retrieval import PLAIN, SOURCE, SUMMARY_CHARS, as_retrieval, search_arguments, summary_of
from shoal.support.plain_text import INDENT, clean, in_line, indented


def citations_of(results: Iterable[SearchResult], backend: Backend) -> list[Citation]:
    """Return results as citations, numbered from 1. A passage of a recording is evidence once."""
    shown = ShownEvidence()
    return [_citation(number, result, backend, shown) for number, result in enumerate(results, start=1)]


def _citation(number: int, result: SearchResult, backend: Backend, shown: ShownEvidence) -> Citation:
    evidence = result.evidence.chunks if result.evidence else ()
    return Citation(
        number=number,
        citation=head(
            result.document_title,
            result.source_path,
            result.section_path,
            lines=(result.start_line, result.end_line),
            place=result.place.beside_lines if result.place else None,
            modality=result.modality,
        ),
        chunk_id=result.chunk_id,
        document_id=result.document_id,
        chunk_index=result.chunk_index,
        name=name_of(result.document_title, result.source_path),
        title=in_line(result.document_title),
        source_path=None if result.source_path is None else in_line(result.source_path),
        section_path=[in_line(heading) for heading in result.section_path],
        start_line=result.start_line,
        end_line=result.end_line,
        place=in_line(result.place.label) if result.place else None,
        modality=result.modality.value,
        time_start=result.time_start,
        time_end=result.time_end,
        text=clean(result.text),
        evidence=shown.lines(number, (chunk.shown(clean(chunk.text)) for chunk in evidence)),
        why=in_line(result.why),
        relevance=result.relevance,
        score=result.match_score,
        labels=[label.reef_name for label in result.labels],
        tags=[in_line(tag) for tag in result.tags],
        uri=backend.address(result.document_id, result.chunk_index),
    )


def head(
    title: str,
    source_path: str | None,
    section_path: Sequence[str],
    *,
    lines: tuple[int, int],
    place: str | None = None,
    modality: Modality = Modality.text,
) -> str:
    """Return the first line of a citation without its number.

    A recording has its kind there, because the times are with its passages.
    """
    name = name_of(title, source_path)
    kind = "" if modality is Modality.text else modality.replace("_", " ")
    if is_recording(modality):
        return f"{name} — {kind}"
    headings = " > ".join(map(in_line, headings_below(name, section_path)))
    described = ", ".join(part for part in (headings, kind) if part)
    locator = f"{in_line(place)}, {line_range(*lines)}" if place else line_range(*lines)
    return f"{name} — {described} ({locator})" if described else f"{name} ({locator})"


def name_of(title: str, source_path: str | None) -> str:
    """Return the file name of a document, or its title if it has no path."""
    return in_line(PurePosixPath(source_path or "").name) or in_line(title)


def line_range(first: int, last: int) -> str:
    """Return lines for a citation, as `lines 120–170`."""
    return f"line {first}" if first == last else f"lines {first}–{last}"


def is_recording(modality: Modality) -> bool:
    """Whether passages of this kind have times."""
    return modality in (Modality.audio_transcript, Modality.video_transcript, Modality.video_frame)


def citation_list(citations: Sequence[Citation]) -> str:
    """Return citations as text, under the notice that they are quotations."""
    return "\n\n".join([NOTICE, *map(_block, citations)])


def _block(citation: Citation) -> str:
    quotations = citation.evidence or [quoted(citation.text)]
    why = f"{INDENT}why: {citation.why}"
    return "\n".join(
        [f"[{citation.number}] {citation.citation}", why, *(INDENT + line for line in quotations)]
    )


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
            Field(
                ge=0,
                le=MAX_PER_DOCUMENT,
                description="Most passages of one document; 0: no limit. Default: the best "
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
            int | None, Field(ge=0, le=MAX_RERANK, description="First results that the encoder reorders.")
        ] = None,
        facets: Annotated[
            list[str] | None,
            Field(
                max_length=MAX_FACETS,
                description="Count documents by these: `tags`, `created:year`.",
            ),
        ] = None,
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
        citations = citations_of(response.results, self._backend)
        warnings = [in_line(warning) for warning in response.warnings]
        found_of = f"{len(citations)} of {count(response.total, 'matching passage')}"
        message = found_of if citations else nothing_found(query, filters, filter)
        found = FoundPassages(
            status="ok" if citations else "no_results",
            query=clean(query),
            n_results=len(citations),
            total=response.total,
            results=citations,
            message=message,
            warnings=warnings,
            facets=(counted := facets_of(response)),
        )
        text = citation_list(citations) if citations else message
        return answer("\n\n".join([text, *facet_lines(counted), *warning_lines(warnings)]), found)

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
        offset: Annotated[
            int, Field(ge=0, le=2**31 - 1, description="`next_offset` of the page before.")
        ] = 0,
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
        documents = [self._listed(document) for document in page.documents]
        end = offset + len(documents)
        next_offset = end if documents and end < page.total else None
        message = (
            count(page.total, "document") if page.total else "No document matches. Try fewer conditions."
        )
        if documents:
            message = f"Documents {offset + 1} to {end} of {page.total}"
        if next_offset is not None:
            message += f"; the next page has offset {next_offset}"
        listed = DocumentList(
            status="ok" if documents else "no_results",
            total=page.total,
            offset=offset,
            next_offset=next_offset,
            documents=documents,
            message=message,
        )
        return answer("\n".join([message, *map(_document_line, documents)]), listed)

    def read_passage(
        self,
        chunk_id: ChunkId,
        before: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS, description="Passages before it.")] = 1,
        after: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS, description="Passages after it.")] = 1,
    ) -> Annotated[CallToolResult, ReadPassage]:
        """Read a passage with the passages around it. Use it after search_chunks, when a passage alone is not
        enough to understand it."""
        detail = self._backend.chunk(chunk_id, context=max(before, after))
        chunk, document = detail.chunk, detail.document
        earlier = (
            [_neighbour(other) for other in detail.before[len(detail.before) - before :]] if before else []
        )
        later = [_neighbour(other) for other in detail.after[:after]]
        passage = ReadPassage(
            citation=_head_of(detail),
            chunk_id=chunk.id,
            document_id=document.id,
            chunk_index=chunk.chunk_index,
            n_chunks=document.n_chunks,
            title=in_line(document.title),
            source_path=None if document.source_path is None else in_line(document.source_path),
            section_path=[in_line(heading) for heading in chunk.section_path],
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            time_start=chunk.time_start,
            time_end=chunk.time_end,
            text=clean(chunk.text),
            before=earlier,
            after=later,
            uri=self._backend.address(document.id, chunk.chunk_index),
        )
        times = f", {chunk.time_start}–{chunk.time_end}" if chunk.time_start else ""
        texts = [
            *(f"before, line {other.start_line}:\n{indented(other.text)}" for other in earlier),
            f"passage {chunk.id}{times}:\n{indented(passage.text)}",
            *(f"after, line {other.start_line}:\n{indented(other.text)}" for other in later),
        ]
        return answer("\n\n".join([NOTICE, passage.citation, *texts]), passage)

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
        top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K, description="Most passages to return.")] = 5,
        threshold: Annotated[float, Field(ge=0, le=1, description="Lowest `similarity` of a passage.")] = 0.0,
        filters: Annotated[
            dict[str, str | float | bool | None] | None,
            Field(
                description="Only passages of documents with these values in their metadata; `source` is the "
                "`source` of a result."
            ),
        ] = None,
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
        passages = RetrievedPassages(
            results=[
                Retrieved(
                    content=clean(item.content),
                    metadata=clean_value(item.metadata),
                    similarity=item.similarity,
                )
                for item in retrieval.results
            ],
            query=clean(query),
            total_results=retrieval.total_results,
            message=in_line(retrieval.message),
            results_summary=summary,
        )
        return answer("\n\n".join([passages.message, *([NOTICE, summary] if summary else [])]), passages)

    def _listed(self, document: StoredDocument) -> ListedDocument:
        return ListedDocument(
            document_id=document.id,
            title=in_line(document.title),
            name=name_of(document.title, document.source_path),
            source_path=None if document.source_path is None else in_line(document.source_path),
            format=document.format.value,
            tags=[in_line(tag) for tag in document.tags],
            n_passages=document.n_chunks,
            n_bytes=document.n_bytes,
            created_at=document.created_at,
            uri=self._backend.address(document.id),
        )


def nothing_found(query: str, filters: Mapping[str, str | None], expression: str | None) -> str:
    given = [value for value in (*filters.values(), expression) if value]
    advice = "without the filters, or " if given else ""
    return f"No results for “{shortened(query, 200)}”. Try again {advice}with other words."


def warning_lines(warnings: Sequence[str]) -> list[str]:
    return ["\n".join(f"Warning: {warning}" for warning in warnings)] if warnings else []


def _document_line(document: ListedDocument) -> str:
    facts = [document.source_path or "", document.format, count(document.n_passages, "passage")]
    facts += [f"tags {', '.join(document.tags)}"] if document.tags else []
    return f"{document.document_id}. {document.title} ({', '.join(fact for fact in facts if fact)})"


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


def _neighbour(chunk: ContextChunk) -> Neighbour:
    return Neighbour(
        chunk_id=chunk.chunk_id,
        chunk_index=chunk.chunk_index,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        text=clean(chunk.text),
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
