"""How many words of real files are in their documents, and whether losses show.

    python -m benchmarks.file_accounts FOLDER [--plant N] [--names]

FOLDER has files of any formats, such as the test folders of other converters. Each file is converted, and its
account is made as in the process of conversions. It prints by format: files that were converted; the median
share of their visible words that are stored, besides those that are left out on purpose; the share of files
with at least 98 %; files with less and no warning; and the time of the account of that of the conversion.

`--plant N`: also converts up to N files of each format with converters that skip one kind of part, such as
tables. A loss is found if the account has at least half of the words of the file that the document lost, and
warned of if it has a warning where more than 2 % of the words were lost. `--names` prints the files below
98 %.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from shoal.conversion.accounts.markup import shortage, words_of
from shoal.conversion.child import COUNTERS, convert, file_account, parts_of
from shoal.conversion.converted import ConversionError, Converted
from shoal.conversion.file_kinds import FILE_KINDS, FileKind
from shoal.conversion.recognition import recognise
from shoal.models.files import MAX_MISSING_SHARE, FileAccount

GOOD_SHARE = 0.98
_HERE = "shoal.conversion."
_DRAFT = _HERE + "converted:Draft."


def _nothing(*_arguments: Any, **_options: Any) -> tuple[()]:
    return ()


def _without_elements(*names: str) -> Callable[[Any], Any]:
    """Return a maker of a renderer of HTML that passes elements over."""

    def make(original: Any) -> Any:
        def enter(self: Any, node: int, name: str) -> Any:
            return self._tree.ends[node] if name in names else original(self, node, name)

        return enter

    return make


def _without_boxes(original: Any) -> Any:
    def collect(self: Any, element: Any, text: Any) -> None:
        original(self, element, text)
        text.boxes.clear()

    return collect


def _every_other(original: Any) -> Any:
    calls = Counter[str]()

    def call(*arguments: Any) -> Any:
        calls["all"] += 1
        return original(*arguments) if calls["all"] % 2 else ()

    return call


def _without_even_pages(original: Any) -> Any:
    def read(self: Any, reader: Any, annotations: Any, number: int) -> Any:
        if number % 2:
            self._labels.append("")
            return []
        return original(self, reader, annotations, number)

    return read


def _with(*names: str) -> Callable[[Any], Any]:
    return lambda original: original | set(names)


def _skipped(_original: Any) -> Any:
    return _nothing


class Plant(NamedTuple):
    """A loss: `target` as `module:name` or `module:Class.name`, and what makes its replacement."""

    kind: str  # of the file
    loss: str
    target: str
    replaced: Callable[[Any], Any] = _skipped


_DRAFTED = ("docx", "pptx", "opendocument", "rtf", "pdf")
PLANTS = (
    *(Plant(kind, "headings", _DRAFT + "heading") for kind in _DRAFTED),
    *(Plant(kind, "lists", _DRAFT + "item") for kind in _DRAFTED),
    *(Plant(kind, "tables", _DRAFT + "table") for kind in _DRAFTED),
    Plant("docx", "notes", _HERE + "docx:_Reader._notes"),
    Plant("docx", "comments", _HERE + "docx:_Reader._comments"),
    Plant("docx", "headers", _HERE + "docx:_Reader._headers"),
    Plant("docx", "charts and diagrams", _HERE + "docx:write_drawing"),
    Plant("docx", "text boxes", _HERE + "docx:_Reader._collect", _without_boxes),
    Plant("docx", "documents inside", _HERE + "docx:_Reader._chunk"),
    Plant("docx", "links", _HERE + "docx:_PASSED_OVER", _with("hyperlink")),
    Plant("docx", "inserted text", _HERE + "docx:_PASSED_OVER", _with("ins")),
    Plant("pptx", "notes", _HERE + "pptx:_Slide._notes"),
    Plant("pptx", "comments", _HERE + "pptx:_Slide._comments"),
    Plant("pptx", "charts and diagrams", _HERE + "pptx:write_drawing"),
    Plant("pptx", "groups", _HERE + "pptx:_PASSED_OVER", _with("grpSp")),
    Plant("xlsx", "comments", _HERE + "spreadsheets:_Reader._notes"),
    Plant("xlsx", "charts and text boxes", _HERE + "spreadsheets:_Reader._write_drawings"),
    Plant("xlsx", "sheets", _HERE + "spreadsheets:_Reader._rows", _every_other),
    Plant("opendocument", "notes", _HERE + "opendocument:_TextWriter.notes"),
    Plant("opendocument", "comments", _HERE + "opendocument:_TextWriter.comments"),
    Plant("opendocument", "charts", _HERE + "opendocument:_write_charts"),
    Plant("opendocument", "headers", _HERE + "opendocument:_write_headers"),
    Plant("opendocument", "slides", _HERE + "opendocument:_write_slide", _every_other),
    Plant("epub", "pages", _HERE + "epub:_Writer.add", _every_other),
    *(
        Plant(kind, loss, _HERE + "web_pages:_Renderer._enter", _without_elements(*names.split()))
        for kind in ("html", "epub", "mhtml")
        for loss, names in (
            ("tables", "table"),
            ("lists", "ul ol dl"),
            ("headings", "h1 h2 h3"),
            ("quotes", "blockquote"),
            ("code", "pre"),
            ("links", "a"),
        )
    ),
    Plant("eml", "bodies", _HERE + "mail:_Mailbox._add_text", _every_other),
    Plant("mbox", "messages", _HERE + "mail:_Mailbox.add_safely", _every_other),
    Plant("pdf", "pages", _HERE + "pdf:_Reader._read_page", _without_even_pages),
    Plant("pdf", "annotations and forms", _HERE + "pdf:AnnotationReader._read"),
    Plant("pdf", "columns and notes", _HERE + "pdf_layout:_BlockBuilder._add_flow", _every_other),
)


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Let a converter lose what the plant says."""
    module, _, name = plant.target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, last = name.split(".")
    for each in outer:
        owner = getattr(owner, each)
    with patch.object(owner, last, plant.replaced(getattr(owner, last))):
        yield


