"""Generators of requests as text: a request line, headers and a body, so that people can read and edit them.

For example:

    POST /api/v1/search
    Content-Type: application/json

    {"query": "lava"}
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from fuzz_archives import compressed, tarred, zipped
from fuzz_texts import PIECES, PROSE, WORDS, mixed, nested, piece, repeated, size, text

API = "/api/v1"
LONGEST_ADDRESS = 8000
"""The WSGI server itself refuses longer ones."""
JSON = "application/json"

QUERY_PIECES = [
    '"', "“", "”", "-", "-\"", "title:", "-title:", "(", ")", "[", "{", "*", "^", "NEAR(", "AND ", "OR ", "NOT ", ":", "+", "a ", "the ", "lava ", "volcano ", "jury ", "bees ",
    "flower", "U.S.", "B-17", "3.14", "a-a", "well-known", "don't", "’s", "\u0301", "ß", "İ", "ﬁ", "²", "½", "\u0345", "漢字", "שלום", "🙂", "\u200d", "\u202e", "\x00", "\t", "\n", " ", "  ", "'", "%", "_", "\\", ";--", "1", "9" * 400,
]  # fmt: skip
VALUES = [
    "", "0", "1", "-1", "-0", "1.5", "1e999", "-1e999", "nan", "inf", "1_000", "0x10", "٣", "²", "9" * 400, "9223372036854775807", "9223372036854775808", "18446744073709551616", "true", "True", "null",
    "[]", "{}", '{"a":1}', '{"a":{"b":1}}', '{"a":1e999}', '{"":null}', '{"a\\u0000":1}', '{"a\\ud800":1}', '{"a":"\\ud800"}', "[" * 5000, '{"a":' * 500, "2020-01-01", "2024-02-30", "9999-12-31T23:59:59.999999-23:59", "0001-01-01T00:00:00+23:59",
    "2020-01-01T00:00:00Z", "2020-W01-1", "T", "1,2,3", ",", "," * 5000, "1," * 5000, "a" * 5000, "'", '"', "\x00", "\n", "\r\nX: y", "../", "é", "\ud800", "🙂", "%", "%00", "%ff", "*", "hybrid", "lexical", "reef", "markdown", "all", "any",
    "precise", "rrf", "blend", "succeeded", "lava", "<script>", "{{7*7}}", "%s", "${x}", "lexical:1,reef:1", "lexical:1e308,reef:1e308", "lexical:", ":", "-9999-01-01", "2020-01-01T00:00:00+99:99",
]  # fmt: skip
JSON_VALUES: list[Any] = [None, True, False, 0, 1, -1, 0.5, -0.0, 1e308, 2**63 - 1, 2**63, -(2**63) - 1, 10**300, "", [], {}]  # fmt: skip
PYTHON_NAMES = ["endpoint", "_method", "_anchor", "_external", "_scheme", "values", "self", "cls", "context", "name", "key", "request", "__class__", "q", "page", "chunk", "document", "tag", "items", "status", "wait", "%00", ""]  # fmt: skip
HEADERS = ["Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Content-Encoding", "Content-Type", "Cookie", "Forwarded", "Host", "Idempotency-Key", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Last-Event-ID", "Origin", "Prefer", "Range", "Referer", "Sec-Fetch-Site", "Transfer-Encoding", "X-Forwarded-For", "X-HTTP-Method-Override", "X-Request-Id", "X-Trace-Id"]  # fmt: skip
HEADER_VALUES = ["*/*", "text/html", "gzip", "bytes=0-", "bytes=-1", "bytes=9-1", "bytes=" + "0-1," * 2000, "wait=0", "wait=1e9", "wait=nan", "wait", "respond-async, wait=" + "9" * 400, "application/json; charset=utf-16", "application/json; charset=\x00", "multipart/form-data", "Bearer " + "x" * 5000, "Basic Og==", "Basic %%%", "Bearer", "localhost", "localhost:", "localhost:99999999", "[::1]", "[::1", "Mon, 01 Jan 0001 00:00:00 GMT", "Sun, 99 Feb 99999 99:99:99 GMT", '"' * 3000, 'W/"a"', "a=b; " * 2000, "q=" * 3000, "a;q=nan", "a;q=1e999", "ключ", "same-origin"]  # fmt: skip

DOCUMENT = {"content": PROSE, "title": "A title", "format": "markdown", "tags": ["a", "b"], "metadata": {"language": "en", "year": 2000}, "source_path": "a/b.md"}  # fmt: skip
FILTERS = {"tags": ["ecology"], "tags_match": "any", "min_confidence": 0.5, "min_coverage": 0.5, "reef_ids": [1, 2], "island_ids": [1], "archipelago": 1, "document_ids": [1, 2, 3], "created_after": "2020-01-01T00:00:00Z", "created_before": "2090-01-01", "format": "markdown", "source_path": ["ferns.md"], "metadata": {"language": "en"}}  # fmt: skip
SEARCH = {"query": "lava and ash", "top_k": 5, "mode": "hybrid", "preset": "balanced", "weights": {"lexical": 1, "reef": 1}, "fusion": "blend", "max_per_document": 2, "include_scores": True, "context": 1, "offset": 0, "filters": FILTERS}  # fmt: skip
EXPLAIN = {"query": "lava", "document_id": 1, "chunk_id": 1, "filters": FILTERS, "mode": "hybrid", "preset": "precise", "weights": {"lexical": 2}, "fusion": "rrf"}  # fmt: skip
VERIFY = {"text": "Lava flows [1]. Ash falls [chunk 2, document 1:0-90].", "references": [{"chunk_id": 1}, {"label": 7, "document_id": 1, "start_char": 0, "end_char": 90}], "format": "markdown", "min_coverage": 0.5}  # fmt: skip
STATEMENTS = {"statements": [{"text": "Lava flows.", "references": ["chunk 1", 2]}], "references": None}
JOB = {"kind": "rescore"}
ENVIRONMENT = {"os": "linux", "repo": "shop", "cwd": "/work/shop", "mcp_servers": ["github"], "tags": ["python"]}  # fmt: skip
NOTE = {"text": "Lava and ash pour from the volcano.", "owner": "ann", "kind": "lesson", "title": "Fire", "tags": ["python"], "categories": ["a/b"], "prerequisites": {"os": ["linux"], "paths": ["/work/*"]}, "metadata": {"page": 1}, "session_id": "s", "verified": True}  # fmt: skip
FEEDBACK = {"applicable": True, "reason": "so", "tag_scores": {"python": 0.5}, "add_prerequisites": {"repos": "shop"}, "session_id": "s", "environment": ENVIRONMENT}  # fmt: skip
NOTE_SEARCH = {"query": "lava", "owner": "ann", "top_k": 3, "category": "a", "tags": ["python"], "environment": ENVIRONMENT, "session_id": "s", "threshold": 0.1, "include_scores": True}  # fmt: skip
ITEM = {"content": "Lava and ash pour from the crater.", "topic": "Fire", "confidence": 0.9, "metadata": {"a": 1}, "tags": ["python"]}  # fmt: skip
NOTES = (
    ("POST", "notes", NOTE),
    ("POST", "notes", NOTE),
    ("POST", "notes/bulk", NOTE),
    (
        "PATCH",
        "notes/1",
        {name: NOTE[name] for name in ("text", "title", "tags", "prerequisites", "metadata")},
    ),
    ("POST", "notes/1/feedback", FEEDBACK),
    ("PUT", "notes/1/pin", {"tags": ["python"], "prerequisites": NOTE["prerequisites"]}),
    ("PATCH", "notes/1/categories", {"add": ["a/b"], "remove": ["c"]}),
    ("POST", "notes/1/deprecate", {"reason": "old"}),
    ("POST", "notes/1/explain", {"query": "lava", "environment": ENVIRONMENT}),
    ("POST", "notes/search", NOTE_SEARCH),
    ("POST", "notes/search", NOTE_SEARCH),
    (
        "POST",
        "notes/shown",
        {"session_id": "s", "note_ids": [1], "event": "prompt", "environment": ENVIRONMENT},
    ),
    ("POST", "notes/pinned", {"environment": ENVIRONMENT}),
    ("POST", "users/ann/remember", {"items": [ITEM, ITEM]}),
    ("POST", "users/ann/recall", {"query": "lava", "top_k": 3, "threshold": 0.1}),
    (
        "POST",
        "retrieve",
        {"query": "lava", "top_k": 5, "threshold": 0.1, "filters": {"source": "a.md", "page": 1}},
    ),
)
"""Requests about notes: method, path, and an example of the body."""


def request(method: str, address: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    head = [f"{method} {address}", *(f"{key}: {value}" for key, value in (headers or {}).items())]
    return "\n".join(head).encode("utf-8", "surrogatepass") + b"\n\n" + body


# JSON


def json_value(rng: random.Random, largest: int) -> Any:
    """Generate an unexpected value."""
    n = size(rng, 1, max(2, largest // 4))
    makers: Sequence[Callable[[], Any]] = (
        lambda: rng.choice(JSON_VALUES),
        lambda: rng.choice(VALUES),
        lambda: text(rng, n),
        lambda: "".join(rng.choice(QUERY_PIECES) for _ in range(rng.randint(1, 60))),
        lambda: [rng.choice((1, "", "a", None, [], {}, 1.5, True))] * n,
        lambda: list(range(min(n, 20_000))),
        lambda: [str(i) for i in range(min(n, 20_000))],
        lambda: {str(i): rng.choice((1, "", None, [])) for i in range(min(n, 20_000))},
        lambda: _nest(rng, min(n, 900)),
        lambda: {rng.choice(VALUES): rng.choice(VALUES)},
        lambda: [json_value(rng, n // 8 + 8) for _ in range(rng.randint(0, 4))],
    )
    return rng.choice(makers)()


def _nest(rng: random.Random, depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = rng.choice(([value], {"a": value}, [value, value] if depth < 12 else [value]))
    return value


def json_body(rng: random.Random, example: Mapping[str, Any], largest: int) -> bytes:
    """Generate a variant of the example with other values and sometimes other names."""
    value = json.loads(json.dumps({key: example[key] for key in example if rng.random() < 0.6}))
    for key in rng.sample(list(example), min(len(example), rng.choice((0, 1, 1, 2, 3)))):
        if isinstance(example[key], dict) and rng.random() < 0.8:
            inner = dict(example[key])
            for name in rng.sample(list(inner), min(len(inner), rng.randint(1, 2))):
                inner[name] = json_value(rng, largest)
            if rng.random() < 0.2:
                inner[rng.choice((*VALUES, *PYTHON_NAMES))] = json_value(rng, largest)
            value[key] = inner
        else:
            value[key] = json_value(rng, largest)
    if rng.random() < 0.15:
        value[rng.choice((*VALUES, *PYTHON_NAMES, "x" * size(rng, 1, largest)))] = json_value(
            rng, largest // 4 + 4
        )
    if rng.random() < 0.05:
        value = json_value(rng, largest)
    return json.dumps(value, ensure_ascii=rng.random() < 0.7).encode("utf-8", "surrogatepass")


def document(rng: random.Random, largest: int) -> bytes:
    body = json_body(rng, DOCUMENT, largest)
    headers = {"Content-Type": JSON}
    if rng.random() < 0.1:
        headers["Idempotency-Key"] = rng.choice(VALUES)
    method, address = rng.choice(
        (("POST", "documents"), ("POST", "documents"), ("PUT", f"documents/{rng.randint(0, 20)}"))
    )
    if rng.random() < 0.1:
        method, address, body = (
            "PUT",
            f"documents/{rng.randint(0, 20)}/tags",
            json_body(rng, {"tags": ["a"]}, largest),
        )
    elif rng.random() < 0.05:
        method, address, body = "POST", "jobs", json_body(rng, JOB, largest)
    return request(method, f"{API}/{address}", body, headers)


def note(rng: random.Random, largest: int) -> bytes:
    """Generate a request about notes of one of a few owners."""
    method, path, example = rng.choice(NOTES)
    body, kind = json_body(rng, example, min(largest, 900_000)), JSON
    if path == "notes/bulk" and rng.random() < 0.7:
        lines = (json_body(rng, NOTE, max(8, largest // 8)) for _ in range(size(rng, 1, 20)))
        body, kind = b"\n".join([body, *lines]), "application/x-ndjson"
    owner = (
        f"?owner={quote(rng.choice(VALUES), errors='replace')[:LONGEST_ADDRESS]}"
        if rng.random() < 0.1
        else ""
    )
    return request(method, f"{API}/{path}{owner}", body, {"Content-Type": kind})


def search(rng: random.Random, largest: int) -> bytes:
    what, example = rng.choice(
        (
            ("search", SEARCH),
            ("search", SEARCH),
            ("explain", EXPLAIN),
            ("verify", VERIFY),
            ("verify", STATEMENTS),
        )
    )
    changed = dict(example)
    if rng.random() < 0.6 and "query" in changed:
        changed["query"] = query(rng)
    return request(
        "POST", f"{API}/{what}", json_body(rng, changed, min(largest, 900_000)), {"Content-Type": JSON}
    )


def query(rng: random.Random) -> str:
    """Generate a query up to slightly more than the accepted length."""
    longest = rng.choice((60, 400, 4096, 4096, 4200))
    if rng.random() < 0.5:
        words = [rng.choice((*QUERY_PIECES, *WORDS)) for _ in range(size(rng, 1, 80))]
        typed = "".join(words)
    else:
        typed = repeated(rng, longest, QUERY_PIECES)
    if rng.random() < 0.25:
        typed = '"' + typed.replace('"', "") + '"'
    return typed[:longest]


# Uploads


def lines(rng: random.Random, largest: int) -> bytes:
    """Generate documents as lines of JSON, mixed with invalid lines."""
    made = []
    for _ in range(size(rng, 1, 60)):
        kind = rng.randrange(8)
        if kind < 5:
            made.append(json_body(rng, DOCUMENT, max(8, largest // 16)))
        elif kind == 5:
            made.append(
                rng.choice((b"", b" ", b"\xef\xbb\xbf", b"{}", b"[]", b"null", b"\r", b"\x00", b"{", b"\xff"))
                * size(rng, 1, 50)
            )
        else:
            made.append(text(rng, 200).encode("utf-8", "surrogatepass"))
    body = rng.choice((b"\n", b"\n", b"\r\n", b"\n\n")).join(made)
    if rng.random() < 0.2:
        body = rng.choice(made)[:200] + (rng.choice(made)[: largest // 200 + 4] + b"\n") * rng.randint(2, 900)
    return request("POST", f"{API}/documents/bulk", body, {"Content-Type": "application/x-ndjson"})


BOUNDARIES = ["x", "-", "--", "a" * 70, "a" * 3000, " x", "x ", "x:y", "(x)", "x\ty", "=", "'", "%", "--x", "\r", ".*", "[", "\\", "é", "0" * 200]  # fmt: skip
DISPOSITIONS = [
    'form-data; name="f"; filename="a.txt"', 'form-data; name="f"; filename="a.md"', 'form-data; name="f"; filename=""', 'form-data; name="tags"', 'form-data; name="metadata"', 'form-data; name="format"', 'form-data; name=""', "form-data",
    'form-data; name="f"; filename*=UTF-8\'\'%e2%82%ac.txt', 'form-data; name="f"; filename*=x', "form-data; name=f; filename*0=a; filename*1=b", 'form-data; name="f', "form-data; name=\"\\\"\"; filename=\"\\\\\"", "attachment", "form-data; " + "a=b; " * 500,
    "form-data; name=\"f\"; filename=\"" + "../" * 300 + "a\"", 'form-data; name="f"; filename*=utf-7\'\'+AAA-', "form-data; name*0*=utf-8''a; name*1=b", 'form-data; name="f"; filename="\x00"', "form-data; name=" + '"' * 500, "form-data; name=" + "\\" * 500,
]  # fmt: skip


def form(rng: random.Random, largest: int) -> tuple[str, bytes]:
    """Generate a boundary and the body of a mostly valid form."""
    boundary = rng.choice(BOUNDARIES) if rng.random() < 0.4 else "x"
    mark = b"--" + boundary.encode()
    parts = []
    for _ in range(size(rng, 1, 40)):
        part = mark + rng.choice((b"\r\n", b"\r\n", b"\r\n", b"\n", b"  \r\n", b" " * 70 + b"\r\n", b""))
        for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 5))):
            part += rng.choice(
                (
                    b"Content-Disposition: ",
                    b"Content-Disposition: ",
                    b"content-disposition:",
                    b"Content-Type: ",
                    b"Content-Transfer-Encoding: base64",
                    b"X: ",
                    b" ",
                )
            )
            part += rng.choice(DISPOSITIONS).encode() + rng.choice(
                (b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\n ")
            )
        part += rng.choice((b"\r\n", b"\r\n", b"\r\n", b"\n", b""))
        part += rng.choice(
            (
                PROSE.encode(),
                b"",
                b"a,b",
                b'{"a":1}',
                b"markdown",
                mark,
                b"\r\n--",
                b"\r\n" + mark[:-1],
                text(rng, max(8, largest // 16)).encode("utf-8", "replace"),
            )
        )
        parts.append(part + rng.choice((b"\r\n", b"\r\n", b"\r\n", b"\n", b"")))
    body = b"".join(parts)
    if rng.random() < 0.25:
        body = rng.choice(parts)[:300] * size(rng, 2, max(3, min(20_000, largest // 300)))
    return boundary, body + rng.choice(
        (mark + b"--\r\n", mark + b"--", mark + b"-", mark, b"", mark + b"--\r\n" + b"x" * 500)
    )


def upload(rng: random.Random, largest: int) -> bytes:
    """Generate an upload request with a form or an archive."""
    headers = {}
    address = f"{API}/documents/bulk"
    kind = rng.randrange(4)
    if kind == 0:
        headers["Content-Type"], body = "application/zip", zipped(rng, largest)
    elif kind == 1:
        headers["Content-Type"], body = "application/gzip", compressed(tarred(rng, largest))
    else:
        boundary, body = form(rng, largest)
        marks = rng.choice(("", '"'))
        headers["Content-Type"] = f"multipart/form-data; boundary={marks}{boundary}{marks}"
    if rng.random() < 0.15:
        address += f"?{rng.choice(('tags', 'metadata', 'format', 'x'))}={quote(rng.choice(VALUES), errors='replace')}"
    return request("POST", address, body, headers)


def pieces_of_form(rng: random.Random, largest: int) -> bytes:
    """Generate a form for the parser: the first line is the seed of the piece sizes, and the boundary."""
    boundary, body = form(rng, largest)
    return f"{rng.randrange(1000)} {boundary}".encode().replace(b"\n", b" ") + b"\n" + body


# Addresses


def query_string(rng: random.Random, names: Sequence[str]) -> str:
    pairs = []
    for _ in range(size(rng, 1, 8) if rng.random() < 0.95 else size(rng, 10, 2000)):
        name = rng.choice(names) if names and rng.random() < 0.75 else rng.choice((*PYTHON_NAMES, "x"))
        kind = rng.randrange(10)
        if kind < 6:
            value = rng.choice(VALUES)
        elif kind < 9:
            value = query(rng)
        else:
            value = mixed(rng, 200)
        pairs.append(
            name
            + rng.choice(("=", "=", "=", "=", "", "=="))
            + quote_plus(value, errors=rng.choice(("replace", "surrogatepass")))
        )
    return rng.choice(("&", "&", "&", ";", "&&")).join(pairs)


def address(rng: random.Random, routes: Sequence[tuple[str, Sequence[str]]]) -> bytes:
    """Generate a GET request of a route, with known and unknown parameters."""
    rule, names = rng.choice(routes)
    path = "/".join(_step(rng, step) for step in rule.split("/"))
    headers = {
        rng.choice(HEADERS): rng.choice((*HEADER_VALUES, *VALUES)).replace("\r", "").replace("\n", "")
        for _ in range(rng.choice((0, 0, 0, 1, 1, 3)))
    }
    asked = query_string(rng, names)
    if names and "q" in names and rng.random() < 0.5:
        asked = f"q={quote_plus(query(rng), errors='replace')}&{asked}"
    where = path + ("?" + asked if rng.random() < 0.85 else "")
    return request(
        rng.choice(("GET", "GET", "GET", "GET", "HEAD", "OPTIONS")), where[:LONGEST_ADDRESS], b"", headers
    )


def _step(rng: random.Random, step: str) -> str:
    """Generate a part of a path, with a value for a variable of the rule."""
    if not step.startswith("<"):
        return step if rng.random() < 0.99 else step + quote(piece(rng, PIECES), errors="replace")
    if "int" in step:
        return rng.choice(
            (
                "0",
                "1",
                "2",
                "16",
                "17",
                "200",
                "206",
                "207",
                "-1",
                "01",
                "9" * 18,
                "9223372036854775807",
                "9" * 400,
                "1.0",
                "x",
                "%00",
                "٣",
            )
        )
    value = rng.choice(
        (rng.choice(VALUES), "lava", "volcano", "bank", "console/console.css", "../app.py", nested(rng, 200))
    )
    return quote(value, safe="/" if rng.random() < 0.3 else "", errors="replace")
