"""Archives as uploads: every file becomes an item; invalid entries fail or are skipped."""

from __future__ import annotations

import gzip
import io
import random
import stat
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Worker, assert_problem

from shoal.conversion import archives
from shoal.engine import Engine
from shoal.settings import Settings
from shoal.support.byte_units import KIB, MIB
from shoal_api import create_app

BULK = f"{API}/documents/bulk"
ZIP, GZIP = "application/zip", "application/gzip"

Files = dict[str, bytes]


def zipped(files: Files, change: Callable[[zipfile.ZipInfo], None] | None = None) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            if change is not None:
                change(info)
            archive.writestr(info, data)
    return body.getvalue()


def tarred(files: Files, change: Callable[[tarfile.TarInfo], None] | None = None) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if change is not None:
                change(info)
            archive.addfile(info, io.BytesIO(data) if info.size else None)
    return body.getvalue()


PACKERS = pytest.mark.parametrize(("kind", "pack"), [(ZIP, zipped), (GZIP, tarred)], ids=["zip", "tar.gz"])
Pack = Callable[[Files], bytes]


def send(client: FlaskClient, kind: str, body: bytes, **fields: Any) -> Any:
    return client.post(BULK, data=body, content_type=kind, query_string=fields)


def outcome(client: FlaskClient, response: Any) -> dict[str, str | None]:
    """Return the error of each item by its path or title; None for an accepted item."""
    assert response.status_code == 202, response.get_data(as_text=True)
    job = response.get_json()["job"]["id"]
    items = client.get(f"{API}/jobs/{job}/items?limit=1000").get_json()["items"]
    return {item["source_path"] or item["title"]: item["error"] for item in items}


def assert_nothing_is_stored(engine: Engine) -> None:
    with engine.database.snapshot() as snapshot:
        for table in ("jobs", "job_items", "job_item_contents"):
            assert snapshot.value(f"SELECT COUNT(*) FROM {table}") == 0


@PACKERS
def test_every_file_becomes_a_document_with_its_archive_path(
    client: FlaskClient, worker: Worker, kind: str, pack: Pack
) -> None:
    body = pack({"notes/fire.md": VOLCANO.encode(), "notes/grün.txt": FLOWER.encode(), "law": LAW.encode()})
    response = send(client, kind, body, tags="a, b", metadata='{"from": "archive"}')
    worker.work()
    assert outcome(client, response) == {"notes/fire.md": None, "notes/grün.txt": None, "law": None}
    documents = client.get(f"{API}/documents").get_json()["documents"]
    assert [(d["source_path"], d["title"], d["format"]) for d in documents] == [
        ("notes/fire.md", "Fire", "markdown"),
        ("notes/grün.txt", "Grün", "plaintext"),
        ("law", "Law", "plaintext"),
    ]
    assert all(d["tags"] == ["a", "b"] and d["metadata"] == {"from": "archive"} for d in documents)


def test_utf8_name_without_the_zip_flag_is_decoded(client: FlaskClient) -> None:
    body = zipped({"grün.txt": FLOWER.encode()})
    unmarked = bytearray(body)
    for signature, offset in ((b"PK\x03\x04", 7), (b"PK\x01\x02", 9)):
        unmarked[unmarked.index(signature) + offset] &= ~0x08
    assert list(outcome(client, send(client, ZIP, bytes(unmarked)))) == ["grün.txt"]


@PACKERS
def test_bad_file_fails_by_name_and_other_files_are_stored(
    client: FlaskClient, worker: Worker, kind: str, pack: Pack
) -> None:
    bad = {
        "empty.txt": b"",
        "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40,
        "blank.md": b"  \n",
    }
    response = send(client, kind, pack({"a.txt": VOLCANO.encode(), **bad, "z.txt": LAW.encode()}))
    worker.work()
    errors = outcome(client, response)
    assert list(errors) == ["a.txt", *bad, "z.txt"]
    assert errors["a.txt"] is errors["z.txt"] is None
    assert all(errors[name] for name in bad)


