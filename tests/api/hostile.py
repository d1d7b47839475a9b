"""Hostile requests and the expected responses.

A case consists of the bytes of a request, the expected status, and a text that the error must contain. With
status 202, the request is well formed, but a document in it is not; the text is in the error of that item.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from running import request
from surface import API

MIB = 1 << 20
MAX_ITEMS = 1000
"""Setting of the service under test: maximal number of documents in an upload."""

DOCUMENTS, BULK, SEARCH, JOBS = f"{API}/documents", f"{API}/documents/bulk", f"{API}/search", f"{API}/jobs"
TEXT = "Magma rises through the crust. Lava and ash pour from the crater of the volcano."


@dataclass(frozen=True)
class Hostile:
    """A case. The request is built on demand, because some are large."""

    build_request: Callable[[], bytes]
    status: int
    reason: str


CASES: dict[str, Hostile] = {}


def case(name: str, status: int, reason: str, request_bytes: bytes | Callable[[], bytes]) -> None:
    assert name not in CASES, name
    CASES[name] = Hostile(request_bytes if callable(request_bytes) else lambda: request_bytes, status, reason)


def post(
    path: str, body: bytes | str | dict[str, Any], *headers: str, kind: str = "application/json"
) -> bytes:
    if isinstance(body, dict):
        body = json.dumps(body)
    body = body.encode() if isinstance(body, str) else body
    return request(f"POST {path}", body, f"Content-Type: {kind}", *headers)


def get(path: str, *headers: str) -> bytes:
    return request(f"GET {path}", b"", *headers)


# JSON

for name, body, reason in (
    ("arrays nested too deeply", b"[" * 500_000, "nested deeper"),
    ("objects nested too deeply", b'{"a":' * 100_000, "nested deeper"),
    (
        "metadata of 65 levels",
        b'{"content": "a", "metadata": ' + b'{"a":' * 65 + b"1" + b"}" * 66,
        "nested deeper",
    ),
    (
        "a number of a million digits",
        b'{"content": "a", "metadata": {"n": ' + b"9" * 1_000_000 + b"}}",
        "too many digits",
    ),
    ("an infinite number", b'{"content": "a", "metadata": {"n": 1e999}}', "too large"),
    ("NaN", b'{"content": "a", "metadata": {"n": NaN}}', "not a JSON value"),
    ("minus infinity", b'{"content": -Infinity}', "not a JSON value"),
    ("a duplicate key", b'{"content": "a", "tags": ["x"], "tags": []}', "occurs twice"),
    ("a duplicate key in metadata", b'{"content": "a", "metadata": {"a": {"b": 1, "b": 2}}}', "occurs twice"),
    ("UTF-16", '{"content": "a"}'.encode("utf-16"), "is not UTF-8"),
    ("UTF-32 without a byte order mark", '{"content": "a"}'.encode("utf-32-le"), "is not JSON"),
    ("Latin-1", b'{"content": "caf\xe9"}', "is not UTF-8"),
    ("overlong UTF-8", b'{"content": "\xc0\xaf"}', "is not UTF-8"),
    ("half a surrogate pair as UTF-8", b'{"content": "\xed\xa0\x80"}', "is not UTF-8"),
    ("a bare NUL in a string", b'{"content": "a\x00b"}', "control character"),
    ("truncated", b'{"content": "a', "not closed"),
    ("two values", b'{"content": "a"}{"content": "b"}', "is not JSON"),
    ("a comment", b'{"content": "a" /* hidden */}', "is not JSON"),
    ("a pickle", b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00", "is not UTF-8"),
):
    case(f"JSON: {name}", 400, reason, lambda body=body: post(DOCUMENTS, body))  # type: ignore[misc]

for name, fields, reason in (
    ("half a surrogate pair in a title", {"title": "\ud800"}, "surrogate"),
    ("half a surrogate pair in a key", {"metadata": {"\udfff": 1}}, "surrogate"),
    ("a very long title", {"title": "x" * 100_000}, "title"),
    ("10,000 tags", {"tags": [str(n) for n in range(10_000)]}, "tags"),
    ("too much metadata", {"metadata": {"a": "x" * 66_000}}, "metadata"),
    ("metadata that is a list", {"metadata": [[[]]]}, "metadata"),
    ("a very long source path", {"source_path": "../" * 1000}, "source_path"),
    ("an unknown format", {"format": "application/x-php"}, "format"),
    ("a field that only responses have", {"id": 1}, "is not known"),
    ("prototype pollution", {"__proto__": {"admin": True}}, "is not known"),
    ("a field name of 100,000 letters", {"x" * 100_000: 1}, "is not known"),
    ("only NULs", {"content": "\x00" * 1000}, "content"),
    ("only white space", {"content": "\u2003\n" * 1000}, "content"),
    ("a number as content", {"content": 10**300}, "content"),
):
    fields = {"content": TEXT, **fields}  # noqa: PLW2901
    case(f"document: {name}", 422, reason, lambda fields=fields: post(DOCUMENTS, fields))  # type: ignore[misc]

case("document: over 32 MiB", 413, "limit", lambda: post(DOCUMENTS, {"content": "x" * (32 * MIB + 1)}))
case(
    "document: a declared length of 200 MB",
    413,
    "larger",
    request(f"POST {DOCUMENTS}", b"", "Content-Type: application/json", "Content-Length: 200000000"),
)

for name, fields, reason in (
    ("a query of 5,000 letters", {"query": "a" * 5000}, "query"),
    ("a blank query", {"query": " \n\t "}, "query"),
    ("a huge number of results", {"query": "a", "top_k": 10**80}, "top_k"),
    ("a fractional number of results", {"query": "a", "top_k": 0.5}, "top_k"),
    ("a huge offset", {"query": "a", "offset": 2**64}, "offset"),
    ("a document id over 63 bits", {"query": "a", "filters": {"document_ids": [2**63]}}, "document_ids"),
    ("SQL as a format", {"query": "a", "filters": {"format": "x' OR '1'='1"}}, "format"),
    ("a date out of range", {"query": "a", "filters": {"created_after": "-9999-01-01"}}, "created_after"),
    ("filters as a string", {"query": "a", "filters": "tags = 'x'"}, "filters"),
):
    case(f"search: {name}", 422, reason, lambda fields=fields: post(SEARCH, fields))  # type: ignore[misc]

case("search: a body of two mebibytes", 413, "larger", lambda: post(SEARCH, {"query": "a" * (2 * MIB)}))

# Heads

for name, kind, status, reason in (
    ("a form instead of JSON", "application/x-www-form-urlencoded", 415, "application/json"),
    ("XML", "text/xml", 415, "application/json"),
    ("UTF-7", "application/json; charset=utf-7", 415, "UTF-8"),
    ("no content type", "", 415, "application/json"),
    ("a very long content type", "application/" + "x" * 8000, 415, "application/json"),
):
    case(f"type: {name}", status, reason, post(DOCUMENTS, {"content": TEXT}, kind=kind))

case(
    "head: a body that is not compressed as it says",
    400,
    "gzip",
    post(DOCUMENTS, b'{"content": "a"}', "Content-Encoding: gzip"),
)
case(
    "head: a compressed body of zeros",
    413,
    "unpacks",
    lambda: post(SEARCH, gzip.compress(bytes(100 * MIB)), "Content-Encoding: gzip"),
)
case(
    "head: an upload in an unknown coding",
    415,
    "Content-Encoding",
    post(BULK, gzip.compress(b'{"content": "a"}'), "Content-Encoding: br", kind="application/x-ndjson"),
)
case(
    "head: a very long idempotency key",
    422,
    "Idempotency-Key",
    post(DOCUMENTS, {"content": TEXT}, "Idempotency-Key: " + "k" * 256),
)
case(
    "head: an empty idempotency key",
    422,
    "Idempotency-Key",
    post(DOCUMENTS, {"content": TEXT}, "Idempotency-Key: "),
)
case(
    "head: an idempotency key in Cyrillic",
    422,
    "Idempotency-Key",
    post(DOCUMENTS, {"content": TEXT}, "Idempotency-Key: ключ"),
)
case(
    "head: a foreign host",
    403,
    "localhost",
    get(JOBS).replace(b"Host: localhost", b"Host: evil.example"),
)
case(
    "head: a host with a user name",
    403,
    "localhost",
    get(JOBS).replace(b"Host: localhost", b"Host: localhost@evil.example"),
)
case("head: two hosts", 400, "malformed", get(JOBS, "Host: evil.example"))
case("head: no host", 400, "Host", get(JOBS).replace(b"Host: localhost\r\n", b""))
case(
    "head: a foreign origin",
    403,
    "other sites",
    post(DOCUMENTS, {"content": TEXT}, "Origin: https://evil.example"),
)
case("head: a null origin", 403, "other sites", post(DOCUMENTS, {"content": TEXT}, "Origin: null"))
case(
    "head: a cross-site request without an origin",
    403,
    "other sites",
    post(DOCUMENTS, {"content": TEXT}, "Sec-Fetch-Site: cross-site"),
)
case(
    "head: a method override",
    404,
    "no document",
    get(f"{DOCUMENTS}/1", "X-HTTP-Method-Override: DELETE"),
)
case(
    "head: a path override",
    404,
    "nothing at this URL",
    get("/nothing", "X-Original-URL: /metrics", "X-Rewrite-URL: /metrics"),
)
case("head: HTTP/2 without negotiation", 400, "malformed", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
case(
    "head: a hexadecimal length",
    400,
    "malformed",
    b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x10\r\n\r\n",
)
case(
    "head: both a length and chunks",
    400,
    "malformed",
    b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n",
)
case(
    "head: two chunked encodings",
    400,
    "malformed",
    b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
)
case(
    "head: a space before the colon",
    400,
    "malformed",
    b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
)
case("head: a very long cookie", 431, "headers", get(JOBS, "Cookie: " + "c" * 20_000))
case("head: a thousand headers", 431, "headers", get(JOBS, *(f"X-{n}: 1" for n in range(1000))))

for method, status, reason in (
    ("TRACE", 405, "method"),
    ("CONNECT", 405, "method"),
    ("PATCH", 405, "method"),
    ("PROPFIND", 405, "method"),
    ("get", 400, "malformed"),
    ("G\x00T", 400, "malformed"),
):
    case(f"method: {method!r}", status, reason, request(f"{method} {DOCUMENTS}"))


def chunked(*pieces: bytes) -> bytes:
    head = request(f"POST {BULK}", b"", "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
    return head + b"".join(pieces)


for name, pieces in (
    ("a huge size", (b"FFFFFFFFFFFFFFFFFF\r\nabc\r\n",)),
    ("a negative size", (b"-5\r\nabcde\r\n0\r\n\r\n",)),
    ("a size that is not a number", (b"five\r\nabcde\r\n0\r\n\r\n",)),
    ("more data than the size", (b"3\r\nabcdef\r\n0\r\n\r\n",)),
    ("an incomplete chunk", (b'50\r\n{"content": "a"}',)),
):
    case(f"chunks: {name}", 400, "the body", chunked(*pieces))

# Addresses

for path in (
    "/../../etc/passwd",
    "/static/../../app.py",
    "/static/%2e%2e/%2e%2e/app.py",
    "/static/..%2f..%2fapp.py",
    "/static/..%5c..%5capp.py",
    "/static/docs.css%00.html",
    "/%c0%ae%c0%ae/etc/passwd",
    f"{DOCUMENTS}/1%00",
    f"{DOCUMENTS}/1%20OR%201=1",
    f"{DOCUMENTS}/" + "9" * 400,
    f"{DOCUMENTS}/0x1",
    f"{DOCUMENTS}/%0d%0aSet-Cookie:%20a=b",
    "/api/v1/collections/main%2Fdocuments",
    f"{DOCUMENTS}/../../../metrics",
    "/.git/config",
    "/wp-login.php",
):
    case(f"address: {path[:60]}", 404, "", get(path))

case("address: very long", 414, "too long", get("/" + "a" * 9000))
case("address: not UTF-8", 400, "malformed", get(f"{DOCUMENTS}?q=").replace(b"?q=", b"?q=\xff\xfe"))
case("address: a duplicate parameter", 422, "more than once", get(f"{JOBS}?limit=1&limit=2"))
case("address: a limit with 5,000 digits", 422, "limit", get(f"{JOBS}?limit=" + "9" * 5000))
case("address: a negative offset", 422, "offset", get(f"{JOBS}?offset=-1"))
case("address: SQL as a status", 422, "status", get(f"{JOBS}?status=x'%20OR%20'1'='1"))
case("address: an infinite wait", 422, "wait", get(f"{JOBS}/1?wait=inf"))

# Uploads


def form(*parts: bytes, boundary: str = "x", end: bytes = b"--x--\r\n") -> bytes:
    body = b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + end
    return post(BULK, body, kind=f"multipart/form-data; boundary={boundary}")


def part(disposition: str, content: bytes = b"text", more: str = "") -> bytes:
    return f"Content-Disposition: {disposition}\r\n{more}\r\n".encode() + content


FILE = part('form-data; name="f"; filename="a.txt"', TEXT.encode())

case("form: no boundary", 400, "boundary", post(BULK, b"--x\r\n", kind="multipart/form-data"))
case(
    "form: an empty boundary",
    400,
    "boundary",
    post(BULK, b"----\r\n", kind='multipart/form-data; boundary=""'),
)
case("form: the wrong boundary", 400, "boundary", form(FILE, boundary="y"))
case("form: a boundary in Cyrillic", 400, "boundary", form(FILE, boundary="граница"))
case("form: no closing boundary", 400, "boundary", form(FILE, end=b""))
case("form: very long headers", 400, "boundary", lambda: form(b"X: " + b"a" * (3 * MIB)))
case("form: a part without a disposition", 400, "boundary", form(b"X: y\r\n\r\ntext"))
case(
    "form: a very large field",
    413,
    "the fields of the form",
    lambda: form(part('form-data; name="tags"', b"a" * 2 * MIB)),
)
case("form: an unknown field", 422, "is not a file", form(part('form-data; name="__class__"')))
case(
    "form: metadata that is not JSON",
    422,
    "metadata",
    form(FILE, part('form-data; name="metadata"', b"{'a': 1}")),
)
case(
    "form: metadata nested too deeply",
    422,
    "nested",
    form(FILE, part('form-data; name="metadata"', b'{"a":' * 99 + b"1" + b"}" * 99)),
)
case("form: tags that are not UTF-8", 400, "UTF-8", form(FILE, part('form-data; name="tags"', b"\xff")))
case("form: no file", 422, "no document", form())
case(
    "form: an executable file",
    202,
    "a program",
    form(part('form-data; name="f"; filename="a.txt"', b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)) * 8)),
)
case(
    "form: a file over the limit",
    202,
    "the limit is",
    lambda: form(part('form-data; name="f"; filename="a.txt"', b"x" * (32 * MIB + 1))),
)
case(
    "form: a very long file name",
    202,
    "source_path",
    form(part(f'form-data; name="f"; filename="{"../" * 900}a.txt"')),
)


def lines(*parts: bytes) -> bytes:
    return post(BULK, b"\n".join(parts), kind="application/x-ndjson")


GOOD = json.dumps({"content": TEXT}).encode()

case("lines: none", 422, "no document", lines(b"\n\n \n"))
case("lines: more than an upload may hold", 413, "at most", lambda: lines(*([GOOD] * (MAX_ITEMS + 1))))
for name, line, reason in (
    ("not JSON", b"content: a", "line 2: is not JSON"),
    ("a list", b"[1, 2]", "line 2: must be a JSON object"),
    ("nested too deeply", b'{"content": ' + b"[" * 100_000, "line 2: is nested deeper"),
    ("a duplicate key", b'{"content": "a", "content": "b"}', "line 2: is ambiguous"),
    ("not UTF-8", b'{"content": "\xff"}', "line 2: is not UTF-8"),
    ("an unknown field", b'{"content": "a", "rm": "-rf"}', "line 2: rm: is not known"),
    ("a number as content", b'{"content": 5}', "line 2: content"),
):
    case(f"lines: {name}", 202, reason, lambda line=line: lines(GOOD, line, GOOD))  # type: ignore[misc]
case(
    "lines: a very long line",
    202,
    "is longer than",
    lambda: lines(GOOD, b'{"content": "' + b"\\u0061" * (20 * MIB) + b'"}'),
)

# Archives


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def zip_entry(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def tarred(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", format=form) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def tar_entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def encrypted(archive: bytes) -> bytes:
    """Return the zip archive with every entry marked as encrypted."""
    changed = bytearray(archive)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = changed.find(signature)
        while at >= 0:
            changed[at + offset] |= 1
            at = changed.find(signature, at + 4)
    return bytes(changed)


def lying(archive: bytes, size: int) -> bytes:
    """Return the zip archive with `size` as the declared size of its only entry."""
    changed = bytearray(archive)
    struct.pack_into("<I", changed, changed.find(b"PK\x01\x02") + 24, size)
    return bytes(changed)


def send_zip(archive: Callable[[], bytes]) -> Callable[[], bytes]:
    return lambda: post(BULK, archive(), kind="application/zip")


def send_tar(archive: Callable[[], bytes]) -> Callable[[], bytes]:
    return lambda: post(BULK, archive(), kind="application/gzip")


CONTENT = TEXT.encode()

for name, path, reason in (
    ("a name that points outside", "../../etc/cron.d/evil.txt", "points outside"),
    ("a name that points outside in the middle", "a/../../evil.txt", "points outside"),
    ("a Windows name that points outside", "..\\..\\evil.txt", "points outside"),
    ("an absolute name", "/etc/passwd.txt", "absolute"),
    ("a name on a drive", "C:\\Windows\\evil.txt", "absolute"),
    ("a nested archive", "inner.zip", "archive itself"),
):
    case(f"zip: {name}", 202, reason, send_zip(lambda path=path: zipped((path, CONTENT), ("a.txt", CONTENT))))  # type: ignore[misc]
    case(f"tar: {name}", 202, reason, send_tar(lambda path=path: tarred((tar_entry(path), CONTENT))))  # type: ignore[misc]

case(
    "zip: a link",
    202,
    "is a link",
    send_zip(lambda: zipped((zip_entry("a.txt", stat.S_IFLNK | 0o777), b"/etc/passwd"))),
)
case("zip: a device", 202, "is a device", send_zip(lambda: zipped((zip_entry("a.txt", stat.S_IFBLK), b""))))
case(
    "zip: a duplicate name",
    202,
    "more than once",
    send_zip(lambda: zipped(("a.txt", CONTENT), ("./a.txt", b"other"))),
)
case("zip: an encrypted file", 202, "encrypted", send_zip(lambda: encrypted(zipped(("a.txt", CONTENT)))))
case("zip: a bomb", 202, "times its size", send_zip(lambda: zipped(("a.txt", b"\x00" * (30 * MIB)))))
case(
    "zip: a bomb with a false size",
    202,
    "damaged",
    send_zip(lambda: lying(zipped(("a.txt", b"\x00" * (30 * MIB))), 100)),
)
case(
    "zip: a bomb in a nested archive",
    202,
    "archive itself",
    send_zip(lambda: zipped(("a.txt", zipped(("b.txt", b"\x00" * MIB))))),
)
case(
    "zip: a binary file",
    202,
    "is not text",
    send_zip(lambda: zipped(("a.txt", bytes(range(256)) * 8))),
)
case(
    "zip: an unusual compression",
    202,
    "use deflate",
    send_zip(lambda: zipped(("a.txt", CONTENT * 9), method=zipfile.ZIP_LZMA)),
)
case(
    "zip: more entries than documents",
    413,
    "entries",
    send_zip(lambda: zipped(*((f"{n}.txt", b"") for n in range(2 * MAX_ITEMS + 1)))),
)
case("zip: truncated", 400, "truncated", send_zip(lambda: zipped(("a.txt", CONTENT * 99))[:-30]))
case("zip: only the end record", 400, "truncated", send_zip(lambda: zipped(("a.txt", CONTENT))[-22:]))
case("zip: not a zip archive", 400, "not a zip archive", send_zip(lambda: b"GIF89a" + CONTENT))
case("zip: empty", 422, "no document", send_zip(zipped))
case(
    "tar: a symbolic link",
    202,
    "is a link",
    send_tar(lambda: tarred((tar_entry("a.txt", tarfile.SYMTYPE, "/etc/passwd"), b""))),
)
case(
    "tar: a hard link",
    202,
    "is a link",
    send_tar(lambda: tarred((tar_entry("a.txt", tarfile.LNKTYPE, "../../b"), b""))),
)
case(
    "tar: a device", 202, "is a device", send_tar(lambda: tarred((tar_entry("a.txt", tarfile.CHRTYPE), b"")))
)
case(
    "tar: a pipe",
    202,
    "not a regular file",
    send_tar(lambda: tarred((tar_entry("a.txt", tarfile.FIFOTYPE), b""))),
)
case("tar: a bomb", 413, "times its size", send_tar(lambda: gzip.compress(b"\x00" * (64 * MIB))))
case(
    "tar: a name of two megabytes",
    400,
    "header",
    send_tar(
        lambda: tarred(
            (tar_entry(random.Random(1).randbytes(MIB).hex() + ".txt"), CONTENT), form=tarfile.GNU_FORMAT
        )
    ),
)
case(
    "tar: truncated",
    400,
    "truncated",
    send_tar(lambda: tarred((tar_entry("a.txt"), bytes(range(256)) * 99))[:-400]),
)
case("tar: no tar in the gzip file", 400, "no tar archive", send_tar(lambda: gzip.compress(CONTENT * 99)))
case("tar: not a gzip file", 400, "gzip", send_tar(lambda: zipped(("a.txt", CONTENT))))
case(
    "upload: an unsupported content type",
    415,
    "multipart/form-data",
    post(BULK, CONTENT, kind="application/pdf"),
)
case(
    "upload: a declared length of 3 GB",
    413,
    "larger",
    request(f"POST {BULK}", b"", "Content-Type: application/x-ndjson", "Content-Length: 3000000000"),
)