class Accounted(NamedTuple):
    """A converted file. `seconds`: of its conversion and of its account."""

    path: Path
    kind: FileKind
    data: bytes
    converted: Converted
    account: FileAccount
    seconds: tuple[float, float]


def account(path: Path, kind: FileKind, data: bytes) -> Accounted | None:
    """Convert a file; None if it cannot be converted."""
    request = {"converter": kind.converter, "kind": kind.name, "extra": kind.extra, "name": path.name}
    begun = time.process_time()
    try:
        result = convert({**request, "options": {}}, data)
    except ConversionError:
        return None
    middle = time.process_time()
    found = file_account(
        kind.id, data, result.content, result.removed, title=result.title, counter=result.counter
    )
    if found is None:
        return None
    return Accounted(path, kind, data, result, found, (middle - begun, time.process_time() - middle))


def accounts_of(folder: Path) -> dict[str, list[Accounted]]:
    """Return the files of a folder by format, each content once."""
    found: defaultdict[str, list[Accounted]] = defaultdict(list)
    seen: set[bytes] = set()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if data in seen:
            continue
        seen.add(data)
        kind = recognise(data, path.name)
        if kind.id in COUNTERS and (file := account(path, kind, data)) is not None:
            found[kind.id].append(file)
    return found


def print_accounts(found: dict[str, list[Accounted]], *, names: bool) -> None:
    print("format | files | words | median | at least 98 % | below without a warning | time of the account")
    for kind, files in sorted(found.items()):
        shares = [file.account.stored_share for file in files]
        good = sum(share >= GOOD_SHARE for share in shares) / len(shares)
        silent = [
            file for file in files if file.account.stored_share < GOOD_SHARE and not file.account.warnings()
        ]
        cost = sum(file.seconds[1] for file in files) / sum(file.seconds[0] for file in files)
        n_words = sum(file.account.n_words for file in files)
        print(
            f"{FILE_KINDS[kind].name} | {len(files)} | {n_words:,} | {statistics.median(shares):.1%} | "
            f"{good:.1%} | {len(silent)} | {cost:.0%}"
        )
        for file in sorted(files, key=lambda file: file.account.stored_share) if names else ():
            if file.account.stored_share < GOOD_SHARE:
                print(f"    {file.account.stored_share:.1%} {file.path}: {' '.join(file.account.warnings())}")


def print_plants(found: dict[str, list[Accounted]], n_files: int) -> None:
    print("format | loss | files | found | over 2 % | warned of")
    totals = Counter[str]()
    for plant in PLANTS:
        counts = plant_in(plant, found.get(plant.kind, ())[:n_files])
        totals += counts
        if counts["lost"]:
            print(
                f"{FILE_KINDS[plant.kind].name} | {plant.loss} | {counts['lost']} | {counts['found']} | "
                f"{counts['much']} | {counts['warned']}"
            )
    print(
        f"all | | {totals['lost']} | {totals['found'] / totals['lost']:.1%} | {totals['much']} | "
        f"{totals['warned'] / max(totals['much'], 1):.1%}"
    )


def plant_in(plant: Plant, files: Sequence[Accounted]) -> Counter[str]:
    """Return the numbers of files with the loss, of those in which it is found, of those that lose more than
    2 % of their words, and of those of them with a warning."""
    counts = Counter[str]()
    for file in files:
        before = file.account
        with planted(plant):
            after = account(file.path, file.kind, file.data)
        if after is None:
            continue
        words = sum((part.counted() for part in parts_of(file.kind.id, file.data)), Counter[str]())
        wanted, left = (
            Counter(words_of(f"{each.converted.title} {each.converted.content}")) & words
            for each in (file, after)
        )
        n_lost = shortage(wanted, left).total()
        if not n_lost:
            continue
        missing = _n_missing(after.account)
        counts["lost"] += 1
        counts["found"] += 2 * (missing - _n_missing(before)) >= min(n_lost, before.n_stored)
        is_much = n_lost > MAX_MISSING_SHARE * (before.n_words - before.n_intended)
        counts["much"] += is_much
        counts["warned"] += is_much and after.account.is_incomplete
    return counts


def _n_missing(account: FileAccount) -> int:
    return sum(part.n_words for part in account.missing if not part.is_intended)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plant", type=int, default=0, metavar="N")
    parser.add_argument("--names", action="store_true")
    arguments = parser.parse_args()
    found = accounts_of(arguments.folder)
    print_accounts(found, names=arguments.names)
    if arguments.plant:
        print_plants(found, arguments.plant)


if __name__ == "__main__":
    main()
