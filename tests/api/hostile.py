"""What nobody means well by: requests, and the answer each of them gets.

A case is the bytes of a request and what is said about it: in the problem that is the answer or, where the request is
well formed and a document in it is not (202), in the reason why that item failed.
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
"""Documents that an upload may hold, of the service that these are sent to."""

DOCUMENTS, BULK, SEARCH, JOBS = f"{API}/documents", f"{API}/documents/bulk", f"{API}/search", f"{API}/jobs"
TEXT = "Magma rises through the crust. Lava and ash pour from the crater of the volcano."


@dataclass(frozen=True)
class Hostile:
    """`sent` is made when it is needed: some are large."""

    sent: Callable[[], bytes]
    status: int
    says: str


CASES: dict[str, Hostile] = {}


def case(name: str, status: int, says: str, sent: bytes | Callable[[], bytes]) -> None:
    assert name not in CASES, name
    CASES[name] = Hostile(sent if callable(sent) else lambda: sent, status, says)


def post(
    path: str, body: bytes | str | dict[str, Any], *headers: str, kind: str = "application/json"
) -> bytes:
    if isinstance(body, dict):
        body = json.dumps(body)
    body = body.encode() if isinstance(body, str) else body
    return request(f"POST {path}", body, f"Content-Type: {kind}", *headers)


def get(path: str, *headers: str) -> bytes:
    return request(f"GET {path}", b"", *headers)


# --- JSON ----------------------------------------------------------------------------------------------------

for name, body, says in (
    ("arrays without a bottom", b"[" * 500_000, "nested deeper"),
    ("objects without a bottom", b'{"a":' * 100_000, "nested deeper"),
    ("metadata of 65 levels", b'{"content": "a", "metadata": ' + b'{"a":' * 65 + b"1" + b"}" * 66, "nested deeper"),
    ("a number of a million digits", b'{"content": "a", "metadata": {"n": ' + b"9" * 1_000_000 + b"}}", "too many digits"),
    ("an infinite number", b'{"content": "a", "metadata": {"n": 1e999}}', "too large"),
    ("a number that is none", b'{"content": "a", "metadata": {"n": NaN}}', "not a JSON value"),
    ("minus infinity", b'{"content": -Infinity}', "not a JSON value"),
    ("a key twice", b'{"content": "a", "tags": ["x"], "tags": []}', "occurs twice"),
    ("a key twice inside", b'{"content": "a", "metadata": {"a": {"b": 1, "b": 2}}}', "occurs twice"),
    ("UTF-16", '{"content": "a"}'.encode("utf-16"), "is not UTF-8"),
    ("UTF-32 without a mark", '{"content": "a"}'.encode("utf-32-le"), "is not JSON"),
    ("Latin-1", b'{"content": "caf\xe9"}', "is not UTF-8"),
    ("overlong UTF-8", b'{"content": "\xc0\xaf"}', "is not UTF-8"),
    ("half a surrogate pair as UTF-8", b'{"content": "\xed\xa0\x80"}', "is not UTF-8"),
    ("a bare NUL in a string", b'{"content": "a\x00b"}', "control character"),
    ("cut off", b'{"content": "a', "not closed"),
    ("two values", b'{"content": "a"}{"content": "b"}', "is not JSON"),
    ("a comment", b'{"content": "a" /* hidden */}', "is not JSON"),
    ("a pickle", b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00", "is not UTF-8"),
):  # fmt: skip
    case(f"JSON: {name}", 400, says, lambda body=body: post(DOCUMENTS, body))  # type: ignore[misc]

for name, fields, says in (
    ("half a surrogate pair in a title", {"title": "\ud800"}, "surrogate"),
    ("half a surrogate pair in a key", {"metadata": {"\udfff": 1}}, "surrogate"),
    ("a title without an end", {"title": "x" * 100_000}, "title"),
    ("tags without number", {"tags": [str(n) for n in range(10_000)]}, "tags"),
    ("metadata without an end", {"metadata": {"a": "x" * 66_000}}, "metadata"),
    ("metadata that is a list", {"metadata": [[[]]]}, "metadata"),
    ("a source path without an end", {"source_path": "../" * 1000}, "source_path"),
    ("a format of another world", {"format": "application/x-php"}, "format"),
    ("a field of ours", {"id": 1}, "is not known"),
    ("a field of everybody's", {"__proto__": {"admin": True}}, "is not known"),
    ("a name of 100,000 letters", {"x" * 100_000: 1}, "is not known"),
    ("nothing but NULs", {"content": "\x00" * 1000}, "content"),
    ("nothing but white space", {"content": "\u2003\n" * 1000}, "content"),
    ("a number for a text", {"content": 10**300}, "content"),
):
    fields = {"content": TEXT, **fields}  # noqa: PLW2901
    case(f"document: {name}", 422, says, lambda fields=fields: post(DOCUMENTS, fields))  # type: ignore[misc]

case("document: over 32 MiB", 413, "limit", lambda: post(DOCUMENTS, {"content": "x" * (32 * MIB + 1)}))
case("document: 200 MB that are announced", 413, "larger", request(f"POST {DOCUMENTS}", b"", "Content-Type: application/json", "Content-Length: 200000000"))  # fmt: skip

for name, fields, says in (
    ("a query of 5,000 letters", {"query": "a" * 5000}, "query"),
    ("a query of nothing", {"query": " \n\t "}, "query"),
    ("more results than there are atoms", {"query": "a", "top_k": 10**80}, "top_k"),
    ("half a result", {"query": "a", "top_k": 0.5}, "top_k"),
    ("a page in the next galaxy", {"query": "a", "offset": 2**64}, "offset"),
    ("an id that no database has", {"query": "a", "filters": {"document_ids": [2**63]}}, "document_ids"),
    ("SQL for a format", {"query": "a", "filters": {"format": "x' OR '1'='1"}}, "format"),
    ("a date before all dates", {"query": "a", "filters": {"created_after": "-9999-01-01"}}, "created_after"),
    ("filters that are a text", {"query": "a", "filters": "tags = 'x'"}, "filters"),
):
    case(f"search: {name}", 422, says, lambda fields=fields: post(SEARCH, fields))  # type: ignore[misc]

case("search: two megabytes", 413, "larger", lambda: post(SEARCH, {"query": "a" * (2 * MIB)}))

# --- Heads ---------------------------------------------------------------------------------------------------

for name, kind, status, says in (
    ("a form for JSON", "application/x-www-form-urlencoded", 415, "application/json"),
    ("XML", "text/xml", 415, "application/json"),
    ("UTF-7", "application/json; charset=utf-7", 415, "UTF-8"),
    ("no type at all", "", 415, "application/json"),
    ("a type without an end", "application/" + "x" * 8000, 415, "application/json"),
):
    case(f"type: {name}", status, says, post(DOCUMENTS, {"content": TEXT}, kind=kind))

case("head: a compressed body", 415, "Content-Encoding", post(DOCUMENTS, gzip.compress(b'{"content": "a"}'), "Content-Encoding: gzip"))  # fmt: skip
case("head: a compressed upload", 415, "Content-Encoding", post(BULK, gzip.compress(b'{"content": "a"}'), "Content-Encoding: br", kind="application/x-ndjson"))  # fmt: skip
case("head: a key of idempotency without an end", 422, "Idempotency-Key", post(DOCUMENTS, {"content": TEXT}, "Idempotency-Key: " + "k" * 256))  # fmt: skip
case("head: a key of idempotency that is empty", 422, "Idempotency-Key", post(DOCUMENTS, {"content": TEXT}, "Idempotency-Key: "))  # fmt: skip
case("head: a key of idempotency in Cyrillic", 422, "Idempotency-Key", post(DOCUMENTS, {"content": TEXT}, "Idempotency-Key: ключ"))  # fmt: skip
case(
    "head: a name of somebody else",
    403,
    "localhost",
    get(JOBS).replace(b"Host: localhost", b"Host: evil.example"),
)
case(
    "head: a name with a user",
    403,
    "localhost",
    get(JOBS).replace(b"Host: localhost", b"Host: localhost@evil.example"),
)
case("head: two names", 400, "malformed", get(JOBS, "Host: evil.example"))
case("head: no name", 400, "Host", get(JOBS).replace(b"Host: localhost\r\n", b""))
case("head: a page of somebody else", 403, "other sites", post(DOCUMENTS, {"content": TEXT}, "Origin: https://evil.example"))  # fmt: skip
case("head: a page of nobody", 403, "other sites", post(DOCUMENTS, {"content": TEXT}, "Origin: null"))
case("head: a page without an origin", 403, "other sites", post(DOCUMENTS, {"content": TEXT}, "Sec-Fetch-Site: cross-site"))  # fmt: skip
case(
    "head: another method by a header",
    404,
    "no document",
    get(f"{DOCUMENTS}/1", "X-HTTP-Method-Override: DELETE"),
)
case("head: another address by a header", 404, "nothing at this URL", get("/nothing", "X-Original-URL: /metrics", "X-Rewrite-URL: /metrics"))  # fmt: skip
case("head: HTTP/2 without asking", 400, "malformed", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
case("head: a length in another system", 400, "malformed", b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x10\r\n\r\n")  # fmt: skip
case("head: a length and chunks", 400, "malformed", b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n")  # fmt: skip
case("head: chunks twice", 400, "malformed", b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n")  # fmt: skip
case("head: a hidden coding", 400, "malformed", b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n")  # fmt: skip
case("head: a cookie without an end", 431, "headers", get(JOBS, "Cookie: " + "c" * 20_000))
case("head: a thousand headers", 431, "headers", get(JOBS, *(f"X-{n}: 1" for n in range(1000))))

for method, status, says in (
    ("TRACE", 405, "method"),
    ("CONNECT", 405, "method"),
    ("PATCH", 405, "method"),
    ("PROPFIND", 405, "method"),
    ("get", 400, "malformed"),
    ("G\x00T", 400, "malformed"),
):
    case(f"method: {method!r}", status, says, request(f"{method} {DOCUMENTS}"))


def chunked(*pieces: bytes) -> bytes:
    head = request(f"POST {BULK}", b"", "Content-Type: application/x-ndjson", "Transfer-Encoding: chunked")
    return head + b"".join(pieces)


for name, pieces in (
    ("of more bytes than there are", (b"FFFFFFFFFFFFFFFFFF\r\nabc\r\n",)),
    ("of fewer than none", (b"-5\r\nabcde\r\n0\r\n\r\n",)),
    ("of no number", (b"five\r\nabcde\r\n0\r\n\r\n",)),
    ("longer than they say", (b"3\r\nabcdef\r\n0\r\n\r\n",)),
    ("that break off", (b'50\r\n{"content": "a"}',)),
):
    case(f"chunks: {name}", 400, "the body", chunked(*pieces))

# --- Addresses -----------------------------------------------------------------------------------------------

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
    f"{DOCUMENTS}/../../../metrics",
    "/.git/config",
    "/wp-login.php",
):
    case(f"address: {path[:60]}", 404, "", get(path))

case("address: without an end", 414, "too long", get("/" + "a" * 9000))
case("address: not UTF-8", 400, "malformed", get(f"{DOCUMENTS}?q=").replace(b"?q=", b"?q=\xff\xfe"))
case("address: a parameter twice", 422, "more than once", get(f"{JOBS}?limit=1&limit=2"))
case("address: a limit without an end", 422, "limit", get(f"{JOBS}?limit=" + "9" * 5000))
case("address: an offset before the beginning", 422, "offset", get(f"{JOBS}?offset=-1"))
case("address: SQL for a status", 422, "status", get(f"{JOBS}?status=x'%20OR%20'1'='1"))
case("address: a wait for ever", 422, "wait", get(f"{JOBS}/1?wait=inf"))

# --- Uploads -------------------------------------------------------------------------------------------------


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
case("form: another boundary", 400, "boundary", form(FILE, boundary="y"))
case("form: a boundary in Cyrillic", 400, "boundary", form(FILE, boundary="граница"))
case("form: no end", 400, "boundary", form(FILE, end=b""))
case("form: headers without an end", 400, "boundary", lambda: form(b"X: " + b"a" * (3 * MIB)))
case("form: a part that says nothing of itself", 400, "boundary", form(b"X: y\r\n\r\ntext"))
case(
    "form: a field without an end",
    413,
    "the fields of the form",
    lambda: form(part('form-data; name="tags"', b"a" * 2 * MIB)),
)
case("form: a field of another's", 422, "is not a file", form(part('form-data; name="__class__"')))
case(
    "form: metadata that is no JSON",
    422,
    "metadata",
    form(FILE, part('form-data; name="metadata"', b"{'a': 1}")),
)
case(
    "form: metadata without a bottom",
    422,
    "nested",
    form(FILE, part('form-data; name="metadata"', b'{"a":' * 99 + b"1" + b"}" * 99)),
)
case("form: tags that are not UTF-8", 400, "UTF-8", form(FILE, part('form-data; name="tags"', b"\xff")))
case("form: no file at all", 422, "no document", form())
case("form: a program", 202, "a program", form(part('form-data; name="f"; filename="a.txt"', b"\x7fELF\x02\x01\x01\x00" + bytes(range(256)) * 8)))  # fmt: skip
case("form: a file over the limit", 202, "the limit is", lambda: form(part('form-data; name="f"; filename="a.txt"', b"x" * (32 * MIB + 1))))  # fmt: skip
case("form: a file name without an end", 202, "source_path", form(part(f'form-data; name="f"; filename="{"../" * 900}a.txt"')))  # fmt: skip


def lines(*each: bytes) -> bytes:
    return post(BULK, b"\n".join(each), kind="application/x-ndjson")


GOOD = json.dumps({"content": TEXT}).encode()

case("lines: none", 422, "no document", lines(b"\n\n \n"))
case("lines: more than an upload may hold", 413, "at most", lambda: lines(*([GOOD] * (MAX_ITEMS + 1))))
for name, line, says in (
    ("no JSON", b"content: a", "line 2: is not JSON"),
    ("a list", b"[1, 2]", "line 2: must be a JSON object"),
    ("without a bottom", b'{"content": ' + b"[" * 100_000, "line 2: is nested deeper"),
    ("a key twice", b'{"content": "a", "content": "b"}', "line 2: is ambiguous"),
    ("not UTF-8", b'{"content": "\xff"}', "line 2: is not UTF-8"),
    ("a field too many", b'{"content": "a", "rm": "-rf"}', "line 2: rm: is not known"),
    ("a text that is a number", b'{"content": 5}', "line 2: content"),
):
    case(f"lines: {name}", 202, says, lambda line=line: lines(GOOD, line, GOOD))  # type: ignore[misc]
case("lines: one without an end", 202, "is longer than", lambda: lines(GOOD, b'{"content": "' + b"\\u0061" * (20 * MIB) + b'"}'))  # fmt: skip

# --- Archives ------------------------------------------------------------------------------------------------


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
    """With the mark of a password on every entry."""
    changed = bytearray(archive)
    for start, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = changed.find(start)
        while at >= 0:
            changed[at + place] |= 1
            at = changed.find(start, at + 4)
    return bytes(changed)


def lying(archive: bytes, size: int) -> bytes:
    """Whose directory says that its one entry unpacks to `size` bytes."""
    changed = bytearray(archive)
    struct.pack_into("<I", changed, changed.find(b"PK\x01\x02") + 24, size)
    return bytes(changed)


def send_zip(archive: Callable[[], bytes]) -> Callable[[], bytes]:
    return lambda: post(BULK, archive(), kind="application/zip")


def send_tar(archive: Callable[[], bytes]) -> Callable[[], bytes]:
    return lambda: post(BULK, archive(), kind="application/gzip")


CONTENT = TEXT.encode()

for name, path, says in (
    ("a name that points outside", "../../etc/cron.d/evil.txt", "points outside"),
    ("a name that points outside on the way", "a/../../evil.txt", "points outside"),
    ("a name that points outside in Windows", "..\\..\\evil.txt", "points outside"),
    ("an absolute name", "/etc/passwd.txt", "absolute"),
    ("a name on a drive", "C:\\Windows\\evil.txt", "absolute"),
    ("an archive inside", "inner.zip", "archive itself"),
):
    case(f"zip: {name}", 202, says, send_zip(lambda path=path: zipped((path, CONTENT), ("a.txt", CONTENT))))  # type: ignore[misc]
    case(f"tar: {name}", 202, says, send_tar(lambda path=path: tarred((tar_entry(path), CONTENT))))  # type: ignore[misc]

case(
    "zip: a link",
    202,
    "is a link",
    send_zip(lambda: zipped((zip_entry("a.txt", stat.S_IFLNK | 0o777), b"/etc/passwd"))),
)
case("zip: a device", 202, "is a device", send_zip(lambda: zipped((zip_entry("a.txt", stat.S_IFBLK), b""))))
case(
    "zip: a name twice",
    202,
    "more than once",
    send_zip(lambda: zipped(("a.txt", CONTENT), ("./a.txt", b"other"))),
)
case("zip: a password", 202, "encrypted", send_zip(lambda: encrypted(zipped(("a.txt", CONTENT)))))
case("zip: a bomb", 202, "times its size", send_zip(lambda: zipped(("a.txt", b"\x00" * (30 * MIB)))))
case("zip: a bomb that says it is none", 202, "damaged", send_zip(lambda: lying(zipped(("a.txt", b"\x00" * (30 * MIB))), 100)))  # fmt: skip
case("zip: a bomb in a disguise", 202, "archive itself", send_zip(lambda: zipped(("a.txt", zipped(("b.txt", b"\x00" * MIB))))))  # fmt: skip
case(
    "zip: a text that is none",
    202,
    "not a text file",
    send_zip(lambda: zipped(("a.txt", bytes(range(256)) * 8))),
)
case("zip: an unusual compression", 202, "use deflate", send_zip(lambda: zipped(("a.txt", CONTENT * 9), method=zipfile.ZIP_LZMA)))  # fmt: skip
case("zip: more entries than documents", 413, "entries", send_zip(lambda: zipped(*((f"{n}.txt", b"") for n in range(2 * MAX_ITEMS + 1)))))  # fmt: skip
case("zip: truncated", 400, "truncated", send_zip(lambda: zipped(("a.txt", CONTENT * 99))[:-30]))
case("zip: only its end", 400, "truncated", send_zip(lambda: zipped(("a.txt", CONTENT))[-22:]))
case("zip: no zip", 400, "not a zip archive", send_zip(lambda: b"GIF89a" + CONTENT))
case("zip: nothing in it", 422, "no document", send_zip(zipped))
case("tar: a symbolic link", 202, "is a link", send_tar(lambda: tarred((tar_entry("a.txt", tarfile.SYMTYPE, "/etc/passwd"), b""))))  # fmt: skip
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
case("tar: a name of two megabytes", 400, "header", send_tar(lambda: tarred((tar_entry(random.Random(1).randbytes(MIB).hex() + ".txt"), CONTENT), form=tarfile.GNU_FORMAT)))  # fmt: skip
case(
    "tar: cut off",
    400,
    "truncated",
    send_tar(lambda: tarred((tar_entry("a.txt"), bytes(range(256)) * 99))[:-400]),
)
case("tar: no tar inside", 400, "no tar archive", send_tar(lambda: gzip.compress(CONTENT * 99)))
case("tar: no gzip", 400, "gzip", send_tar(lambda: zipped(("a.txt", CONTENT))))
case(
    "upload: of a type that is none", 415, "multipart/form-data", post(BULK, CONTENT, kind="application/pdf")
)
case("upload: three gigabytes that are announced", 413, "larger", request(f"POST {BULK}", b"", "Content-Type: application/x-ndjson", "Content-Length: 3000000000"))  # fmt: skip
