"""Results as numbered, quoted citations, and facets, for agents to read.

[1] my_paper.pdf — Section 2 > Method (lines 120–170)
    "The proposed architecture uses a transformer backbone..."

[2] lecture.mp4.vtt — video transcript
    00:01:05–00:01:18 (Audio): "We then apply batch normalisation..."
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from shoal.formats.headings import headings_below
from shoal.mcp.backend import Backend
from shoal.mcp.results import NOTICE, Citation, FacetCount, FacetCounts, quoted
from shoal.models.recordings import Modality, ShownEvidence
from shoal.models.search import SearchResponse, SearchResult
from shoal.support.plain_text import INDENT, clean, in_line


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
    return "\n".join([f"[{citation.number}] {citation.citation}", *(INDENT + line for line in quotations)])


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
