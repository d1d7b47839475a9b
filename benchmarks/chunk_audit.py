"""Check the exactness of chunks on real files: `python benchmarks/chunk_audit.py FOLDER...`

Chunks every `.md`, `.markdown` and `.txt` under the folders and checks the results with independent code: the
text of a chunk equals the content between its offsets, its lines are right, every character but white space
is in exactly one chunk, heading or left-out span, no sentence is split, no chunk is too long or crosses a
heading. Prints a line for each file and every violation; exits 1 if there is one.

`--show N` prints N chunks of every file; `--parse-only` times parsing without sentences. Speeds are per
second of processor time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import lagoon
from shoal.chunking.analysis import score_document
from shoal.formats import plaintext
from shoal.formats.drafts import FORMAT_OF_SUFFIX, draft_from_file
from shoal.formats.markdown import read_blocks
from shoal.formats.masking import mask, mask_formulas
from shoal.formats.parsing import parse
from shoal.models.documents import DocFormat, DocumentDraft, ScoredDocument
from shoal.settings import Settings


def violations(scored: ScoredDocument, settings: Settings) -> Iterator[str]:
    content = scored.draft.content
    yield from _chunk_violations(scored, settings)
    yield from _line_violations(scored)
    spans = sorted(
        [(c.start_char, c.end_char, f"chunk {c.chunk_index}") for c in scored.chunks]
        + [
            (s.heading_start, s.heading_end, "heading")
            for s in scored.sections
            if s.heading_start < s.heading_end
        ]
        + [(span.start_char, span.end_char, span.reason) for span in scored.left_out]
    )
    at, before = 0, "the start"
    for start, end, name in [*spans, (len(content), len(content), "the end")]:
        if start < at:
            yield f"{name} overlaps {before} at {start}"
        elif content[at:start].strip():
            yield f"lost between {before} and {name}: {content[at:start].strip()[:60]!r}"
        at, before = max(at, end), name
    yield from _sentence_violations(scored)


def _chunk_violations(scored: ScoredDocument, settings: Settings) -> Iterator[str]:
    for i, chunk in enumerate(scored.chunks):
        section = scored.sections[chunk.section]
        if chunk.chunk_index != i:
            yield f"chunk {i} has index {chunk.chunk_index}"
        if scored.draft.content[chunk.start_char : chunk.end_char] != chunk.text:
            yield f"chunk {i} is not the content between its offsets"
        if not chunk.text.strip() or chunk.text != chunk.text.strip():
            yield f"chunk {i} is blank or has white space at its ends"
        if len(chunk.text) > settings.max_chunk_chars:
            yield f"chunk {i} has {len(chunk.text)} characters"
        if not section.start_char <= chunk.start_char < chunk.end_char <= section.end_char:
            yield f"chunk {i} is outside of its section {section.path}"


def _line_violations(scored: ScoredDocument) -> Iterator[str]:
    """Lines counted from chunk to chunk; neither end of a chunk is white space, so no newline is cut in
    two."""
    content, line, at = scored.draft.content, 1, 0
    for chunk in scored.chunks:
        for where, offset, reported in (
            ("starts", chunk.start_char, chunk.start_line),
            ("ends", chunk.end_char, chunk.end_line),
        ):
            line += content[at:offset].replace("\r\n", "\n").replace("\r", "\n").count("\n")
            at = offset
            if line != reported:
                yield f"chunk {chunk.chunk_index} {where} on line {line}, not {reported}"


def _sentence_violations(scored: ScoredDocument) -> Iterator[str]:
    chunks = iter(scored.chunks)
    chunk = next(chunks, None)
    counted = 0
    for sentence in parse(scored.draft).sentences:
        while chunk is not None and chunk.end_char <= sentence.start_char:
            if counted != chunk.sentence_count:
                yield f"chunk {chunk.chunk_index} has {counted} sentences, not {chunk.sentence_count}"
            chunk, counted = next(chunks, None), 0
        if chunk is None or sentence.start_char < chunk.start_char or sentence.end_char > chunk.end_char:
            yield f"the sentence at {sentence.start_char} is not whole in one chunk"
        counted += 1


def show(scored: ScoredDocument, n: int) -> None:
    step = max(1, len(scored.chunks) // n)
    for chunk in scored.chunks[step // 2 :: step][:n]:
        reefs = ", ".join(f"{reef.reef_name} {reef.z_score:.1f}" for reef in chunk.reefs[:4])
        print(f"\n  [{chunk.chunk_index}] {' > '.join(scored.sections[chunk.section].path)}")
        print(
            f"  lines {chunk.start_line}-{chunk.end_line}, {chunk.sentence_count} sentences, "
            f"{len(chunk.text)} "
            f"characters, coverage {chunk.coverage:.2f}, confidence {chunk.confidence:.2f}; {reefs}"
        )
        print("  | " + chunk.text.replace("\r", "").replace("\n", "\n  | "))


def structure_only(draft: DocumentDraft) -> None:
    """Parsing without sentences: blocks and masking."""
    if draft.format is DocFormat.markdown:
        _, marks = read_blocks(draft.content)
        mask(draft.content, marks)
    else:
        plaintext.read_blocks(draft.content)
        mask(mask_formulas(draft.content))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--show", type=int, default=0, metavar="N")
    parser.add_argument("--parse-only", action="store_true")
    arguments = parser.parse_args()
    files = sorted(
        path for folder in arguments.folders for path in folder.rglob("*") if path.suffix in FORMAT_OF_SUFFIX
    )
    settings = Settings()
    scorer = lagoon.load()
    n_violations = n_chunks = n_chars = 0
    seconds = 0.0
    for path in files:
        draft = draft_from_file(path, settings=settings)
        start = time.process_time()
        if arguments.parse_only:
            structure_only(draft)
            seconds += time.process_time() - start
            n_chars += len(draft.content)
            continue
        scored = score_document(draft, scorer, settings)
        spent = time.process_time() - start
        seconds, n_chars, n_chunks = (
            seconds + spent,
            n_chars + len(draft.content),
            n_chunks + len(scored.chunks),
        )
        lengths = [len(chunk.text) for chunk in scored.chunks]
        reasons = sorted({span.reason for span in scored.left_out})
        print(
            f"{path.name}: {len(scored.sections)} sections, {scored.n_sentences} sentences, "
            f"{len(lengths)} chunks "
            f"(median {statistics.median(lengths):.0f}, longest {max(lengths)} characters), "
            f"coverage {scored.coverage:.2f}, {len(draft.content) / spent / 1e6:.1f} MB/s"
            + (f", left out: {', '.join(reasons)}" if reasons else "")
        )
        for warning in scored.warnings:
            print(f"  warning: {warning}")
        for violation in violations(scored, settings):
            n_violations += 1
            print(f"  VIOLATION: {violation}")
        if arguments.show:
            show(scored, arguments.show)
    print(
        f"{len(files)} files, {n_chars / 1e6:.1f} million characters, {n_chunks} chunks, "
        f"{n_chars / seconds / 1e6:.1f} MB/s, {n_violations} violations"
    )
    return 1 if n_violations or not files else 0


if __name__ == "__main__":
    sys.exit(main())
