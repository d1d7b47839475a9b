"""Damaged and unusual files, sent through a running service: each may harm only itself."""

from __future__ import annotations

import io
import random
import re
import subprocess
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import httpx

from benchmarks import formats_corpus
from benchmarks.ingest_service import SHOAL, running
from benchmarks.process_tree import descendants
from shoal.errors import CONVERSION_CODES, ITEM_CODES, ShoalError

N_PER_UPLOAD = 100
N_PARAGRAPHS = 8
"""Paragraphs of the texts that files are made of before they are damaged."""
POLL_SECONDS = 0.5
JOB_SECONDS = 600.0
ENDED = frozenset({"succeeded", "duplicate", "failed", "canceled"})
WORKERS = 2
TABLE_ROWS, TABLE_COLUMNS = 5_000, 20
BOMB_BYTES = 300_000_000
"""Size of a member of a small archive, unpacked."""
NAMES = (
    "книга",
    "שלום עולם",
    "文書 目録",
    "مرحبا",
    "a\u202egnp",
    "naïve café",
    "🐟",
    "x" * 200,
    "a'b; c&d",
    "..",
)
TEXTS = (
    "Море глубокое, и рыбы плывут в холодной воде. ",
    "הים עמוק והדגים שוחים במים הקרים. ",
    "海は深く、魚は冷たい水の中を泳ぐ。",
    "البحر عميق والأسماك تسبح في الماء البارد. ",
)


@dataclass(slots=True)
class DamageReport:
    """What became of the files. `ends`: items by damage and code, or `stored`; `problems`: harm done."""

    n_files: int = 0
    seconds: float = 0.0
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        codes: Counter[str] = Counter()
        for (_, code), n in self.ends.items():
            codes[code] += n
        lines = [f"{self.n_files:,} damaged files in {self.seconds:.0f} s"]
        lines += [f"    {n:>5,} {code}" for code, n in codes.most_common()]
        for damage in dict.fromkeys(damage for damage, _ in self.ends):
            own = Counter({code: n for (each, code), n in self.ends.items() if each == damage})
            lines.append(f"  {damage}: " + ", ".join(f"{n:,} {code}" for code, n in own.most_common()))
        return "\n".join([*lines, *(f"PROBLEM: {each}" for each in self.problems or ())])


File = tuple[str, str, bytes]
"""Kind of damage, name and content."""


def damaged_files(
    texts: Iterable[Sequence[formats_corpus.Section]], folder: Path, seed: int
) -> Iterator[File]:
    """An endless sequence: special files, then whole files truncated at each tenth, with flipped bytes, and
    under other names."""
    short = [_shortened(text) for text in texts]
    made = formats_corpus.make_files(short, folder)
    whole = {each.path.name: each.path.read_bytes() for each in made}
    chance = random.Random(seed)
    yield from _special(whole)
    cuts = [(name, tenth) for name in whole for tenth in range(10)]
    names = sorted(whole)
    while True:
        for name, tenth in chance.sample(cuts, len(cuts)):
            data = whole[name]
            cut = len(data) * tenth // 10
            yield "truncated", name, data[: cut + chance.randrange(8) if tenth else 0]
            yield "flipped bytes", name, _flipped(data, chance)
            other = Path(chance.choice(names)).suffix
            yield (
                "wrong suffix",
                f"{Path(name).stem}{chance.randrange(1000)}{other}",
                data[:-1] + chance.randbytes(1),
            )
            if chance.random() < 0.3:
                stem = chance.choice(NAMES)
                yield "name", f"{stem}{Path(name).suffix}", _flipped(data, chance)


def _shortened(text: Sequence[formats_corpus.Section]) -> tuple[formats_corpus.Section, ...]:
    return tuple(each._replace(paragraphs=each.paragraphs[:2]) for each in text[: N_PARAGRAPHS // 2])


def _flipped(data: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 3, 30, 300))):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def _special(whole: dict[str, bytes]) -> Iterator[File]:
    """One file of each kind that is not the damage of a whole file."""
    suffixes = sorted({Path(name).suffix for name in whole})
    for suffix in suffixes:
        yield "empty", f"empty{suffix}", b""
        yield "blank", f"blank{suffix}", b" \n" * 50 + suffix.encode()
        yield "zeros", f"zeros{suffix}", b"\0" * 3000 + suffix.encode()
    for name, data in whole.items():
        if data.startswith(b"PK"):
            yield "password", f"locked-{name}", _locked(data)
            yield "nested archive", f"nested-{name}", _nested(name, data)
    yield "password", "locked.pdf", LOCKED_PDF
    yield "nested archive", "bomb.docx", _bomb("word/document.xml")
    yield "nested archive", "bomb.xlsx", _bomb("xl/workbook.xml")
    yield "nested archive", "bomb.epub", _bomb("META-INF/container.xml")
    row = ",".join(f"value {at}" for at in range(TABLE_COLUMNS)) + "\n"
    yield "huge table", "huge.csv", (row * TABLE_ROWS).encode()
    cells = "".join(f"<td>{at}</td>" for at in range(TABLE_COLUMNS))
    yield "huge table", "huge.html", f"<table>{f'<tr>{cells}</tr>' * TABLE_ROWS}</table>".encode()
    for name, text in zip(NAMES, TEXTS, strict=False):
        long = text * 20
        yield "other script", f"{name}.txt", long.encode()
        yield "other script", f"{name}.html", f"<html dir=rtl><p>{long}</p></html>".encode("utf-16")
        yield "other script", f"{name}.csv", f"{text},b\n{text},2\n".encode()
        yield "other script", f"{name}.vtt", f"WEBVTT\n\n00:01.000 --> 00:02.000\n{long}\n".encode()


