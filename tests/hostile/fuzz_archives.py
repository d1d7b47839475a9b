"""Generators of zip and tar archives with hostile names and false headers and sizes."""

from __future__ import annotations

import gzip
import io
import random
import stat
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable

from fuzz_texts import PROSE, size, text

NAMES = ["a.txt", "b.md", "a/b/c.txt", "./a.txt", "../a.txt", "/etc/passwd", "C:\\a.txt", "a\\b.txt", "", ".", "..", "/", "a//b", "a/", ".hidden", "__MACOSX/._a", "Thumbs.db", "a.zip", "a.ndjson", "é.txt", "\u202ea.txt", "\x00a", "a\x00b.txt", "a\nb.txt", "x" * 300 + ".txt", "d/" * 400 + "a.txt"]  # fmt: skip
ODD_NUMBERS = [0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
BLOCK = 512
GZIP_MAGIC = b"\x1f\x8b"


def content(rng: random.Random, largest: int) -> bytes:
    kind = rng.randrange(6)
    if kind == 0:
        return b""
    if kind == 1:
        return bytes([rng.choice((0, 65, 10))]) * size(rng, 1, 4 * largest)
    if kind == 2:
        return rng.randbytes(size(rng, 1, 4000))
    if kind == 3:
        return text(rng, largest).encode("utf-8", "replace")
    return PROSE.encode() * rng.randint(1, 20)


def name(rng: random.Random) -> str:
    return rng.choice(NAMES) if rng.random() < 0.5 else f"{rng.randrange(10_000)}.txt"


# zip


def zipped(rng: random.Random, largest: int) -> bytes:
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")
        for _ in range(size(rng, 1, 300) if rng.random() < 0.15 else rng.randint(0, 5)):
            info = zipfile.ZipInfo(name(rng) or "a.txt")
            info.compress_type = rng.choice(
                (
                    zipfile.ZIP_STORED,
                    zipfile.ZIP_DEFLATED,
                    zipfile.ZIP_DEFLATED,
                    zipfile.ZIP_BZIP2,
                    zipfile.ZIP_LZMA,
                )
            )
            info.external_attr = (
                rng.choice((0, 0, stat.S_IFLNK, stat.S_IFDIR, stat.S_IFBLK, rng.randrange(1 << 16))) << 16
            )
            info.extra = rng.choice((b"", b"", _extra(rng)))
            info.comment = b"c" * rng.choice((0, 0, size(rng, 1, 60_000)))
            archive.writestr(info, content(rng, largest // 4))
        archive.comment = rng.choice((b"", b"", b"PK\x05\x06" * 5, b"c" * 65_535))
    data = bytearray(file.getvalue())
    for _ in range(rng.choice((0, 0, 1, 1, 2, 8))):
        _lie(rng, data)
    return bytes(data)


def _extra(rng: random.Random) -> bytes:
    """Generate extra fields of a zip entry: zip64 sizes, Unicode names, and truncated fields."""
    body = rng.choice(
        (
            b"",
            struct.pack("<Q", rng.choice(ODD_NUMBERS)) * rng.randint(1, 4),
            b"\x01" + rng.randbytes(4) + b"../a.txt",
        )
    )
    return (
        struct.pack(
            "<HH",
            rng.choice((1, 1, 0x7075, rng.randrange(1 << 16))),
            rng.choice((len(body), len(body), 0, 9, 0xFFFF)),
        )
        + body
    )


def _lie(rng: random.Random, data: bytearray) -> None:
    """Overwrite a number in one of the headers."""
    mark = rng.choice((b"PK\x01\x02", b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"))
    places = [at for at in range(len(data) - 4) if data[at : at + 4] == mark] if len(data) < 200_000 else []
    if not places:
        return
    at = rng.choice(places) + rng.randrange(4, 46)
    if rng.random() < 0.5:
        lie = struct.pack("<I", rng.choice((*ODD_NUMBERS, len(data), rng.randrange(len(data)))))
    else:
        lie = struct.pack("<H", rng.choice(ODD_NUMBERS) & 0xFFFF)
    data[at : at + len(lie)] = lie


# tar


def compressed(tar: bytes) -> bytes:
    """Compress the archive with gzip unless it is already compressed."""
    return tar if tar.startswith(GZIP_MAGIC) else gzip.compress(tar, 6, mtime=0)


def tarred(rng: random.Random, largest: int) -> bytes:
    """Generate a tar archive. Most are compressed later by the target, so that mutations change the tar
    itself."""
    made = bytearray()
    for _ in range(size(rng, 1, 400) if rng.random() < 0.2 else rng.randint(0, 5)):
        made += rng.choice(ENTRIES)(rng, largest // 8)
        if len(made) > 4 * largest:
            break
    made += rng.choice(
        (b"\0" * 1024, b"\0" * 1024, b"\0" * 512, b"", b"\0" * size(rng, 1, 4 * largest), b"junk" * 300)
    )
    if rng.random() < 0.2 and made:
        for _ in range(rng.randint(1, 4)):
            made[rng.randrange(len(made))] = rng.randrange(256)
    if rng.random() < 0.85:
        return bytes(made)
    return gzip.compress(bytes(made), 6, mtime=0) + rng.choice((b"", gzip.compress(bytes(512), mtime=0)))


def header(rng: random.Random, kind: bytes, n_bytes: int, called: str, *, size_field: bytes = b"") -> bytes:
    """Make a header block that is mostly valid."""
    made = bytearray(BLOCK)
    encoded = called.encode("utf-8", "replace")[:100]
    made[: len(encoded)] = encoded
    made[100:108], made[108:116], made[116:124] = b"0000644\0", b"0000000\0", b"0000000\0"
    made[124:136] = (size_field or b"%011o\0" % n_bytes).ljust(12, b"\0")[:12]
    made[136:148] = b"%011o\0" % 0
    made[156:157] = kind
    made[257:265] = rng.choice((b"ustar\x0000", b"ustar  \0", bytes(8)))
    if rng.random() < 0.1:
        at = rng.choice((100, 108, 116, 124, 136, 329, 337, 345, 386, 482))
        made[at : at + 12] = rng.choice(
            (
                b"\x80" + b"\xff" * 11,
                b"\xff" * 12,
                b"\x80" + bytes(11),
                b"9" * 12,
                b"-1" + bytes(10),
                b" " * 12,
            )
        )
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % (sum(made) if rng.random() < 0.97 else 7)
    return bytes(made)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def _file(rng: random.Random, largest: int) -> bytes:
    data = content(rng, largest)
    kind = rng.choice((b"0", b"0", b"0", b"\0", b"1", b"2", b"3", b"5", b"6", b"7", b"S", b"V", b"Z"))
    sized = rng.choice(
        (
            b"",
            b"",
            b"",
            b"%011o" % (len(data) + 512),
            b"77777777777\0",
            b"\x80" + bytes(3) + b"\xff" * 8,
            b"\xff" * 12,
        )
    )
    return header(rng, kind, len(data), name(rng), size_field=sized) + padded(data)


def _plain_file(rng: random.Random, largest: int) -> bytes:
    data = content(rng, largest)
    return header(rng, b"0", len(data), name(rng)) + padded(data)


def _long_name(rng: random.Random, largest: int) -> bytes:
    """Generate a GNU long name or long link entry; several may follow one another."""
    called = (rng.choice("ab/.") * size(rng, 1, largest)).encode() + b"\0"
    return header(rng, rng.choice((b"L", b"K")), len(called), "././@LongLink") + padded(called)


def record(key: str, value: str) -> bytes:
    """Make a record of a pax header, preceded by its length."""
    body = f" {key}={value}\n".encode("utf-8", "replace")
    length = len(body) + 1
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


def _pax(rng: random.Random, largest: int) -> bytes:
    keys = [
        "path",
        "linkpath",
        "size",
        "mtime",
        "uid",
        "uname",
        "hdrcharset",
        "GNU.sparse.major",
        "GNU.sparse.minor",
        "GNU.sparse.map",
        "GNU.sparse.size",
        "GNU.sparse.realsize",
        "GNU.sparse.name",
        "GNU.sparse.numblocks",
        "GNU.sparse.offset",
        "x",
    ]
    values = [
        "",
        "a.txt",
        "../a.txt",
        "0",
        "1",
        "-1",
        "1e999",
        "nan",
        "0x10",
        "9" * 30,
        "9" * 5000,
        "BINARY",
        "1,2,3",
        "0,1," * 50,
        "x" * size(rng, 1, largest),
        "\u0661",
        " 1 ",
    ]
    kind = rng.randrange(8)
    if kind == 0:
        body = rng.choice((b"9", b"0", b"1 ", b"1", b"12 a")) * size(rng, 1, largest)
    elif kind == 1:
        body = record("x", "y") * size(rng, 1, largest // 8 + 2)
    else:
        body = b"".join(record(rng.choice(keys), rng.choice(values)) for _ in range(rng.randint(0, 6)))
    return header(rng, rng.choice((b"x", b"x", b"g", b"g", b"X")), len(body), "pax") + padded(body)


def _sparse(rng: random.Random, largest: int) -> bytes:
    """Generate a sparse file in the old GNU format, whose map continues in extra blocks."""
    made = bytearray(header(rng, b"S", 0, "s.txt"))
    made[482] = 1
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made)
    more = (b"%011o\0%011o\0" % (0, 0)) * 21 + b"\x01" + bytes(7)
    return bytes(made) + more * size(rng, 1, max(2, largest // BLOCK))


ENTRIES: tuple[Callable[[random.Random, int], bytes], ...] = (_plain_file, _plain_file, _file, _file, _long_name, _pax, _pax, _sparse)  # fmt: skip


# Archives that once caused a fault


def endless_file() -> bytes:
    """Make a header of a file larger than any disk, without its content."""
    entry = tarfile.TarInfo("a.txt")
    entry.size = 2**62
    return entry.tobuf(tarfile.GNU_FORMAT)


def cut_sparse_file() -> bytes:
    """Make a sparse file whose map should continue after its header, where the archive ends."""
    entry = tarfile.TarInfo("a.txt")
    entry.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    block[482] = 1
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def long_names(n: int) -> bytes:
    """Make entries without content, each with a name of half a MiB, which gzip shrinks to a hundredth."""
    rng = random.Random(1)
    names = (rng.randbytes(2000).hex() * 128 for _ in range(n))
    return gzip.compress(
        b"".join(tarfile.TarInfo(member_name).tobuf(tarfile.GNU_FORMAT) for member_name in names)
        + bytes(1024),
        1,
        mtime=0,
    )


def global_headers(n: int, n_members: int) -> bytes:
    """Make global headers followed by members; reading each member visits all global headers."""
    records = b"".join(record(f"k{i}", "v") for i in range(n))
    header = tarfile.TarInfo("g")
    header.type, header.size = tarfile.XGLTYPE, len(records)
    members = (tarfile.TarInfo(f"{i}.txt").tobuf(tarfile.USTAR_FORMAT) for i in range(n_members))
    return header.tobuf(tarfile.USTAR_FORMAT) + padded(records) + b"".join(members) + bytes(1024)