@PACKERS
def test_folders_hidden_files_and_system_files_are_skipped_and_counted(
    client: FlaskClient, kind: str, pack: Pack
) -> None:
    junk = [
        ".hidden.txt", "notes/.git/config", "__MACOSX/notes/._a.txt", "notes/.DS_Store", "Thumbs.db",
        "notes/desktop.ini", "$RECYCLE.BIN/x.txt", "./._b.txt", "notes/Icon\r",
    ]  # fmt: skip
    kept = ["./notes/a.txt", "icon", "notes/a.b.txt"]
    files = {name: f"{VOLCANO} {name}".encode() for name in [*junk, *kept]}
    body = pack(files)
    if kind == ZIP:
        extended = io.BytesIO(body)
        with zipfile.ZipFile(extended, "a") as archive:
            archive.mkdir("notes")
        body = extended.getvalue()
    response = send(client, kind, body)
    assert sorted(outcome(client, response)) == ["icon", "notes/a.b.txt", "notes/a.txt"]
    progress = response.get_json()["job"]["progress"]
    assert progress["total"] == 3
    assert progress["skipped"] == len(junk) + (kind == ZIP)


@PACKERS
def test_archive_without_documents_reports_skipped_entries(
    client: FlaskClient, engine: Engine, kind: str, pack: Pack
) -> None:
    problem = assert_problem(send(client, kind, pack({".a": b"x", "b/.c": b"x"})), 422, "documents")
    assert "2 entries" in problem["errors"]["documents"][0]
    problem = assert_problem(send(client, kind, pack({})), 422, "documents")
    assert problem["errors"]["documents"] == ["this upload contains no documents"]
    assert_nothing_is_stored(engine)


@PACKERS
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../etc/passwd", "points outside the archive"),
        ("notes/../../secret.txt", "points outside the archive"),
        ("..\\windows.txt", "points outside the archive"),
        ("../.ssh/key", "points outside the archive"),
        ("/etc/passwd", "absolute name"),
        ("\\\\server\\share.txt", "absolute name"),
        ("C:\\boot.txt", "absolute name"),
        ("c:boot.txt", "absolute name"),
        ("inner.zip", "is an archive itself"),
        ("inner.tar.gz", "is an archive itself"),
        ("INNER.7Z", "is an archive itself"),
    ],
)
def test_unsafe_name_fails_as_an_item(
    client: FlaskClient, kind: str, pack: Pack, name: str, reason: str
) -> None:
    errors = outcome(client, send(client, kind, pack({"a.txt": VOLCANO.encode(), name: FLOWER.encode()})))
    assert errors.pop("a.txt") is None
    ((shown, error),) = errors.items()
    assert shown == name.replace("\\", "/").replace("//", "/")
    assert error is not None
    assert reason in error


@PACKERS
@pytest.mark.parametrize(
    "inner",
    [zipped({"a": b"a"}), tarred({"a": b"a"}), gzip.decompress(tarred({"a": b"a"}))],
    ids=["zip", "tar.gz", "tar"],
)
def test_nested_archive_under_another_name_is_recognized(
    client: FlaskClient, kind: str, pack: Pack, inner: bytes
) -> None:
    errors = outcome(client, send(client, kind, pack({"a.txt": VOLCANO.encode(), "innocent.txt": inner})))
    assert "is an archive itself" in str(errors["innocent.txt"])


