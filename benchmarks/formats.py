"""What survives of files of every format, whether citations lead back to their places, and damaged files.

    python -m benchmarks.formats CORPORA [--texts N] [--damaged N] [--seed N] [--only PART] [--keep FOLDER]

Makes files from texts of CORPORA (`books/*.md`, `wikipedia/*.txt`), ingests them in one process, and prints a
row for each format:

    words     share of the words of the file that the stored text has
    order     the same for runs of three words
    headings  share of the headings (of code: of top-level definitions) that begin a section
    MB/s      of the file, and of its text, per second of processor time for the conversion
    exact     passages that equal the text at their offsets
    placed    of those whose format has places: that have one within the file
    found     of those: whose words (90 %) stand in the parts of the file that the place names, by another
              reader, its first words in the first part and its last in the last

`--damaged` uploads N damaged files to a running service with two workers and prints their ends by code. The
exit status is 1 if a citation leads elsewhere, or if a damaged file harms more than itself.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import formats_damage
from benchmarks.formats_corpus import Made, Part, make_files, read_texts
from shoal.conversion.converted import draft_of_file
from shoal.conversion.recognition import recognise
from shoal.engine import Engine
from shoal.errors import ShoalError
from shoal.models.files import FilePlace, LocatorKind
from shoal.models.stored import StoredChunk

ENOUGH_WORDS = 0.9
"""Share of a passage's words that must stand at its place: readers divide words differently."""
N_EDGE_WORDS = 4
_WORD = re.compile(r"[^\W_]+")
_LIGATURES = str.maketrans({"ﬁ": "fi", "ﬂ": "fl", "ﬀ": "ff", "ﬃ": "ffi", "ﬄ": "ffl", "\u00ad": None})


@dataclass(slots=True)
class Measured:
    """Sums over the files of a format; `lost`: passages whose citation leads elsewhere."""

    n_files: int = 0
    n_bytes: int = 0
    n_text_bytes: int = 0
    conversion_s: float = 0.0
    words: Counter[str] = field(default_factory=Counter)
    n_chunks: int = 0
    n_exact: int = 0
    n_with_parts: int = 0
    n_placed: int = 0
    n_found: int = 0
    lost: list[str] = field(default_factory=list)

    def row(self, name: str) -> str:
        headings = _percent(self.words["headings found"], self.words["headings"])
        megabytes = self.n_bytes / 1e6
        rates = (
            [f"{each / 1e6 / self.conversion_s:8.2f}" for each in self._bytes()] if self.conversion_s else []
        )
        return (
            f"{name:<24} {self.n_files:>5} {megabytes:>6.2f}"
            f" {_percent(self.words['kept'], self.words['all'])}"
            f" {_percent(self.words['runs kept'], self.words['runs'])} {headings:>8}"
            f" {' '.join(rates):17}"
            f" {self.n_chunks:>7,} {_percent(self.n_exact, self.n_chunks)}"
            f" {_percent(self.n_placed, self.n_with_parts)} {_percent(self.n_found, self.n_with_parts)}"
        )

    def _bytes(self) -> tuple[int, int]:
        return self.n_bytes, self.n_text_bytes


HEAD = (
    f"{'format':<24} {'files':>5} {'MB':>6} {'words':>7} {'order':>7} {'headings':>8} {'MB/s':>8}"
    f" {'text':>8} {'chunks':>7} {'exact':>7} {'placed':>7} {'found':>7}"
)


def measure(made: Sequence[Made], folder: Path) -> dict[str, Measured]:
    """Ingest files into a library in `folder`, a format at a time."""
    measured: dict[str, Measured] = {}
    with Engine(folder / "formats.db") as engine:
        _ = engine.scorer
        for name in dict.fromkeys(each.format for each in made):
            files = [each for each in made if each.format == name]
            sums = measured[name] = Measured()
            for each in files:
                sums.conversion_s += _conversion_seconds(each.path)
            with engine.ingest_session() as session:
                for each in files:
                    try:
                        session.add_draft(draft_of_file(each.path, settings=engine.settings))
                    except ShoalError as error:
                        session.refuse(each.path.name, error)
                results = session.finish()
            for each, result in zip(files, results, strict=True):
                sums.n_files += 1
                sums.n_bytes += each.path.stat().st_size
                if result.id is None:
                    sums.lost.append(f"{each.path.name}: {result.error_code}: {result.error}")
                    continue
                _compare(engine, result.id, each, sums)
    return measured


