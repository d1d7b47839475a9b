"""Tables in text files: CSV and TSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator

from shoal.conversion.converted import ROWS_BETWEEN_REPORTS, Converted, Draft, broken, report
from shoal.conversion.spreadsheets import NumberedRow, SheetWriter, cell_text
from shoal.errors import ShoalError
from shoal.formats.decoding import CERTAIN_ENCODINGS, decode

_DELIMITERS = ",;\t|"
_MIN_CONFIDENCE = 0.5  # of a guessed encoding
_SAMPLE_CHARS = 20_000
_SAMPLE_LINES = 50


def convert_csv(data: bytes, name: str) -> Converted:
    """Convert a table with one row on each line. Cells are divided by tabs if the name ends with `.tsv`,
    otherwise by the one of `,`, `;`, `|` and tabs that fits."""
    draft = Draft()
    try:
        decoded = decode(data, max_bytes=len(data), min_confidence=_MIN_CONFIDENCE)
    except ShoalError as error:
        raise broken(f"it is not a table: {error}") from error
    text = decoded.text.replace("\0", "")
    if decoded.encoding not in CERTAIN_ENCODINGS:
        draft.warn(f"the encoding of the file was guessed: {decoded.encoding}")
    is_tsv = name.casefold().endswith((".tsv", ".tab"))
    rows = _delimited_rows(text, "\t" if is_tsv else find_delimiter(text), draft)
    SheetWriter(draft).write("", rows)
    return draft.converted()


def find_delimiter(text: str) -> str:
    """Return the character that divides the cells: the one that most lines have equally often."""
    lines = text[:_SAMPLE_CHARS].splitlines()[:_SAMPLE_LINES]
    # The last line of the sample may be cut.
    lines = [line for line in (lines[:-1] if len(lines) > 1 else lines) if line.strip()]
    best, best_score = ",", 0
    for delimiter in _DELIMITERS:
        counts = Counter(_count_outside_quotes(line, delimiter) for line in lines)
        counts.pop(0, None)
        for count, n_lines in counts.items():
            score = n_lines * min(count, 20)
            if score > best_score:
                best, best_score = delimiter, score
    return best


def _count_outside_quotes(line: str, delimiter: str) -> int:
    return sum(part.count(delimiter) for part in line.split('"')[::2])


def _delimited_rows(text: str, delimiter: str, draft: Draft) -> Iterator[NumberedRow]:
    has_quotes = True
    if text.count('"') % 2:
        # An open quote would swallow the rest of the file.
        has_quotes = False
        draft.warn("a quotation mark in the table is never closed; all of them are read as text")
    lines = io.StringIO(text, newline="")
    if has_quotes:
        reader = csv.reader(lines, delimiter=delimiter)
    else:
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    number = 0
    while True:
        number += 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            draft.warn(f"row {number:,} has a cell that is too long, and is left out")
            continue
        if number % ROWS_BETWEEN_REPORTS == 0:
            report(lines.tell(), len(text))
        yield NumberedRow(number, {i: cell_text(cell) for i, cell in enumerate(row)})
