"""Large files of each format, one after the other, through a running service with two workers.

    python -m benchmarks.formats_large CORPORA [--only PART]

Makes the files from the texts of CORPORA: a PDF of 10,000 pages, texts and pages of 100 MB, other formats of
20 MB, tables of a million cells, archives in archives, names and texts in other scripts. Prints for each the
code of its end, its seconds, the most private memory of all processes together, of the largest one and of the
conversion, and the longest time without progress in its job. Exits with 1 if a worker was lost, a job did not
end, or a code is unknown.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx

from benchmarks.formats_corpus import Section, pdf_of_pages, read_texts, write_workbook
from benchmarks.formats_damage import known_codes, workers
from benchmarks.ingest_service import Running, running
from benchmarks.process_tree import descendants, private_mb

BYTES = 100_000_000
N_PAGES = 10_000
N_CELLS = 1_000_000
LINES_OF_PAGE = 30
POLL_SECONDS = 0.5
WAIT_SECONDS = 1800.0
WORKERS = 2


class End(NamedTuple):
    """What became of a file. Memory in MB, time in seconds."""

    code: str
    seconds: float
    all_mb: float
    largest_mb: float
    conversion_mb: float
    longest_pause: float

    def row(self, name: str, n_bytes: int) -> str:
        return (
            f"{name:<34}{n_bytes / 1e6:>8.1f}  {self.code:<20}{self.seconds:>7.1f}{self.all_mb:>8.0f}"
            f"{self.largest_mb:>8.0f}{self.conversion_mb:>8.0f}{self.longest_pause:>7.1f}"
        )


HEAD = f"{'file':<34}{'MB':>8}  {'end':<20}{'s':>7}{'all':>8}{'largest':>8}{'child':>8}{'pause':>7}"


def sentences(texts: Iterable[tuple[Section, ...]]) -> Iterator[str]:
    """Yield lines of all texts again and again, each with a number of its own."""
    lines = [
        line
        for text in texts
        for section in text
        for paragraph in section.paragraphs
        for line in paragraph.split(". ")
        if len(line) > 20
    ]
    for number, line in enumerate(itertools.cycle(lines)):
        yield f"{number} {line[:90]}."


def filled(lines: Iterator[str], n_bytes: int, form: Callable[[int, str], str]) -> bytes:
    """Lines in a form, up to a size."""
    out = io.BytesIO()
    for number, line in enumerate(lines):
        out.write(form(number, line).encode())
        if out.tell() >= n_bytes:
            return out.getvalue()
    raise ValueError("no texts")


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def nested(data: bytes, depth: int) -> bytes:
    for number in range(depth):
        data = zipped({f"{number}.zip" if number else "inner.txt": data})
    return data


def table(lines: Iterator[str], n_rows: int, n_columns: int) -> list[list[str]]:
    head = [f"Column {number}" for number in range(n_columns)]
    return [head, *([next(lines)[:20] for _ in range(n_columns)] for _ in range(n_rows - 1))]


def csv_bytes(rows: Iterable[list[str]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def large_files(corpora: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Names and makers of the files; each is made when it is needed."""
    texts = list(read_texts(corpora, 4))
    lines = sentences(texts)

    def pages() -> bytes:
        own = (line for line in lines if line.isascii())
        sections = tuple(
            Section(1, f"Page {number}", tuple(next(own) for _ in range(LINES_OF_PAGE)))
            for number in range(N_PAGES)
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "pages.pdf")
            pdf_of_pages(sections, path)
            return path.read_bytes()

    def workbook(n_rows: int, n_columns: int) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "table.xlsx")
            write_workbook({"Sheet": table(lines, n_rows, n_columns)}, path)
            return path.read_bytes()

    def cue(number: int, line: str) -> str:
        at = f"{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000"
        return f"{at} --> {at[:-3]}900\n{line}\n\n"

    def cell(number: int, line: str) -> str:
        return json.dumps({"cell_type": "markdown", "metadata": {}, "source": [line]}) + ",\n"

    def paragraph(number: int, line: str) -> str:
        return f"{line}\n\n" if number % 10 else f"## Part {number}\n\n"

    yield "10,000 pages.pdf", pages
    yield "30 MB.txt", lambda: filled(lines, 30_000_000, lambda _, line: f"{line}\n")
    yield "30 MB.md", lambda: filled(lines, 30_000_000, paragraph)
    yield "100 MB.txt", lambda: filled(lines, BYTES, lambda _, line: f"{line}\n")
    yield "one line of 30 MB.txt", lambda: filled(lines, 30_000_000, lambda _, line: f"{line} ")
    yield "20 MB.html", lambda: filled(lines, 20_000_000, lambda _, line: f"<p>{line}</p>\n")
    yield "100 MB.html", lambda: filled(lines, BYTES, lambda _, line: f"<p>{line}</p>\n")
    yield (
        "20 MB.mbox",
        lambda: filled(
            lines,
            20_000_000,
            lambda n, line: f"From a@b.c Mon Jan  1 00:00:00 2024\nSubject: {n}\nFrom: a@b.c\n\n{line}\n\n",
        ),
    )
    yield "20 MB.vtt", lambda: b"WEBVTT\n\n" + filled(lines, 20_000_000, cue)
    yield (
        "20 MB.py",
        lambda: filled(lines, 20_000_000, lambda n, line: f"def f{n}():\n    return {line!r}\n\n\n"),
    )
    yield "20 MB.rst", lambda: filled(lines, 20_000_000, lambda _, line: f"{line}\n\n")
    yield (
        "20 MB.rtf",
        lambda: b"{\\rtf1 " + filled(lines, 20_000_000, lambda _, line: f"{line}\\par\n") + b"}",
    )
    yield "20 MB.ipynb", lambda: (
        b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": ['
        + filled(lines, 20_000_000, cell).rstrip(b",\n") + b"]}"
    )  # fmt: skip
    yield "a million cells, long.csv", lambda: csv_bytes(table(lines, N_CELLS // 4, 4))
    yield "a million cells, wide.csv", lambda: csv_bytes(table(lines, N_CELLS // 100, 100))
    yield "100 MB.csv", lambda: filled(lines, BYTES, lambda n, line: f"{n},{line[:20]},{n % 7}\n")
    yield "a million cells, long.xlsx", lambda: workbook(N_CELLS // 4, 4)
    yield "a million cells, wide.xlsx", lambda: workbook(N_CELLS // 100, 100)
    yield "20 levels.zip", lambda: nested(b"The sea is deep.", 20)
    yield "in a zip.docx", lambda: nested(b"The sea is deep.", 2)
    yield "שלום עולם.txt", lambda: "הים עמוק והדגים שוחים במים הקרים. ".encode() * 100_000
    yield "مرحبا.csv", lambda: "اسم,قيمة\n".encode() + "البحر العميق,١٢٣\n".encode() * 100_000
    yield "目録.html", lambda: "<p>海は深く、魚は冷たい水の中を泳ぐ。</p>\n".encode() * 100_000


def upload(service: Running, name: str, data: bytes) -> End:
    """Upload one file and watch its job to the end."""
    all_mb = largest = conversion = pause = 0.0
    with httpx.Client(base_url=f"{service.address}/api/v1", timeout=WAIT_SECONDS) as client:
        began = time.monotonic()
        response = client.post("/documents/bulk", files=[("files", (name, data))])
        if response.status_code != 202:
            return End(
                response.json().get("code", str(response.status_code)), time.monotonic() - began, *[0.0] * 4
            )
        job_id = response.json()["job"]["id"]
        changed, before = time.monotonic(), None
        while True:
            job = client.get(f"/jobs/{job_id}").json()
            shown = job["stage"], job["progress"]["fraction"]
            if shown != before or job["finished_at"]:
                pause = max(pause, time.monotonic() - changed)
                changed, before = time.monotonic(), shown
            sizes = {each: _private_mb(each) for each in descendants(service.pid)}
            all_mb, largest = max(all_mb, sum(sizes.values())), max(largest, *sizes.values())
            own = sizes.keys() - workers(service.pid)
            conversion = max([conversion, *(sizes[each] for each in own)])
            if job["finished_at"] or time.monotonic() - began > WAIT_SECONDS:
                break
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - began
        (item,) = client.get(f"/jobs/{job_id}/items").json()["items"]
        code = item["error_code"] or item["status"]
        if item["attempts"]:
            code = f"{code} after {item['attempts']} deaths"
        if item["error"]:
            print(f"    {item['error']}")
        return End(code, seconds, all_mb, largest, conversion, pause)


def _private_mb(pid: int) -> float:
    try:
        return private_mb(pid)
    except OSError:
        return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of the files")
    options = parser.parse_args()
    good = True
    print(HEAD)
    with tempfile.TemporaryDirectory() as scratch, running(Path(scratch), WORKERS) as service:
        before = workers(service.pid)
        for name, make in large_files(options.corpora):
            if options.only not in name:
                continue
            data = make()
            end = upload(service, name, data)
            print(end.row(name, len(data)), flush=True)
            good &= end.code in known_codes() | {"succeeded", "duplicate"}
            if lost := before - workers(service.pid):
                print(f"PROBLEM: lost workers: {sorted(lost)}")
                before, good = workers(service.pid), False
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