LOCKED_PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
    b"3 0 obj<</Filter/Standard/V 1/R 2/P -4/O(" + b"o" * 32 + b")/U(" + b"u" * 32 + b")>>endobj\n"
    b"trailer<</Root 1 0 R/Encrypt 3 0 R/ID[(a)(a)]/Size 4>>\n%%EOF\n"
)


def _locked(data: bytes) -> bytes:
    """A zip whose members say that they are encrypted."""
    damaged = bytearray(data)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for found in re.finditer(re.escape(mark), data):
            damaged[found.start() + offset] |= 1
    return bytes(damaged)


def _nested(name: str, data: bytes) -> bytes:
    for level in range(8):
        data = _zipped({f"{level}-{name}": data})
    return data


def _bomb(member: str) -> bytes:
    return _zipped({"[Content_Types].xml": b"<Types/>", member: b"<a>" + b" " * BOMB_BYTES + b"</a>"})


def _zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def known_codes() -> frozenset[str]:
    """All codes of shoal/errors.py, without those that say that Shoal itself failed."""
    classes = [ShoalError]
    for each in classes:
        classes += each.__subclasses__()
    return frozenset(each.code for each in classes) | CONVERSION_CODES | ITEM_CODES - {"internal_error"}


def upload_damaged(
    texts: Iterable[Sequence[formats_corpus.Section]], folder: Path, n_files: int, seed: int
) -> DamageReport:
    """Upload `n_files` in pieces to a service of its own in `folder`, and look for harm."""
    report = DamageReport(n_files)
    files = islice(damaged_files(texts, folder / "whole", seed), n_files)
    (folder / "service").mkdir()
    with running(folder / "service", WORKERS) as service:
        # The first conversion starts a process below each worker, which lives on.
        before = workers(service.pid)
        started = time.monotonic()
        with httpx.Client(base_url=f"{service.address}/api/v1", timeout=JOB_SECONDS) as client:
            while piece := list(islice(files, N_PER_UPLOAD)):
                _send(client, piece, report)
            report.seconds = time.monotonic() - started
            _check_stored(client, report)
        if lost := before - workers(service.pid):
            report.problems.append(f"lost workers: {sorted(lost)}")
    log = (folder / "service" / "up.log").read_text()
    if "Traceback" in log:
        report.problems.append("a traceback in the log: " + log[log.index("Traceback") :][:2000])
    doctor = subprocess.run(
        [*SHOAL, "--db", str(folder / "service" / "bench.db"), "--json", "doctor"],
        capture_output=True,
        text=True,
        check=False,
    )
    if doctor.returncode:
        report.problems.append(f"shoal doctor: {doctor.stdout} {doctor.stderr}")
    return report


def workers(pid: int) -> set[int]:
    """Processes of the service, without those that convert files, which are replaced after a crash."""
    return {each for each in descendants(pid) if "shoal.conversion" not in _command(each)}


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return "shoal.conversion"


def _send(client: httpx.Client, piece: Sequence[File], report: DamageReport) -> None:
    """Upload a piece, wait for its end and count the ends of its items."""
    response = client.post("/documents/bulk", files=[("files", (name, data)) for _, name, data in piece])
    if response.status_code != 202:
        report.problems.append(f"{response.status_code} for an upload: {response.text[:300]}")
        return
    job_id = response.json()["job"]["id"]
    deadline = time.monotonic() + JOB_SECONDS
    while not (job := client.get(f"/jobs/{job_id}").json())["finished_at"] and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    if not job["finished_at"]:
        report.problems.append(f"job {job_id} did not end")
    items = list(_items(client, job_id))
    if len(items) != len(piece):
        report.problems.append(f"job {job_id} has {len(items)} items for {len(piece)} files")
    for (damage, name, _), item in zip(piece, items, strict=False):
        code = item["error_code"] or "stored"
        report.ends[damage, "stored" if item["status"] == "duplicate" else code] += 1
        if item["status"] not in ENDED or item["attempts"]:
            report.problems.append(f"{name}: {item['status']} after {item['attempts']} deaths of a worker")
        if item["status"] == "failed" and not (code in known_codes() and item["error"]):
            report.problems.append(f"{name}: {code}: {item['error']}")


def _items(client: httpx.Client, job_id: int) -> Iterator[dict[str, Any]]:
    for offset in range(0, N_PER_UPLOAD, 50):
        yield from client.get(f"/jobs/{job_id}/items", params={"limit": 50, "offset": offset}).json()["items"]


def _check_stored(client: httpx.Client, report: DamageReport) -> None:
    """Every stored document must have passages that equal its text at their offsets."""
    n_stored = client.get("/status").json()["n_documents"]
    listed = client.get("/documents", params={"limit": 1}).json()["total"]
    if n_stored != listed:
        report.problems.append(f"{n_stored} documents, but {listed} are listed")
    for offset in range(0, listed, 50):
        page = client.get("/documents", params={"limit": 50, "offset": offset}).json()
        for document in page["documents"]:
            content = client.get(f"/documents/{document['id']}/content").text
            chunks = client.get(f"/documents/{document['id']}/chunks", params={"limit": 20}).json()["chunks"]
            if not chunks or any(
                content[each["start_char"] : each["end_char"]] != each["text"] for each in chunks
            ):
                report.problems.append(f"document {document['id']} is half stored: {document['title'][:80]}")