def _conversion_seconds(path: Path) -> float:
    """Processor time of a second conversion in this process; 0 for a text."""
    data = path.read_bytes()
    module, _, function = (recognise(data, path.name).converter or "").partition(":")
    if not module:
        return 0.0
    convert = getattr(importlib.import_module(module), function)
    seconds = []
    for _ in range(2):
        started = time.process_time()
        try:
            convert(data, path.name)
        except Exception:
            return 0.0
        seconds.append(time.process_time() - started)
    return min(seconds)


def _compare(engine: Engine, document_id: int, made: Made, sums: Measured) -> None:
    content = engine.documents.content(document_id)
    sums.n_text_bytes += len(content.encode())
    wanted, found = words_of(made.text), words_of(content)
    sums.words["all"] += len(wanted)
    sums.words["kept"] += _common(wanted, found)
    sums.words["runs"] += len(wanted) - 2
    sums.words["runs kept"] += _common(_runs(wanted), _runs(found))
    detail = engine.documents.get(document_id)
    sections = Counter(
        f" {' '.join(words_of(section.path[-1]))} " for section in detail.sections if section.path
    )
    sections[f" {' '.join(words_of(detail.document.title))} "] += 1
    sums.words["headings"] += len(made.headings)
    for heading in made.headings:
        text = f" {' '.join(words_of(heading))} "
        sums.words["headings found"] += any(text in section for section in sections)
    for chunk in engine.documents.chunks(document_id).chunks:
        sums.n_chunks += 1
        sums.n_exact += content[chunk.start_char : chunk.end_char] == chunk.text
        if made.parts:
            sums.n_with_parts += 1
            problem = misplaced(chunk, made.parts)
            sums.n_placed += problem not in ("no place", "outside the file")
            sums.n_found += not problem
            if problem:
                sums.lost.append(f"{made.path.name}, passage {chunk.chunk_index}: {problem}")


def misplaced(chunk: StoredChunk, parts: Sequence[Part]) -> str:
    """What is wrong with the place of a passage in a file of these parts; empty if it leads there."""
    place = chunk.place
    if place is None:
        return "no place"
    own = [part for part in parts if part.name in ("", place.name)]
    if not own or not own[0].first <= place.first <= place.last <= own[-1].last:
        return "outside the file"
    there = [part for part in own if _overlap(part, place) and words_of(part.text)]
    words = words_of(chunk.text)
    share = _common(words, words_of(" ".join(part.text for part in there))) / max(1, len(words))
    if share < ENOUGH_WORDS:
        return f"{share:.0%} of its words are at {place.label}"
    if place.kind is LocatorKind.sheet:
        # A place is a group of rows.
        return ""
    if not there or not _common(words[:N_EDGE_WORDS], words_of(there[0].text)):
        return f"it does not begin at {place.label}"
    if not _common(words[-N_EDGE_WORDS:], words_of(there[-1].text)):
        return f"it does not end at {place.label}"
    return ""


def _overlap(part: Part, place: FilePlace) -> bool:
    if part.first == part.last:
        return place.first <= part.first <= place.last
    return part.first < place.last and place.first < part.last


def words_of(text: str) -> list[str]:
    return _WORD.findall(re.sub(r"\\(?=\W)", "", text.translate(_LIGATURES)).lower())


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(words, words[1:], words[2:], strict=False))


def _common(wanted: Iterable[object], found: Iterable[object]) -> int:
    return (Counter(wanted) & Counter(found)).total()


def _percent(n: float, total: float) -> str:
    return f"{n / total:7.1%}" if total else f"{'':>7}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--texts", type=int, default=6, help="texts to make files of (0: only damaged files)")
    parser.add_argument("--damaged", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of the names of the formats to measure")
    parser.add_argument("--keep", type=Path, help="where to leave the files")
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch) / "files"
        if options.texts:
            texts = list(read_texts(options.corpora, options.texts))
            if not texts:
                parser.error(f"{options.corpora} has no folders books and wikipedia with texts")
            made = list(make_files(texts, folder))
            print(HEAD)
            for name, sums in measure(
                [each for each in made if options.only in each.format], Path(scratch)
            ).items():
                print(sums.row(name), flush=True)
                for line in sums.lost[:10]:
                    print(f"    {line}")
                good &= not sums.lost and sums.n_exact == sums.n_chunks
        if options.damaged:
            texts = read_texts(options.corpora, 1)
            report = formats_damage.upload_damaged(texts, Path(scratch), options.damaged, options.seed)
            print(report.text())
            good &= not report.problems
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
