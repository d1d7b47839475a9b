"""Inputs that every run begins with: one valid input for each target, and inputs that once caused a fault."""

from __future__ import annotations

import gzip
import json

from fuzz_archives import cut_sparse_file, endless_file, global_headers, long_names
from fuzz_requests import API, DOCUMENT, EXPLAIN, JSON, NOTE, SEARCH, VERIFY, request
from fuzz_texts import PROSE

GOOD = {
    "markdown": f"---\ntitle: A\ntags: [a]\n---\n# One\n\n{PROSE}\n\n## Two\n\n{PROSE}\n".encode(),
    "plaintext": f"CHAPTER I\n\n{PROSE}\n\nCHAPTER II\n\n{PROSE}\n".encode(),
    "encodings": PROSE.replace("crust", "crôute").encode("cp1252"),
    "query": b'lava "of the volcano" -jury title:bees',
    "ingest": PROSE.encode() * 3,
    "documents": request("POST", f"{API}/documents", json.dumps(DOCUMENT).encode(), {"Content-Type": JSON}),
    "search": request("POST", f"{API}/search", json.dumps(SEARCH).encode(), {"Content-Type": JSON}),
    "notes": request("POST", f"{API}/notes", json.dumps(NOTE).encode(), {"Content-Type": JSON}),
    "addresses": request("GET", "/?q=lava&mode=hybrid"),
    "multipart": b'1 x\n--x\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\nLava.\r\n--x--\r\n',
}  # fmt: skip


def _post(what: str, body: object) -> bytes:
    return request("POST", f"{API}/{what}", json.dumps(body).encode(), {"Content-Type": JSON})


FRONT_MATTER = "---\n" + "# " * 34 + "\n!\n---\n"
HEADING = "== a" + "_" * 40_000 + "b =="

FAULTS: dict[str, list[bytes]] = {
    "markdown": [FRONT_MATTER.encode(), FRONT_MATTER.replace("---", "+++").encode(), b"# " + b" " * 19_000, b" FIRST\n,aHE" * 30_000],
    "plaintext": [HEADING.encode(), b"== a ==\na\n\n" * 66_000],
    "tar": [gzip.compress(global_headers(5000, 3900), mtime=0), endless_file(), cut_sparse_file(), long_names(150)],
    "query": [b'"' + b"a " * 1000 + b'"', b"a-" * 1000],
    "documents": [
        _post("documents", {"content": FRONT_MATTER + "Hello world.\n", "format": "markdown"}),
        _post("documents", {"content": "a", "tags": [1] * 400_000}),
        _post("documents", {"content": "a", "metadata": {"a": [[]] * 500_000}}),
    ],
    "search": [_post("search", {"query": "lava", "filters": {"tags": [1] * 100_000}}), _post("explain", EXPLAIN), _post("verify", VERIFY)],
    "addresses": [
        request("GET", f"/?q=hello&{name}=x")
        for name in ("endpoint", "_method", "_anchor", "_external", "_scheme")
    ]
    + [b"GET /jobs?\xff\n\n"],
    "multipart": [b"1 x:y\n--x:y" + b" " * 65 + b"\r\n\r\n--x:y--x:y\r\n\r", b"1 x\n" + b'--x\r\nContent-Disposition: form-data; name=""\r\n\r\n\r\n' * 20_000 + b"--x--\r\n"],
}  # fmt: skip


def seeds(target: str) -> list[bytes]:
    """Return the inputs that a run of a target begins with."""
    good = [GOOD[target]] if target in GOOD else []
    return good + FAULTS.get(target, [])
