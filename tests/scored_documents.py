"""Artificial scored documents for tests of storage and search, with given reefs for each chunk."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fake_scorer import IslandInfo, ReefInfo

from shoal.models.documents import Chunk, DocFormat, DocumentDraft, LeftOut, ScoredDocument, Section
from shoal.storage.profiles import pack

CHECKSUM = "f" * 64  # that of the fake scorer
Reefs = Mapping[int, float]


def make_scored(
    texts: Sequence[str] = ("Rain falls on the plain.",),
    reefs: Sequence[Reefs] | None = None,
    *,
    probabilities: Sequence[Mapping[int, float]] | None = None,
    title: str = "A title",
    heading: str = "Weather",
    tags: tuple[str, ...] = (),
    source_path: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    data_checksum: str = CHECKSUM,
    confidence: Sequence[float] | None = None,
    archs: Sequence[tuple[float, float, float, float]] | None = None,
    coverage: float = 0.75,
    format: DocFormat = DocFormat.markdown,  # noqa: A002
) -> ScoredDocument:
    """Make a document of one section: a heading, then one line per text. `reefs`: z-scores by reef id, per
    chunk; `probabilities` grow with them by default."""
    head = f"# {heading}\n"
    content = head + "\n".join(texts) + "\n"
    reefs = reefs if reefs is not None else [{1: 3.0, 2: 1.5}] * len(texts)
    chunks = []
    start = len(head)
    for i, text in enumerate(texts):
        chunks.append(
            _chunk(
                i,
                text,
                start,
                reefs[i],
                probabilities[i] if probabilities else {reef: z / (1 + z) for reef, z in reefs[i].items()},
                confidence[i] if confidence else 1.0,
                archs[i] if archs else (0.0, 2.0, 1.0, -1.0),
                coverage,
            )
        )
        start += len(text) + 1
    encoded = content.encode()
    return ScoredDocument(
        draft=DocumentDraft(
            title=title,
            content=content,
            format=format,
            content_hash=hashlib.sha256(encoded).hexdigest(),
            n_bytes=len(encoded),
            tags=tags,
            source_path=source_path,
            metadata={"shelf": 3} if metadata is None else metadata,
        ),
        sections=(Section((heading,), 1, 0, len(head) - 1, len(head), len(content)),),
        chunks=tuple(chunks),
        left_out=(LeftOut(0, len(head) - 1, "heading"),),
        n_left_out={"heading": 1},
        n_sentences=len(texts),
        coverage=coverage,
        warnings=("a warning",),
        vocabulary_version=0,
        data_version="0",
        data_checksum=data_checksum,
        reefs=[ReefInfo(i, f"reef {i}", i // 2, 0, ()) for i in range(12)],
        islands=[IslandInfo(i, f"island {i}", 0) for i in range(6)],
    )


def _chunk(
    index: int,
    text: str,
    start: int,
    reefs: Reefs,
    probabilities: Mapping[int, float],
    confidence: float,
    archs: tuple[float, float, float, float],
    coverage: float,
) -> Chunk:
    strongest = sorted(reefs.items(), key=lambda pair: (-pair[1], pair[0]))
    top = max(strongest, key=lambda pair: round(200 * probabilities[pair[0]]), default=(None, 0.0))[0]
    return Chunk(
        chunk_index=index,
        section=0,
        text=text,
        start_char=start,
        end_char=start + len(text),
        start_line=index + 2,
        end_line=index + 2,
        sentence_count=1,
        confidence=confidence,
        coverage=coverage,
        matched_words=3,
        arch_scores=archs,
        profile=pack([(reef, z, 2 * z, 2, round(probabilities[reef], 3)) for reef, z in strongest]),
        norm=math.sqrt(sum(z * z for z in reefs.values())),
        top_reef_id=top,
        top_reef_name=None if top is None else f"reef {top}",
        top_reef_probability=0.0 if top is None else round(200 * probabilities[top]) / 200,
    )