@PACKERS
def test_first_of_several_files_with_the_same_name_is_accepted(
    client: FlaskClient, kind: str, pack: Pack
) -> None:
    body = pack({"a.txt": VOLCANO.encode(), "./a.txt": FLOWER.encode(), "x//a.txt": LAW.encode()})
    response = send(client, kind, body)
    job = response.get_json()["job"]["id"]
    items = client.get(f"{API}/jobs/{job}/items").get_json()["items"]
    assert [item["source_path"] for item in items] == ["a.txt", "a.txt", "x/a.txt"]
    assert [bool(item["error"]) for item in items] == [False, True, False]
    assert "more than once" in items[1]["error"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(stat.S_IFLNK, "is a link"), (stat.S_IFCHR, "is a device"), (stat.S_IFBLK, "is a device"),
     (stat.S_IFIFO, "is not a regular file"), (stat.S_IFSOCK, "is not a regular file")],
)  # fmt: skip
def test_links_and_devices_in_a_zip_fail_as_items(client: FlaskClient, kind: int, reason: str) -> None:
    def change(info: zipfile.ZipInfo) -> None:
        info.external_attr = ((kind if info.filename == "special" else stat.S_IFREG) | 0o644) << 16

    errors = outcome(
        client, send(client, ZIP, zipped({"special": b"/etc/passwd", "a.txt": LAW.encode()}, change))
    )
    assert errors["a.txt"] is None
    assert reason in str(errors["special"])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(tarfile.SYMTYPE, "is a link"), (tarfile.LNKTYPE, "is a link"), (tarfile.CHRTYPE, "is a device"),
     (tarfile.BLKTYPE, "is a device"), (tarfile.FIFOTYPE, "is not a regular file"),
     (b"Z", "is not a regular file"), (tarfile.CONTTYPE, None)],
)  # fmt: skip
def test_links_and_devices_in_a_tar_fail_as_items(
    client: FlaskClient, kind: bytes, reason: str | None
) -> None:
    def change(info: tarfile.TarInfo) -> None:
        if info.name == "special":
            info.type, info.linkname = kind, "/etc/passwd"
            info.size = 0 if reason else info.size

    errors = outcome(
        client, send(client, GZIP, tarred({"special": FLOWER.encode(), "a.txt": LAW.encode()}, change))
    )
    assert errors["a.txt"] is None
    assert errors["special"] is None if reason is None else reason in str(errors["special"])


def test_sparse_file_in_a_tar_fails(client: FlaskClient) -> None:
    """A sparse file could claim any size with a few bytes."""

    def change(info: tarfile.TarInfo) -> None:
        info.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": "5000"}

    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("holes.txt")
        change(info)
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
        plain = tarfile.TarInfo("a.txt")
        plain.size = len(LAW)
        archive.addfile(plain, io.BytesIO(LAW.encode()))
    errors = outcome(client, send(client, GZIP, body.getvalue()))
    assert errors["a.txt"] is None
    assert "is not a regular file" in str(errors["holes.txt"])


