"""Archives built to be expensive: time and memory grow linearly with their bytes, or they are refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import random
import struct
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from growth import FACTOR, assert_not_quadratic
from hypothesis import given
from hypothesis import strategies as st

from shoal.conversion import archives, inflating
from shoal.conversion.archives import Archive, ArchiveTooLargeError, BrokenArchiveError, Kind, Member, Tar
from shoal.conversion.inflating import Inflated
from shoal.settings import Settings
from shoal.support.byte_units import KIB, MIB

ZIP, GZIP = "application/zip", "application/gzip"
SETTINGS = Settings()


def members(kind: str, body: bytes, settings: Settings = SETTINGS) -> list[Member]:
    return list(Archive(io.BytesIO(body), kind, settings))


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.USTAR_FORMAT)


def extension(kind: bytes, data: bytes) -> bytes:
    return header("extension", len(data), kind) + data + bytes(-len(data) % archives.BLOCK)


def record(key: str, value: str) -> bytes:
    body = f" {key}={value}\n".encode()
    size = len(body)
    while len(str(size)) + len(body) != size:
        size = len(str(size)) + len(body)
    return b"%d" % size + body


def tar_gz(*blocks: bytes) -> bytes:
    return gzip.compress(b"".join(blocks) + bytes(2 * archives.BLOCK), 1)


def with_global_headers(n: int) -> bytes:
    """Build a tar with a global header of `n` records before `n` hidden files."""
    records = b"".join(record(f"k{i}", "v") for i in range(n))
    return tar_gz(extension(b"g", records), *(header(f".{i}") for i in range(n)))


def with_digits(n: int) -> bytes:
    """Build a tar with an extended header of `n` digits (CVE-2024-6232)."""
    return tar_gz(extension(b"x", b"1" * n), header("a.txt"))


def with_records(n: int) -> bytes:
    return tar_gz(extension(b"x", b"".join(record(f"k{i}", "v") for i in range(n))), header(".a"))


@pytest.mark.parametrize(("make", "n"), [(with_global_headers, 60), (with_digits, 500), (with_records, 1900)])
def test_reading_time_is_not_quadratic(make: Callable[[int], bytes], n: int) -> None:
    settings = replace(SETTINGS, max_archive_ratio=1e6)

    def read(body: bytes) -> None:
        with contextlib.suppress(BrokenArchiveError):
            members(GZIP, body, settings)

    small, large = make(n), make(FACTOR * n)
    assert_not_quadratic(lambda: read(small), lambda: read(large))


@pytest.mark.parametrize(
    "data",
    [b"1" * 500, b"99999999999999999999999 path=a\n", b"-7 a=b\n", b"0 a=b\n", b"3 a=b\n", b"7 a=b\n", b"6 a=b",
     b"6 a b\n", b" a=b\n", b"6\ta=b\n", b"1_0 path=a\n", b"12 size=abc\n", b"\xd9\xa6 a=b\n"],
)  # fmt: skip
def test_malformed_pax_record_is_refused(data: bytes) -> None:
    with pytest.raises(BrokenArchiveError, match="damaged"):
        members(GZIP, tar_gz(extension(b"x", data), header("a.txt")))


def test_extended_headers_are_limited_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    long_name = extension(b"L", b"a.txt\0")
    assert [member.name for member in members(GZIP, tar_gz(long_name * 4, header("b.txt")))] == ["a.txt"]
    with pytest.raises(BrokenArchiveError, match="in a row"):
        members(GZIP, tar_gz(long_name * 5, header("b.txt")))

    records = extension(b"x", record("path", "a.txt") * 10) + header("b.txt")
    monkeypatch.setattr(archives, "MAX_RECORDS", 25)
    with pytest.raises(BrokenArchiveError, match="25 records"):
        members(GZIP, tar_gz(records * 3))
    monkeypatch.setattr(archives, "MAX_HEADERS_BYTES", 300)
    for kind in (b"g", b"K", b"L"):
        with pytest.raises(BrokenArchiveError, match="300 bytes"):
            members(GZIP, tar_gz((extension(kind, b"a" * 100) + header(".b")) * 4))


def test_overlong_tar_names_fail_and_are_not_kept_in_memory() -> None:
    rng = random.Random(5)
    size = 100 * KIB
    entries = [extension(b"L", rng.randbytes(size // 2).hex().encode()) + header("a.txt") for _ in range(80)]

    def peak(n: int) -> int:
        body = tar_gz(*entries[:n])
        tracemalloc.start()
        for member in Archive(io.BytesIO(body), GZIP, SETTINGS):
            assert "more than 1,024 characters" in str(member.refusal)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak_bytes

    few, many = peak(20), peak(80)
    assert many < few + MIB, "memory grows with 6 MiB more of names"


def central(name: bytes, crc: int, packed: int, size: int, offset: int) -> bytes:
    """Build an entry of the central directory of a zip archive."""
    return (
        b"PK\x01\x02"
        + struct.pack("<HHHHHHLLL", 20, 20, 0x800, zlib.DEFLATED, 0, 0x21, crc, packed, size)
        + struct.pack("<HHHHHLL", len(name), 0, 0, 0, 0, 0, offset)
        + name
    )


def local(name: bytes, crc: int, packed: int, size: int, n_name: int, n_extra: int = 0) -> bytes:
    """Build the local header of a file in a zip archive."""
    fields = struct.pack("<HHHHHLLL", 20, 0x800, zlib.DEFLATED, 0, 0x21, crc, packed, size)
    return b"PK\x03\x04" + fields + struct.pack("<HH", n_name, n_extra) + name


def zip_of(content: bytes, directory: list[bytes]) -> bytes:
    entries = b"".join(directory)
    n = len(directory)
    return (
        content + entries + b"PK\x05\x06" + struct.pack("<HHHHLLH", 0, 0, n, n, len(entries), len(content), 0)
    )


def test_overlong_zip_name_fails() -> None:
    body = zip_of(b"", [central(b"x" * 60_000 + b"%d" % n, 0, 0, 0, 0) for n in range(3)])
    refused = members(ZIP, body)
    assert len(refused) == 3
    assert all("more than 1,024 characters" in str(member.refusal) for member in refused)


def overlapping_with_wrong_checksums(n: int) -> bytes:
    """Build a zip whose files share the bytes of the last one and have wrong checksums.

    See `overlapping` in test_http_archives.
    """
    text = bytes(2 * MIB)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(text) + packer.flush()
    # Each file is within the allowed ratio.
    content, size = packed + bytes(len(text) // 150 - len(packed)), len(text)
    entries: list[tuple[bytes, int, int, int]] = []
    for number in range(n):
        name = b"%05d" % number
        head = local(name, 1, len(content), size, len(name))
        entries.append((name, len(content), size, len(content) + len(head)))
        content, size = head + content, size + len(head)
        if number < n - 1:
            content = b"\0" + struct.pack("<HH", len(head), len(head) ^ 0xFFFF) + content
    return zip_of(
        content,
        [central(name, 1, packed, size, len(content) - end) for name, packed, size, end in entries],
    )


def test_damaged_files_count_toward_the_ratio() -> None:
    """Each file is unpacked before its checksum fails: 2 MiB for about a hundred bytes."""
    body = overlapping_with_wrong_checksums(300)
    assert len(body) < 64 * KIB
    with pytest.raises(ArchiveTooLargeError, match="over 200 times"):
        members(ZIP, body)


def test_zip_entries_that_share_a_header_are_refused() -> None:
    """2,000 entries share one local header with a name and an extra field of 64 KiB each."""
    shared = local(b"", 0, 10, 10, 0xFFFF, 0xFFFF) + bytes(2 * 0xFFFF)
    body = zip_of(shared, [central(b"%06d" % n, 0, 10, 10, 0) for n in range(2000)])
    with pytest.raises(ArchiveTooLargeError, match="share bytes"):
        members(ZIP, body)


# Archives of ordinary tools: the result must equal that of `tarfile`.

NAMES = st.lists(
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1, max_size=120),
    min_size=1,
    max_size=4,
).map("/".join)
TYPES = st.sampled_from(
    [tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE]
)
FILES = st.lists(st.tuples(NAMES, TYPES, st.binary(max_size=1500)), min_size=1, max_size=6)


@given(
    files=FILES,
    form=st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
    cuts=st.lists(st.integers(0, 20_000), max_size=3),
)
def test_tar_reader_agrees_with_the_standard_library(
    files: list[tuple[str, bytes, bytes]], form: int, cuts: list[int]
) -> None:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w", format=form, pax_headers={"comment": "x" * 700}) as archive:
        for name, kind, content in files:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "target/" * 30
            info.size = len(content) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(content) if info.isreg() else None)
    plain = body.getvalue()
    body.seek(0)
    with tarfile.open(fileobj=body) as archive:
        expected = [
            (info.name, info.isdir(), content.read() if (content := archive.extractfile(info)) else None)
            for info in archive
            if info.isreg() or info.isdir()
        ]
    # A gzip file may have several members, and zeros after them.
    edges = sorted({0, len(plain), *(cut for cut in cuts if cut < len(plain))})
    pieces = [plain[start:end] for start, end in itertools.pairwise(edges)]
    packed = b"".join(gzip.compress(piece, 1) for piece in pieces) + bytes(700)
    entries = Tar(Inflated(io.BytesIO(packed), lambda *_: None))
    actual = [
        (
            entry.name.rstrip("/") if entry.kind is Kind.folder else entry.name,
            entry.kind is Kind.folder,
            entries.content() if entry.kind is Kind.file else None,
        )
        for entry in entries
        if entry.kind in (Kind.file, Kind.folder)
    ]
    assert actual == expected


def test_number_of_gzip_members_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflating, "MAX_MEMBERS", 5)
    body = tar_gz(header(".a"))
    assert members(GZIP, gzip.compress(b"") * 4 + body) == []
    with pytest.raises(BrokenArchiveError, match="more than 5 members"):
        members(GZIP, gzip.compress(b"") * 5 + body)
