"""Segmented documents as bytes: another process scores them again without parsing or tokenizing the text."""

from __future__ import annotations

import dataclasses
import json
import struct

import numpy as np

from lagoon import ReadText
from lagoon.reading import pack_arrays, unpack_arrays
from shoal.chunking.analysis import AnalyzedDocument, section_contexts, segment_contexts
from shoal.models.documents import DocumentDraft, LeftOut, ParsedDocument, Section, SentenceSpan
from shoal.settings import Settings

# Lengths of the JSON and of the arrays before the tokens.
_LENGTHS = struct.Struct("<QQ")


def pack(document: AnalyzedDocument, basis: str) -> bytes | None:
    """A segmented document without its text; None if reading the text again takes no longer.

    `basis` names the builds of code and data that the bytes depend on.
    """
    if document.read is None:
        return None
    parsed = document.parsed
    structure = {
        "basis": basis,
        "sections": [dataclasses.astuple(section) for section in parsed.sections],
        "left_out": [dataclasses.astuple(span) for span in parsed.left_out],
    }
    head = json.dumps(structure, separators=(",", ":")).encode()
    spans = np.array(parsed.sentences, dtype=np.int64).T
    arrays = pack_arrays([*spans, np.array(document.firsts, dtype=np.int64)])
    return b"".join((_LENGTHS.pack(len(head), len(arrays)), head, arrays, document.read.to_bytes()))


def unpack(data: bytes, draft: DocumentDraft, basis: str, settings: Settings) -> AnalyzedDocument | None:
    """The document that was packed, for `rescore`; None if it was packed with another basis."""
    n_head, n_arrays = _LENGTHS.unpack_from(data)
    view = memoryview(data)[_LENGTHS.size :]
    structure = json.loads(bytes(view[:n_head]))
    if structure["basis"] != basis:
        return None
    starts, ends, sections, firsts = (
        array.tolist() for array in unpack_arrays(bytes(view[n_head : n_head + n_arrays]))
    )
    parsed = ParsedDocument(
        sections=tuple(Section(tuple(path), *numbers) for path, *numbers in structure["sections"]),
        sentences=tuple(map(SentenceSpan, starts, ends, sections)),
        left_out=tuple(LeftOut(*span) for span in structure["left_out"]),
        masked="",
    )
    contexts = section_contexts(draft, parsed, settings)
    of_segments = segment_contexts(parsed.sentences, firsts, contexts)
    read = ReadText.from_bytes(bytes(view[n_head + n_arrays :]))
    return AnalyzedDocument(draft, parsed, firsts, of_segments, read=read)
