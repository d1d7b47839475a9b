"""Writes compound files (OLE), as old Office and Outlook do: small workbooks and messages for tests."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

Streams = Mapping[str, "bytes | Streams"]
"""Streams and storages by name."""

SECTOR, MINI, CUTOFF = 512, 64, 4096
END, FREE, FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
ROOT, STORAGE, STREAM = 5, 1, 2


def compound(streams: Streams) -> bytes:
    """Return a compound file with these streams."""
    entries: list[list[int | bytes | str]] = [["Root Entry", ROOT, FREE, b""]]
    _add(entries, 0, streams)
    minis, mini_fat = bytearray(), []
    sectors, fat = bytearray(), []
    starts = []

    def store(data: bytes, size: int, into: bytearray, chain: list[int]) -> int:
        if not data:
            return END
        first, n = len(chain), -(-len(data) // size)
        chain += [*range(first + 1, first + n), END]
        into += data.ljust(n * size, b"\0")
        return first

    for _, kind, _, data, *_ in entries:
        assert isinstance(data, bytes)
        if kind == STREAM and len(data) < CUTOFF:
            starts.append(store(data, MINI, minis, mini_fat))
        else:
            starts.append(store(data, SECTOR, sectors, fat) if kind == STREAM else 0)
    starts[0] = store(bytes(minis), SECTOR, sectors, fat)
    mini_start = store(struct.pack(f"<{len(mini_fat)}I", *mini_fat), SECTOR, sectors, fat)
    directory = b"".join(
        _entry(entry, start, len(minis)) for entry, start in zip(entries, starts, strict=True)
    )
    directory_start = store(directory, SECTOR, sectors, fat)
    n_fat = -(-(len(fat) + 4) // 128)
    first_fat = len(fat)
    fat += [FAT] * n_fat
    fat += [FREE] * (n_fat * 128 - len(fat))
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    head += struct.pack("<HHHHH6xIII", 0x3E, 3, 0xFFFE, 9, 6, 0, n_fat, directory_start)
    head += struct.pack("<III", 0, CUTOFF, mini_start) + struct.pack("<III", -(-len(mini_fat) // 128), END, 0)
    places = [*range(first_fat, first_fat + n_fat)]
    head += struct.pack("<109I", *places, *[FREE] * (109 - n_fat))
    return head + bytes(sectors) + struct.pack(f"<{len(fat)}I", *fat)


def _add(entries: list[list[int | bytes | str]], parent: int, streams: Streams) -> None:
    """Add entries of a storage; those of one storage are a list by their right siblings."""
    last = None
    for name, value in streams.items():
        here = len(entries)
        if last is None:
            entries[parent][2] = here
        else:
            entries[last].append(here)
        is_stream = isinstance(value, bytes)
        entries.append([name, STREAM if is_stream else STORAGE, FREE, value if is_stream else b""])
        if not isinstance(value, bytes):
            _add(entries, here, value)
        last = here


def _entry(entry: list[int | bytes | str], start: int, n_minis: int) -> bytes:
    name, kind, child, data, *right = entry
    assert isinstance(name, str)
    assert isinstance(data, bytes)
    encoded = name.encode("utf-16-le")
    size = n_minis if kind == ROOT else len(data)
    return (
        encoded.ljust(64, b"\0")
        + struct.pack("<HBB", len(encoded) + 2, kind, 1)
        + struct.pack("<III", FREE, right[0] if right else FREE, child)
        + bytes(36)
        + struct.pack("<IQ", start, size)
    )


def xls(sheets: Mapping[str, list[list[str | float]]], *, is_encrypted: bool = False) -> bytes:
    """Return a workbook of Excel 97."""
    bodies = [_sheet(rows) for rows in sheets.values()]
    head = _record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0005, 0, 0, 0, 6))
    if is_encrypted:
        head += _record(0x2F, b"\1\0\1\0\1\0")
    bounds = [_record(0x85, struct.pack("<IBBBB", 0, 0, 0, len(name), 0) + name.encode()) for name in sheets]
    at = len(head) + sum(map(len, bounds)) + 4
    for name, body in zip(sheets, bodies, strict=True):
        # The place of a sheet is known only now.
        head += _record(0x85, struct.pack("<IBBBB", at, 0, 0, len(name), 0) + name.encode())
        at += len(body)
    return compound({"Workbook": head + _record(0x0A, b"") + b"".join(bodies)})


def _sheet(rows: list[list[str | float]]) -> bytes:
    cells = b""
    for r, row in enumerate(rows):
        for c, value in enumerate(row):
            if isinstance(value, str):
                text = value.encode("utf-16-le")
                cells += _record(0x0204, struct.pack("<HHHHB", r, c, 0, len(value), 1) + text)
            else:
                cells += _record(0x0203, struct.pack("<HHHd", r, c, 0, value))
    return _record(0x0809, struct.pack("<HHHHII", 0x0600, 0x0010, 0, 0, 0, 6)) + cells + _record(0x0A, b"")


def _record(kind: int, data: bytes) -> bytes:
    return struct.pack("<HH", kind, len(data)) + data


def msg(
    fields: Mapping[str, Any],
    *,
    files: Mapping[str, bytes] | None = None,
    inner: Mapping[str, Any] | None = None,
    encoding: str = "",
    code_page: int = 0,
) -> bytes:
    """Return a message of Outlook. `encoding`: of texts in bytes; else they are in UTF-16."""
    return compound(_message({**fields, "files": files or {}, "inner": inner}, encoding, code_page, 32))


def _message(fields: Mapping[str, Any], encoding: str, code_page: int, head_bytes: int) -> dict[str, Any]:
    def text(tag: str, value: str) -> tuple[str, bytes]:
        if encoding:
            return f"__substg1.0_{tag}001E", value.encode(encoding)
        return f"__substg1.0_{tag}001F", value.encode("utf-16-le")

    def fixed(n: int, *values: tuple[int, int]) -> tuple[str, bytes]:
        rows = [struct.pack("<HHIQ", 3, tag, 6, value) for tag, value in values]
        return "__properties_version1.0", bytes(n) + b"".join(rows)

    sender = fields.get("sender", ("", ""))
    streams: dict[str, Any] = dict(
        [
            fixed(head_bytes, (0x0039, fields.get("sent", 0)), (0x3FFD, code_page)),
            text("0037", fields["subject"]),
            text("1000", fields.get("body", "")),
            text("0C1A", sender[0]),
            text("5D01", sender[1]),
        ]
    )
    if "rtf" in fields:
        streams["__substg1.0_10090102"] = fields["rtf"]
    for n, (name, address) in enumerate(fields.get("to", ())):
        streams[f"__recip_version1.0_#{n:08X}"] = dict(
            [fixed(8, (0x0C15, 1)), text("3001", name), text("3003", address)]
        )
    attached: list[dict[str, Any]] = [
        dict([fixed(8), text("3707", name), ("__substg1.0_37010102", data)])
        for name, data in fields.get("files", {}).items()
    ]
    if message := fields.get("inner"):
        attached.insert(
            0, dict([fixed(8), ("__substg1.0_3701000D", _message(message, encoding, code_page, 24))])
        )
    for n, streams_of in enumerate(attached):
        streams[f"__attach_version1.0_#{n:08X}"] = streams_of
    return streams
