"""Random requests with wrong keys, owners and names: none is answered from a foreign collection or owner.

`SHOAL_TEST_LONG=1` sends 100,000. Every text that is stored has a marker of its collection and, if it is a
note, of its owner, and every text that a request stores has a marker of its sender.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import flask
import pytest
from key_service import FOREIGN, MISSING, OWN, address_of, key_service
from surface import Worker

from shoal.access.key_store import KeyStore
from shoal.access.operations import OPERATIONS, Operation
from shoal.models.keys import Needed
from shoal_api.service import EXTENSION, Service

REQUESTS = 100_000 if os.environ.get("SHOAL_TEST_LONG") else 1_000
COLLECTIONS = ("main", OWN, FOREIGN)
OWNERS = ("ann", "ben", "default")
WITH_QUERY = frozenset(
    {
        ("GET", "/api/v1/search"),
        ("GET", "/api/v1/suggest"),
        ("GET", "/"),
        ("GET", "/notes"),
        ("GET", "/explain"),
        ("GET", "/notes/explain"),
    }
)
"""Operations with a query in their address."""
OF_TEXTS = re.compile(
    r"(GET|POST) (/api/v1)?(/|/search(/batch)?|/retrieve|/verify|/explain|/chunks/.*|/documents(/.*)?|/notes(/.*)?"
    r"|/users/.*|/hooks/.*)"
)
"""Operations that return texts, which make up half of the requests."""

LEFT_OUT = frozenset({("GET", "/api/v1/jobs/{job_id}/events")})
"""An event stream lasts until its job ends; its rights are tested cell by cell."""


@dataclass(frozen=True)
class Sender:
    """A key, and what it may see and change: collections, and owners of notes (None for any)."""

    name: str
    authorization: str
    reads: frozenset[str]
    writes: frozenset[str]
    owners: frozenset[str] | None = None


def marker_of(collection: str, owner: str | None = None) -> str:
    return f"marker{collection}document" if owner is None else f"marker{collection}owner{owner}"


MARKERS = {marker_of(name): (name, None) for name in COLLECTIONS} | {
    marker_of(name, owner): (name, owner) for name in COLLECTIONS for owner in OWNERS
}
MARKER = re.compile(r"marker(?:main|own|foreign)(?:document|owner(?:ann|ben|default))")
SENT = re.compile(r"sentby(\w+?)x")


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, migrated: Path
) -> Iterator[tuple[flask.Flask, list[Sender]]]:
    with key_service(tmp_path_factory.mktemp("fuzz"), migrated) as (app, headers):
        here: Service = app.extensions[EXTENSION]
        store = KeyStore(here.collections.catalog)
        every, own, none = frozenset(COLLECTIONS), frozenset({OWN}), frozenset[str]()
        senders = [Sender("nobody", "", none, none)]
        senders += [Sender(name, headers[name], none, none) for name in ("wrong", "expired", "revoked")]
        senders += [
            Sender("ownread", headers["own read"], own, none),
            Sender("ownwrite", headers["own write"], own, own),
            Sender("ownadmin", headers["own admin"], own, own),
            Sender("allread", headers["all read"], every, none),
        ]
        for name, scopes, owners in (
            ("annwrites", [(OWN, "write")], ["ann"]),
            ("annreads", [("*", "read")], ["ann"]),
            ("bothwrite", [(OWN, "write"), ("main", "read")], ["ann", "ben"]),
        ):
            key = store.create(name, scopes, owners=owners).key
            reads = every if scopes[0][0] == "*" else frozenset(each[0] for each in scopes)
            writes = frozenset(each[0] for each in scopes if each[1] == "write")
            senders.append(Sender(name, f"Bearer {key}", reads, writes, frozenset(owners)))
        for name in COLLECTIONS:
            with here.collections.engine(name) as engine:
                engine.ingest(
                    content=f"Lava rose, {marker_of(name)}. The rock is hot.", title=marker_of(name)
                )
                for owner in OWNERS:
                    engine.notes.of(owner).add(f"Lava is hot, {marker_of(name, owner)}.", title="lava")
        yield app, senders


def path_of(operation: Operation, chance: random.Random) -> str:
    """Return a URL of an operation with random parameters, in a random way of naming a collection."""
    name = chance.choice([None, "main", OWN, FOREIGN])
    if chance.random() < 0.1:
        name = chance.choice([MISSING, "..", "%2e%2e", "a'--", "own%00", ""])
    path = address_of(operation, name)
    path = re.sub(r"(?<=/)1(?=/|$)", lambda _: str(chance.randint(1, 4)), path)
    path = path.replace("ann/x", chance.choice([*OWNERS, "ann%2F..%2Fben", "ann%20"]))
    if chance.random() < 0.05:
        path = chance.choice(
            [path[0] + path[1:].replace("/", "//", 1), f"{path}/", f"/{OWN}/..{path}", path.upper()]
        )
    query = {}
    if ("/notes" in path or "/hooks" in path) and chance.random() < 0.5:
        query["owner"] = chance.choice([*OWNERS, *OWNERS, "Ann", "*", ""])
    if (operation.method, operation.path) in WITH_QUERY:
        query["q"] = "lava"
    return f"{path}?{urlencode(query)}" if query else path


def body_of(operation: Operation, sender: Sender, chance: random.Random) -> dict[str, Any]:
    """Return a body that the operation may accept, which names its sender."""
    text = f"Lava of sentby{sender.name}x, {chance.randint(0, 50)}."
    owner = {"owner": chance.choice(OWNERS)} if chance.random() < 0.4 else {}
    path = operation.path
    bodies: dict[str, dict[str, Any]] = {
        "/api/v1/documents": {"content": text},
        "/api/v1/search": {"query": "lava", **({"units": ["chunk", "note"], **owner} if owner else {})},
        "/api/v1/search/batch": {"searches": [{"query": "lava"}]},
        "/api/v1/explain": {"query": "lava"},
        "/api/v1/retrieve": {"query": "lava"},
        "/api/v1/verify": {"text": "Lava is hot."},
        "/api/v1/facets": {"facets": ["tags"]},
        "/api/v1/notes": {"text": text, **owner},
        "/api/v1/notes/search": {"query": "lava", **owner},
        "/api/v1/notes/pinned": {"environment": {}, **owner},
        "/api/v1/notes/{note_id}": {"text": text, **owner},
        "/api/v1/notes/{note_id}/explain": {"query": "lava", **owner},
        "/api/v1/notes/{note_id}/feedback": {"applicable": True, **owner},
        "/api/v1/notes/{note_id}/pin": {"tags": [], **owner},
        "/api/v1/notes/merges": {"note_ids": [1, 2], **owner},
        "/api/v1/notes/dedup": owner,
        "/api/v1/users/{user_id}/recall": {"query": "lava"},
        "/api/v1/users/{user_id}/remember": {"items": [{"content": text * 2, "topic": "t", "confidence": 1}]},
        "/api/v1/hooks/{event}": {"input": {"session_id": "s", "prompt": "lava"}, "environment": {}},
        "/api/v1/keys": {"name": "stolen", "scopes": [{"collection": "*", "right": "admin"}]},
        "/api/v1/collections": {"name": "stolen"},
        "/api/v1/synonyms": {"synonyms": [f"sentby{sender.name}x", "lava"]},
    }
    return bodies.get(path, owner)


@pytest.mark.timeout(3600 if REQUESTS > 10_000 else 180)
def test_no_request_is_answered_from_a_foreign_collection_or_owner(
    service: tuple[flask.Flask, list[Sender]],
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    app, senders = service
    chance = random.Random(19)
    client = app.test_client()
    by_address = sorted(OPERATIONS, key=lambda each: (each.path, each.method))
    operations = [each for each in by_address if (each.method, each.path) not in LEFT_OUT]
    of_texts = [each for each in operations if OF_TEXTS.fullmatch(f"{each.method} {each.path}")]
    statuses: Counter[int] = Counter()
    n_seen = 0
    for _ in range(REQUESTS):
        sender, operation = chance.choice(senders), chance.choice(chance.choice([operations, of_texts]))
        path = path_of(operation, chance)
        headers = {"Authorization": sender.authorization} if sender.authorization else {}
        body = body_of(operation, sender, chance)
        response = client.open(
            path, method=operation.method, headers=headers, json=body if operation.method != "GET" else None
        )
        text = response.get_data(as_text=True)
        statuses[response.status_code] += 1
        seen = (sender.name, operation.method, path, json.dumps(body), response.status_code, text[:300])
        assert response.status_code < 500 or response.status_code == 503, seen
        for marker in set(MARKER.findall(text)):
            n_seen += 1
            collection, owner = MARKERS[marker]
            assert collection in sender.reads, seen
            assert owner is None or sender.owners is None or owner in sender.owners, seen
        if operation.needed in (Needed.grant, Needed.manage) and "<title>Key needed" not in text:
            assert response.status_code in (401, 403, 404, 308), seen
    assert n_seen > REQUESTS / 100, "keys see what is theirs"
    assert min(statuses[status] for status in (200, 401, 403, 404)) > REQUESTS / 100, statuses
    check_what_was_stored(app, senders)
    line = f"{REQUESTS:,} requests, {n_seen:,} markers seen, {dict(sorted(statuses.items()))}"
    record_testsuite_property("fuzz of keys", line)
    sys.stdout.write(line + "\n")


def check_what_was_stored(app: flask.Flask, senders: list[Sender]) -> None:
    """Every text in a collection, and every note of an owner, was sent by a key that may write there."""
    here: Service = app.extensions[EXTENSION]
    by_name = {sender.name: sender for sender in senders}
    n_stored = 0
    assert {each.name for each in here.collections.list().collections} == set(COLLECTIONS)
    assert not [each for each in KeyStore(here.collections.catalog).page(100).keys if each.name == "stolen"]
    for name in COLLECTIONS:
        with here.collections.engine(name) as engine:
            Worker(engine).work()
            texts = [
                (None, engine.documents.content(document.id))
                for document in engine.documents.list(limit=1000).documents
            ]
            for owner in OWNERS:
                notes = engine.notes.of(owner).list(limit=1000, include_deprecated=True).notes
                texts += [(owner, note.text) for note in notes]
        for owner, text in texts:
            for sent_by in SENT.findall(text):
                n_stored += 1
                sender = by_name[sent_by]
                assert name in sender.writes, (name, text)
                assert owner is None or sender.owners is None or owner in sender.owners, (name, owner, text)
    assert n_stored, "keys that may write stored something"