def test_encrypted_file_fails_by_name(client: FlaskClient) -> None:
    body = bytearray(zipped({"secret.txt": FLOWER.encode(), "a.txt": LAW.encode()}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        body[body.index(signature) + offset] |= 1
    errors = outcome(client, send(client, ZIP, bytes(body)))
    assert errors["a.txt"] is None
    assert "encrypted" in str(errors["secret.txt"])


def test_unknown_compression_method_fails_by_name(client: FlaskClient) -> None:
    body = bytearray(zipped({"odd.txt": FLOWER.encode(), "a.txt": LAW.encode()}))
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        body[body.index(signature) + offset] = 97
    errors = outcome(client, send(client, ZIP, bytes(body)))
    assert errors["a.txt"] is None
    assert "uses a compression method" in str(errors["odd.txt"])


def test_damaged_file_in_a_zip_fails_and_other_files_are_accepted(client: FlaskClient) -> None:
    body = bytearray(zipped({"broken.txt": FLOWER.encode() * 20, "a.txt": LAW.encode()}))
    body[60] ^= 0xFF
    errors = outcome(client, send(client, ZIP, bytes(body)))
    assert errors["a.txt"] is None
    assert "damaged" in str(errors["broken.txt"])


@PACKERS
def test_file_over_the_limit_fails_and_other_files_are_accepted(
    settings: Settings, engine: Engine, kind: str, pack: Pack
) -> None:
    client = create_app(replace(settings, max_document_bytes=1000), engine=engine).test_client()
    errors = outcome(
        client, send(client, kind, pack({"big.txt": ("Magma. " * 143).encode(), "a.txt": LAW.encode()}))
    )
    assert errors["a.txt"] is None
    assert "1,001 bytes; the limit is 1,000" in str(errors["big.txt"])


def test_file_larger_than_its_declared_size_fails(client: FlaskClient) -> None:
    body = bytearray(zipped({"liar.txt": FLOWER.encode() * 50, "a.txt": LAW.encode()}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = body.index(signature) + offset
        body[at : at + 4] = struct.pack("<L", 100)
    errors = outcome(client, send(client, ZIP, bytes(body)))
    assert errors["a.txt"] is None
    assert errors["liar.txt"] is not None


def test_zip_bomb_fails_as_an_item(client: FlaskClient) -> None:
    errors = outcome(client, send(client, ZIP, zipped({"bomb.txt": b"a" * (8 * MIB), "a.txt": LAW.encode()})))
    assert errors["a.txt"] is None
    assert "the limit is 200 times" in str(errors["bomb.txt"])


def overlapping(text: bytes, n: int) -> bytes:
    """Build a zip in which every file contains the local header and the data of the next one.

    The bytes of the last file are stored once and belong to all files. See
    David Fifield, "A better zip bomb", 2019.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed, plain = packer.compress(text) + packer.flush(), text
    entries: list[tuple[bytes, int, bytes]] = []
    for number in range(n):
        name = b"%05d" % number
        sizes = struct.pack("<LLL", zlib.crc32(plain), len(packed), len(plain))
        fields = struct.pack("<HHHHH", 20, 0, zipfile.ZIP_DEFLATED, 0, 0x21) + sizes
        header = b"PK\x03\x04" + fields + struct.pack("<HH", len(name), 0) + name
        whole = header + packed
        entries.append((fields, len(whole), name))
        # A stored (uncompressed) block holds the header.
        packed = b"\0" + struct.pack("<HH", len(header), len(header) ^ 0xFFFF) + whole
        plain = header + plain
    directory = b"".join(
        b"PK\x01\x02" + struct.pack("<H", 20) + fields
        + struct.pack("<HHHHHLL", len(name), 0, 0, 0, 0, 0, len(whole) - from_end) + name
        for fields, from_end, name in entries
    )  # fmt: skip
    end = struct.pack("<HHHHLLH", 0, 0, n, n, len(directory), len(whole), 0)
    return whole + directory + b"PK\x05\x06" + end


def test_zip_whose_files_share_bytes_is_refused(client: FlaskClient, engine: Engine) -> None:
    """Each file is within the allowed ratio; together they are not."""
    text = "".join(f"The volcano {n} erupts. " for n in range(20_000)).encode()
    response = send(client, ZIP, overlapping(text, 90))
    if response.status_code == 202:
        # Later versions of `zipfile` detect the overlap and unpack none of these files.
        refused = [error for error in outcome(client, response).values() if error]
        assert len(refused) >= 89
        assert all("damaged" in error for error in refused)
    else:
        problem = assert_problem(response, 413)
        assert any(reason in problem["detail"] for reason in ("share bytes", "times its size"))
        assert_nothing_is_stored(engine)


def test_tar_bomb_is_refused_as_a_whole(client: FlaskClient, engine: Engine) -> None:
    body = tarred({"a.txt": LAW.encode(), "bomb.txt": b"a" * (8 * MIB)})
    problem = assert_problem(send(client, GZIP, body), 413)
    assert "over 200 times" in problem["detail"]
    assert_nothing_is_stored(engine)


@PACKERS
def test_archive_that_unpacks_over_the_upload_limit_is_refused(
    settings: Settings, engine: Engine, kind: str, pack: Pack
) -> None:
    client = create_app(replace(settings, max_upload_bytes=100 * KIB), engine=engine).test_client()
    files = {f"{n}.txt": f"{n} {VOLCANO}".encode() * 100 for n in range(20)}
    problem = assert_problem(send(client, kind, pack(files)), 413)
    assert "102,400 bytes" in problem["detail"]
    assert_nothing_is_stored(engine)


@PACKERS
def test_too_many_files_and_too_many_entries_are_refused(
    settings: Settings, engine: Engine, kind: str, pack: Pack
) -> None:
    client = create_app(replace(settings, max_upload_items=3), engine=engine).test_client()
    files = {f"{n}.txt": f"{n} {VOLCANO}".encode() for n in range(7)}
    assert_problem(send(client, kind, pack(files)), 413)
    assert_problem(send(client, kind, pack({f".{name}": data for name, data in files.items()})), 413)
    assert_nothing_is_stored(engine)


@PACKERS
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_truncated_archive_stores_nothing(
    client: FlaskClient, engine: Engine, kind: str, pack: Pack, part: float
) -> None:
    rng = random.Random(7)
    files = {f"{n}.txt": bytes(rng.choices(b"abcdefgh \n", k=3000)) for n in range(30)}
    body = pack(files)
    problem = assert_problem(send(client, kind, body[: int(part * len(body))]), 400)
    assert "truncated" in problem["detail"]
    assert_nothing_is_stored(engine)


def test_truncated_tar_in_a_complete_gzip_is_refused(client: FlaskClient, engine: Engine) -> None:
    plain = gzip.decompress(tarred({"a.txt": LAW.encode() * 20, "b.txt": FLOWER.encode() * 20}))
    for size in (700, 1300, 4600):
        problem = assert_problem(send(client, GZIP, gzip.compress(plain[:size])), 400)
        assert "truncated" in problem["detail"]
    assert_nothing_is_stored(engine)


def test_tar_with_a_damaged_header_is_refused(client: FlaskClient, engine: Engine) -> None:
    plain = bytearray(gzip.decompress(tarred({"a.txt": LAW.encode(), "b.txt": FLOWER.encode()})))
    plain[1024 + 10] ^= 1
    assert_problem(send(client, GZIP, gzip.compress(bytes(plain))), 400)
    assert_nothing_is_stored(engine)


def test_gzip_with_a_wrong_checksum_is_refused(client: FlaskClient, engine: Engine) -> None:
    body = bytearray(tarred({"a.txt": LAW.encode()}))
    body[-6] ^= 1
    assert_problem(send(client, GZIP, bytes(body)), 400)
    assert_nothing_is_stored(engine)


@pytest.mark.parametrize("kind", [ZIP, GZIP])
@pytest.mark.parametrize(
    "body",
    [b"", b"not an archive", b"PK\x05\x06" + b"\xff" * 18, b"\x1f\x8b\x08", gzip.compress(b"a text", mtime=0),
     gzip.compress(b"", mtime=0), gzip.compress(b"x" * 600, mtime=0), b"PK\x03\x04" * 100, bytes(10_240)],
)  # fmt: skip
def test_body_that_is_not_an_archive_is_refused(
    client: FlaskClient, engine: Engine, kind: str, body: bytes
) -> None:
    assert_problem(send(client, kind, body), 400)
    assert_nothing_is_stored(engine)


def test_random_damage_raises_only_archive_errors(settings: Settings) -> None:
    rng = random.Random(11)
    files = {f"n/{n}.txt": f"{n} {VOLCANO}".encode() for n in range(4)}
    bodies = [(ZIP, zipped(files)), (GZIP, gzip.decompress(tarred(files)))]
    n_read = n_refused = 0
    for n in range(1500):
        kind, whole = bodies[n % 2]
        body = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            body[rng.randrange(len(body))] = rng.choice((0, 255, rng.randrange(256)))
        packed = bytes(body) if kind == ZIP else gzip.compress(bytes(body), 1)
        try:
            n_read += sum(
                member.refusal is None for member in archives.Archive(io.BytesIO(packed), kind, settings)
            )
        except (archives.BrokenArchiveError, archives.ArchiveTooLargeError):
            n_refused += 1
    assert n_read > 500
    assert n_refused > 100


def huge_header(kind: bytes) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, 3 * MIB
    rng = random.Random(3)
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(rng.choices(b"0123456789=\n ", k=3 * MIB))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_huge_header_is_refused(client: FlaskClient, kind: bytes) -> None:
    problem = assert_problem(send(client, GZIP, gzip.compress(huge_header(kind))), 400)
    assert "header of the archive is too large" in problem["detail"]


def test_nested_headers_are_limited(client: FlaskClient) -> None:
    info = tarfile.TarInfo("x")
    info.type = tarfile.GNUTYPE_LONGNAME
    info.size = 1
    block = info.tobuf(tarfile.GNU_FORMAT) + b"a" + bytes(511)
    assert_problem(send(client, GZIP, gzip.compress(block * 900)), 400)


def test_negative_size_is_refused(client: FlaskClient) -> None:
    plain = bytearray(gzip.decompress(tarred({"a.txt": LAW.encode()})))
    plain[124:136] = b"\xff" * 12
    plain[148:156] = b" " * 8
    plain[148:156] = b"%06o\0 " % sum(plain[:512])
    assert_problem(send(client, GZIP, gzip.compress(bytes(plain))), 400)


def test_zip_directory_with_too_many_entries_is_refused_before_parsing(
    settings: Settings, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = create_app(replace(settings, max_upload_items=50), engine=engine).test_client()
    body = zipped({f"{n}.txt": b"x" for n in range(101)})
    monkeypatch.setattr(zipfile.ZipFile, "infolist", lambda _: pytest.fail("the directory was parsed"))
    problem = assert_problem(send(client, ZIP, body), 413)
    assert "more than 100 entries" in problem["detail"]


def test_huge_zip_directory_is_refused(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_DIRECTORY_BYTES", 1000)
    problem = assert_problem(send(client, ZIP, zipped({"x" * 1000: LAW.encode()})), 413)
    assert "directory of the archive is too large" in problem["detail"]


def test_entry_before_the_start_of_the_file_fails(client: FlaskClient) -> None:
    body = bytearray(zipped({"a.txt": LAW.encode()}))
    end = body.rindex(b"PK\x05\x06")
    (offset,) = struct.unpack_from("<L", body, end + 16)
    struct.pack_into("<L", body, end + 16, offset + 1000)
    errors = outcome(client, send(client, ZIP, bytes(body)))
    assert "damaged" in str(errors["a.txt"])


def test_tar_entries_do_not_accumulate_in_memory(settings: Settings) -> None:
    def peak(n: int) -> int:
        body = io.BytesIO(tarred({f".{i}": b"" for i in range(n)}))
        tracemalloc.start()
        assert list(archives.Archive(body, GZIP, settings)) == []
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak_bytes

    few, many = peak(500), peak(5000)
    assert many < few + MIB, "memory grows with 4,500 more entries of at least 1 KiB each"


@PACKERS
def test_same_archive_with_the_same_idempotency_key_is_one_job(
    client: FlaskClient, kind: str, pack: Pack
) -> None:
    body = pack({"a.txt": VOLCANO.encode(), ".b": b"x"})
    key = {"Idempotency-Key": "archive"}
    responses = [
        client.post(BULK, data=body, content_type=kind, headers=key, query_string={"tags": "t"})
        for _ in range(2)
    ]
    assert responses[0].get_json() == responses[1].get_json()
    assert responses[1].get_json()["job"]["progress"]["skipped"] == 1
    other = client.post(BULK, data=body, content_type=kind, headers=key, query_string={"tags": "u"})
    assert_problem(other, 409)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tag": "a"}, "tag"),
        ({"format": "pdf"}, "format"),
        ({"metadata": "[]"}, "metadata"),
        ({"tags": "x" * 65}, "tags"),
    ],
)
def test_invalid_query_parameter_returns_422(
    client: FlaskClient, engine: Engine, fields: dict[str, str], field: str
) -> None:
    assert_problem(send(client, ZIP, zipped({"a.txt": LAW.encode()}), **fields), 422, field)
    assert_nothing_is_stored(engine)


def test_query_parameters_are_refused_with_a_form(client: FlaskClient, engine: Engine) -> None:
    response = client.post(
        f"{BULK}?tags=a",
        data={"files": (io.BytesIO(LAW.encode()), "a.txt")},
        content_type="multipart/form-data",
    )
    assert_problem(response, 422, "tags")
    assert_nothing_is_stored(engine)


def test_uncompressed_tar_error_suggests_gzip(client: FlaskClient) -> None:
    problem = assert_problem(client.post(BULK, data=b"x", content_type="application/x-tar"), 415)
    assert "gzip" in problem["detail"]


@PACKERS
def test_memory_does_not_grow_with_the_archive(
    settings: Settings, engine: Engine, kind: str, pack: Pack
) -> None:
    client = create_app(replace(settings, max_document_bytes=MIB), engine=engine).test_client()

    def text(n: int) -> bytes:
        return random.Random(n).randbytes(128 * KIB).hex().encode()

    def peak(n_documents: int) -> int:
        body = pack({f"{n}.txt": text(n) for n in range(n_documents)})
        tracemalloc.start()
        response = send(client, kind, body)
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert response.get_json()["job"]["progress"]["total"] == n_documents
        return peak_bytes

    # The request body, about 100 KiB per document, is allocated before tracing starts.
    few, many = peak(20), peak(80)
    assert many < few + 8 * MIB, "memory grows with 15 MiB more of unpacked files"
