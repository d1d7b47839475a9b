"""Search tokens over HTTP: which are accepted, what they may do, and what they see."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import flask
import jwt
import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO
from werkzeug.test import TestResponse

from shoal.access import operations
from shoal.access.key_store import KeyStore
from shoal.client import make_token
from shoal.engine import Engine
from shoal.settings import Settings
from shoal.support.search_tokens import SKEW_SECONDS, new_pair
from shoal_api import create_app
from shoal_api.access import EXTENSION as GATE
from shoal_api.service import EXTENSION, Service

PAIR = new_pair()
OTHER_PAIR = new_pair()


@dataclass
class World:
    """A service with a key that signs tokens, and documents of two groups."""

    app: flask.Flask
    store: KeyStore
    key_id: str
    key: str
    ids: dict[str, int]
    engine: Engine

    @property
    def client(self) -> FlaskClient:
        return self.app.test_client()

    def token(self, *principals: str, **claims: Any) -> str:
        values = {"collections": ["main"], "seconds": 600, **claims}
        return make_token(self.key_id, PAIR[0], principals=principals, **values)

    def signed(self, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token with any claims, signed with the right key."""
        now = int(time.time())
        values = {"jti": "t", "iat": now, "exp": now + 600, "collections": ["main"], **claims}
        values = {name: value for name, value in values.items() if value is not None}
        headers = {"kid": self.key_id, **(header or {})}
        return jwt.encode(values, PAIR[0], algorithm="EdDSA", headers=headers)

    def ask(self, token: str, method: str = "POST", path: str = "/search", **request: Any) -> TestResponse:
        if (method, path) == ("POST", "/search"):
            request = {"json": {"query": "volcano flower judge"}, **request}
        headers = {"Authorization": f"Bearer {token}", **request.pop("headers", {})}
        return self.client.open(f"{API}{path}", method=method, headers=headers, **request)

    def forget(self) -> None:
        self.app.extensions[GATE].authenticator.forget()


@pytest.fixture
def world(tmp_path: Path, migrated: Path) -> Iterator[World]:
    path = tmp_path / "shoal.db"
    path.write_bytes(migrated.read_bytes())
    settings = Settings(
        database_url=f"sqlite:///{path}", key_cache_seconds=0, cors_origins="https://app.example"
    )
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        app = create_app(settings, engine=engine)
        service: Service = app.extensions[EXTENSION]
        service.collections.create("other")
        store = KeyStore(service.collections.catalog)
        created = store.create("app", [("main", "read"), ("other", "read")])
        store.set_public_key(created.details.id, PAIR[1])
        ids = {
            name: engine.ingest(content=text, allow=[f"group:{name}"], metadata={"kind": name, "n": 1}).id
            for name, text in (("red", VOLCANO), ("blue", FLOWER))
        }
        ids["all"] = engine.ingest(content=LAW, metadata={"kind": "all"}).id
        yield World(app, store, created.details.id, created.key, ids, engine)  # type: ignore[arg-type]
        service.collections.close()


def documents_of(response: TestResponse) -> set[int]:
    assert response.status_code == 200, response.get_data(as_text=True)
    return {result["document_id"] for result in response.get_json()["results"]}


def test_a_token_finds_what_its_principals_may_see(world: World) -> None:
    ids = world.ids
    assert documents_of(world.ask(world.token())) == {ids["all"]}
    assert documents_of(world.ask(world.token("group:red"))) == {ids["red"], ids["all"]}
    assert documents_of(world.ask(world.token("group:red", "group:blue"))) == set(ids.values())
    assert documents_of(world.ask(world.token("group:blue", filter="kind = blue"))) == {ids["blue"]}
    assert documents_of(world.ask(world.token("group:red", filter={"kind": "blue"}))) == set()
    assert documents_of(world.ask(world.key)) == set(ids.values())


def test_every_read_is_restricted(world: World) -> None:
    ids, token = world.ids, world.token("group:red", hidden=["n"])
    listed = world.ask(token, "GET", "/documents").get_json()
    assert {each["id"] for each in listed["documents"]} == {ids["red"], ids["all"]}
    assert listed["total"] == 2
    assert all("n" not in each["metadata"] and each["allow"] is None for each in listed["documents"])
    shown = world.ask(token, "GET", f"/documents/{ids['red']}").get_json()
    assert shown["chunks"]
    (counted,) = world.ask(token, "GET", "/facets?facets=kind").get_json()["facets"]
    assert {value["value"] for value in counted["values"]} == {"red", "all"}
    batch = world.ask(token, path="/search/batch", json={"searches": ["volcano", "flower"]}).get_json()
    found = [{each["document_id"] for each in answer["answer"]["results"]} for answer in batch["answers"]]
    assert set().union(*found) <= {ids["red"], ids["all"]}
    lines = world.ask(token, headers={"Accept": "application/x-ndjson"})
    assert str(ids["blue"]) not in {
        str(json.loads(line).get("result", {}).get("document_id")) for line in lines.text.splitlines()
    }
    retrieved = world.ask(token, path="/retrieve", json={"query": "flower petal"}).get_json()
    assert all(each["metadata"]["document_id"] != ids["blue"] for each in retrieved["results"])
    problem = world.ask(token, path="/search", json={"query": "x", "filter": "n = 1"})
    assert problem.status_code == 422
    assert world.ask(token, "GET", "/search?q=volcano").status_code == 200
    assert world.ask(token, "GET", "/suggest?q=pe").get_json()["suggestions"] == []


@pytest.mark.parametrize(
    "address", ["/documents/{}", "/documents/{}/content", "/documents/{}/chunks", "/documents/{}/file"]
)
def test_a_foreign_document_is_like_a_missing_one(world: World, address: str) -> None:
    token = world.token("group:red")
    answers = []
    for document_id in (world.ids["blue"], 4_711):
        response = world.ask(token, "GET", address.format(document_id))
        body = response.get_json()
        body.pop("trace_id")
        text = json.dumps(body).replace(str(document_id), "ID")
        headers = {name for name, _ in response.headers}
        answers.append((response.status_code, text, headers))
    assert answers[0] == answers[1]
    assert answers[0][0] == 404
    explained = [
        world.ask(token, path="/explain", json={"query": "flower", "document_id": document_id})
        for document_id in (world.ids["blue"], 4_711)
    ]
    assert [each.status_code for each in explained] == [404, 404]


def test_an_operation_is_refused_unless_it_is_declared_for_tokens(world: World) -> None:
    """By default: routes that are not declared to be for tokens get 403 before their view."""
    token = world.token("group:red", owner="1")
    n = 0
    for rule in world.app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"OPTIONS"}:
            path = operations.path_of_rule(rule.rule)
            if operations.needed_by_rule(method, rule.rule) == "public":
                continue
            is_open = operations.is_for_tokens(method, rule.rule)
            address = path.replace("{document_id}", "1").replace("{chunk_id}", "1")
            address = "/".join("1" if part.startswith("{") else part for part in address.split("/"))
            response = world.client.open(
                address, method=method, headers={"Authorization": f"Bearer {token}"}, json={}
            )
            if is_open:
                n += 1
                assert response.status_code != 403, (method, path)
            else:
                # 404 for a value that the route does not take.
                assert response.status_code in (403, 404), (method, path, response.status_code)
                assert "volcano" not in response.text
    # HEAD beside each GET.
    assert n == 2 * 14 + 9
    assert {
        each.path for each in operations.OPERATIONS if each.for_tokens and not each.names_collection
    } == {
        f"{API}/{path}"
        for path in (
            "documents", "documents/{document_id}", "documents/{document_id}/chunks", "chunks/{chunk_id}",
            "documents/{document_id}/content", "documents/{document_id}/file", "suggest", "retrieve", "search",
            "search/batch", "facets", "explain", "notes", "notes/categories", "notes/search", "notes/pinned",
            "notes/{note_id}", "notes/{note_id}/history", "notes/{note_id}/feedback",
            "notes/{note_id}/explain", "users/{user_id}/recall",
        )
    }  # fmt: skip


def tampered(world: World) -> dict[str, str]:
    now = int(time.time())
    claims = {"jti": "t", "iat": now, "exp": now + 600, "collections": ["main"]}
    good = world.signed()
    head, body, signature = good.split(".")

    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    public = base64.urlsafe_b64decode(PAIR[1] + "=")
    return {
        "alg none": f"{part({'alg': 'none', 'kid': world.key_id})}.{body}.",
        "alg None": f"{part({'alg': 'None', 'kid': world.key_id})}.{body}.{signature}",
        "HS256 with the public key": jwt.encode(
            claims, public, algorithm="HS256", headers={"kid": world.key_id}
        ),
        "HS256 with its text": jwt.encode(claims, PAIR[1], algorithm="HS256", headers={"kid": world.key_id}),
        "EdDSA in name, HS256 in fact": f"{head}.{body}."
        + jwt.encode(claims, public, algorithm="HS256").rsplit(".", 1)[1],
        "another key": jwt.encode(claims, OTHER_PAIR[0], algorithm="EdDSA", headers={"kid": world.key_id}),
        "unknown key": jwt.encode(claims, PAIR[0], algorithm="EdDSA", headers={"kid": "0" * 16}),
        "no key": jwt.encode(claims, PAIR[0], algorithm="EdDSA"),
        "key in the header": world.signed({"jwk": {"kty": "OKP"}}),
        "critical header": world.signed({"crit": ["b64"], "b64": False}),
        "changed body": f"{head}.{part({**claims, 'principals': ['group:red']})}.{signature}",
        "no signature": f"{head}.{body}.",
        "nested": f"{head}.{base64.urlsafe_b64encode(b'[' * 9_000).decode()}.{signature}",
        "64 KB": world.signed(sub="x" * 64_000),
        "10,000 principals": world.signed(principals=[f"user:{n}" for n in range(10_000)]),
        "1,001 principals": world.signed(principals=[f"u:{n}" for n in range(1_001)]),
        "bad principal": world.signed(principals=["staff"]),
        "principals as a text": world.signed(principals="group:red"),
        "an hour in the future": world.signed(iat=now + 3_600, exp=now + 4_200),
        "an hour old": world.signed(iat=now - 3_600, exp=now - 3_000),
        "too long a life": world.signed(exp=now + 3_601),
        "no expiry": world.signed(exp=None),
        "no issue": world.signed(iat=None),
        "no id": world.signed(jti=None),
        "expiry before issue": world.signed(iat=now + 30, exp=now + 20),
        "expiry as a text": world.signed(exp=str(now + 600)),
        "infinite expiry": world.signed(exp=1e999),
        "expiry true": world.signed(exp=True),
        "no collections": world.signed(collections=None),
        "empty collections": world.signed(collections=[]),
        "unknown claim": world.signed(filters="kind = red"),
        "not before": world.signed(nbf=now - 5),
        "filter that is no expression": world.signed(filter="kind = = red"),
        "filter over passages": world.signed(filter="page > 3"),
        "empty filter": world.signed(filter=""),
        "filter without conditions": world.signed(filter={}),
        "nested filter": world.signed(filter="(" * 2_000 + "a = 1" + ")" * 2_000),
        "filter as a list": world.signed(filter=["a = 1"]),
        "hidden as a text": world.signed(hidden="salary"),
        "rate 0": world.signed(rate=0),
        "owner as a number": world.signed(owner=3),
        "two parts": f"{head}.{body}",
        "four parts": f"{good}.x",
        "not base64": "a.b.c",
    }


def test_tokens_that_are_not_valid_are_refused(world: World) -> None:
    assert world.ask(world.signed()).status_code == 200
    for name, token in tampered(world).items():
        response = world.ask(token)
        assert response.status_code in (400, 401, 431), (name, response.status_code)


def test_clocks_may_differ_by_a_minute(world: World) -> None:
    now = int(time.time())
    assert world.ask(world.signed(iat=now + SKEW_SECONDS - 10, exp=now + 300)).status_code == 200
    assert world.ask(world.signed(iat=now - 300, exp=now - SKEW_SECONDS + 10)).status_code == 200
    assert world.ask(world.signed(iat=now - 300, exp=now - SKEW_SECONDS - 10)).status_code == 401


def test_a_token_that_expires_between_pages_gets_no_further_page(world: World) -> None:
    now = int(time.time())
    token = world.signed(principals=["group:red"], exp=now + 300)
    page = world.ask(token, json={"query": "volcano judge", "top_k": 1}).get_json()
    assert page["next_cursor"]
    body = {"query": "volcano judge", "top_k": 1, "cursor": page["next_cursor"]}
    assert world.ask(token, json=body).status_code == 200
    old = world.signed(principals=["group:red"], iat=now - 900, exp=now - 300)
    assert world.ask(old, json=body).status_code == 401


def test_tokens_are_revoked_by_id_by_time_and_with_their_key(world: World) -> None:
    first, second = world.token("group:red", jti="first"), world.token("group:red", jti="second")
    world.store.revoke_tokens(world.key_id, jti="first")
    assert [world.ask(each).status_code for each in (first, second)] == [401, 200]
    world.store.revoke_tokens(world.key_id, before=time.time() + 1)
    assert world.ask(second).status_code == 401
    later = world.signed(iat=int(time.time()) + 30, exp=int(time.time()) + 300)
    assert world.ask(later).status_code == 200
    world.store.set_public_key(world.key_id, OTHER_PAIR[1])
    assert world.ask(later).status_code == 401
    world.store.set_public_key(world.key_id, PAIR[1])
    world.store.revoke(world.key_id)
    assert world.ask(later).status_code == 401


def test_revocations_survive_a_restart(world: World) -> None:
    token = world.token(jti="gone")
    assert world.ask(token).status_code == 200
    world.store.revoke_tokens(world.key_id, jti="gone")
    settings = replace(world.engine.settings, key_cache_seconds=60.0)
    again = create_app(settings, engine=world.engine).test_client()
    headers = {"Authorization": f"Bearer {token}"}
    for _ in range(2):
        response = again.post(f"{API}/search", json={"query": "x"}, headers=headers)
        assert response.status_code == 401


def test_a_token_opens_only_the_collections_that_it_and_its_key_name(world: World) -> None:
    service: Service = world.app.extensions[EXTENSION]
    other = world.token(collections=["other"])
    assert world.ask(other).status_code == 404
    assert world.ask(other, path="/collections/other/search", json={"query": "x"}).status_code == 200
    assert world.ask(world.token(), path="/collections/other/search", json={"query": "x"}).status_code == 404
    service.collections.create("third")
    third = world.token(collections=["third", "missing"])
    assert world.ask(third, path="/collections/third/search", json={"query": "x"}).status_code == 404
    # A key follows the name in a swap, and so does its token.
    service.collections.swap("other", "third")
    assert world.ask(other, path="/collections/other/search", json={"query": "x"}).status_code == 200
    assert world.ask(other, path="/collections/third/search", json={"query": "x"}).status_code == 404
    service.collections.delete("other")
    assert world.ask(other, path="/collections/other/search", json={"query": "x"}).status_code == 404
    service.collections.create("other")
    assert world.ask(other, path="/collections/other/search", json={"query": "x"}).status_code == 404


def test_rights_are_those_of_the_moment(world: World) -> None:
    token = world.token("group:blue")
    assert documents_of(world.ask(token)) == {world.ids["blue"], world.ids["all"]}
    world.engine.documents.replace(world.ids["blue"], content=FLOWER, deny=["group:blue"])
    assert documents_of(world.ask(token)) == {world.ids["all"]}


@pytest.mark.parametrize(
    "tree",
    [
        "tennant = red",
        'NOT tennant = "red"',
        "tennant = red OR kind = blue",
        "NOT (tennant = red AND kind = red)",
        {"$or": [{"kind": "red"}, {"kind.deeper": "x"}]},
        "allow = everyone",
        "(" * 12 + "NOT tennant EXISTS" + ")" * 12,
    ],
)
def test_a_filter_over_a_key_that_no_document_has_shows_nothing(world: World, tree: Any) -> None:
    token = world.token("group:red", "group:blue", filter=tree)
    assert documents_of(world.ask(token)) == set()
    assert world.ask(token, "GET", "/documents").get_json()["total"] == 0
    assert world.ask(token, "GET", f"/documents/{world.ids['all']}").status_code == 404


def test_a_token_has_its_own_rate(world: World) -> None:
    token = world.token(rate=0.001, jti="slow")
    assert [world.ask(token).status_code for _ in range(2)] == [200, 429]
    assert world.ask(world.token(jti="fast")).status_code == 200


def test_a_key_may_not_be_bound_to_other_owners(world: World) -> None:
    created = world.store.create("ann", [("main", "read")], owners=["ann"])
    world.store.set_public_key(created.details.id, PAIR[1])
    make: Callable[[str], str] = lambda owner: make_token(  # noqa: E731
        created.details.id, PAIR[0], collections=["main"], seconds=60, owner=owner
    )
    assert world.ask(make("ann")).status_code == 200
    assert world.ask(make("bob")).status_code == 401
    notes = world.ask(make("ann"), json={"query": "x", "units": ["chunk", "note"]})
    assert notes.status_code == 403


def test_a_token_reads_the_notes_of_its_owner_alone(world: World) -> None:
    own, other = (
        world.engine.notes.of(owner).add(f"{owner} likes the volcano", categories=[owner]).note.id
        for owner in ("ann", "bob")
    )
    token = world.token(owner="ann")
    body = {"query": "volcano", "environment": {}}
    reads: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "/notes", {}),
        ("GET", "/notes?owner=ann", {}),
        ("GET", "/notes/categories", {}),
        ("GET", f"/notes/{own}", {}),
        ("GET", f"/notes/{own}/history", {}),
        ("GET", f"/notes/{own}/feedback", {}),
        ("POST", "/notes/search", {"json": {"query": "volcano"}}),
        ("POST", "/notes/pinned", {"json": {}}),
        ("POST", f"/notes/{own}/explain", {"json": body}),
        ("POST", "/users/ann/recall", {"json": {"query": "volcano"}}),
    ]
    for method, path, request in reads:
        response = world.ask(token, method, path, **request)
        assert response.status_code == 200, (path, response.text)
        assert "bob" not in response.text
        assert "Shoal-Written" not in response.headers
        without = world.ask(world.token(), method, path, **request)
        assert (without.status_code, "volcano" in without.text) == (403, False)
        assert "has no `owner`" in without.get_json()["detail"]
    assert world.ask(token, "POST", "/notes/search", json={"query": "volcano"}).get_json()["results"]
    foreign = [world.ask(token, "GET", f"/notes/{note_id}") for note_id in (other, 4_711)]
    assert [each.status_code for each in foreign] == [404, 404]
    recalled = world.ask(token, "POST", "/users/bob/recall", json={"query": "volcano"})
    assert recalled.status_code == 403
    for method, path in (
        ("GET", "/notes?owner=bob"),
        ("POST", "/notes"),
        ("GET", "/notes/status"),
        ("DELETE", f"/notes/{own}/pin"),
        ("POST", f"/notes/{own}/forget"),
        ("POST", "/hooks/prompt"),
    ):
        refused = world.ask(token, method, path, json={"query": "volcano", "text": "x", "input": {}})
        assert refused.status_code == 403, (path, refused.text)
    mixed = world.ask(token, json={"query": "volcano", "units": ["note"], "owner": "ann"})
    assert (mixed.status_code, mixed.get_json()["code"]) == (403, "not_for_tokens")


def test_public_keys_are_managed_over_http(world: World) -> None:
    admin = world.store.create("root", [("*", "admin")]).key
    address = f"/keys/{world.key_id}/public-key"
    changed = world.ask(admin, "PUT", address, json={"public_key": OTHER_PAIR[1]})
    assert changed.get_json()["public_key"] == OTHER_PAIR[1]
    for wrong in ("x", "A" * 42, "-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----", 7):
        assert world.ask(admin, "PUT", address, json={"public_key": wrong}).status_code == 422
    revoked = world.ask(admin, "POST", f"/keys/{world.key_id}/tokens/revoke", json={})
    assert revoked.get_json()["tokens_before"] is not None
    assert world.ask(admin, "POST", f"/keys/{world.key_id}/tokens/revoke").status_code == 200
    one = world.ask(admin, "POST", f"/keys/{world.key_id}/tokens/revoke", json={"jti": "x"})
    assert one.status_code == 200
    both = {"jti": "x", "before": "2020-01-01T00:00:00Z"}
    assert world.ask(admin, "POST", f"/keys/{world.key_id}/tokens/revoke", json=both).status_code == 422
    assert world.ask(world.key, "PUT", address, json={"public_key": ""}).status_code == 403
    rotated = world.ask(admin, "POST", f"/keys/{world.key_id}/rotate").get_json()
    assert rotated["details"]["public_key"] == OTHER_PAIR[1]


def test_a_refusal_names_what_was_asked_for(world: World) -> None:
    token = world.token(owner="ann")
    refused = world.ask(token, "GET", "/status")
    assert (refused.status_code, refused.get_json()["code"]) == (403, "not_for_tokens")
    assert "GET /api/v1/status" in refused.get_json()["detail"]
    refused = world.ask(token, json={"query": "volcano", "units": ["chunk", "note"]})
    assert (refused.status_code, refused.get_json()["code"]) == (403, "not_for_tokens")
    assert "passages and notes together (units)" in refused.get_json()["detail"]


def test_a_body_is_refused_before_it_arrives(world: World) -> None:
    gate = world.app.extensions[GATE]
    with pytest.raises(Exception, match="not for search tokens"):
        gate.check("POST", f"{API}/documents/bulk", f"Bearer {world.token()}")
    gate.check("POST", f"{API}/search", f"Bearer {world.token()}")


ORIGIN = {"Origin": "https://app.example"}


def test_a_listed_page_may_search_with_a_token_and_not_with_a_key(world: World) -> None:
    asked = {**ORIGIN, "Access-Control-Request-Method": "POST"}
    preflight = world.client.open(f"{API}/search", method="OPTIONS", headers=asked)
    assert preflight.status_code == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == ORIGIN["Origin"]
    assert preflight.headers["Access-Control-Allow-Methods"] == "POST"
    assert "Authorization" in preflight.headers["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in preflight.headers
    found = world.ask(world.token("group:red"), headers=ORIGIN)
    assert found.status_code == 200
    assert found.headers["Access-Control-Allow-Origin"] == ORIGIN["Origin"]
    assert "Origin" in found.headers["Vary"]
    # The page can read why it was refused.
    refused = world.ask("a.b.c", headers=ORIGIN)
    assert (refused.status_code, refused.headers["Access-Control-Allow-Origin"]) == (401, ORIGIN["Origin"])
    with_key = world.ask(world.key, headers=ORIGIN)
    assert with_key.status_code == 403
    assert "search tokens and no keys" in with_key.text


def test_other_pages_and_other_operations_get_no_leave(world: World) -> None:
    for origin in ("https://evil.example", "https://app.example.evil", "http://app.example", "null"):
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        preflight = world.client.open(f"{API}/search", method="OPTIONS", headers=asked)
        found = world.ask(world.token(), headers={"Origin": origin})
        for response in (preflight, found):
            assert "Access-Control-Allow-Origin" not in response.headers
    asked = {**ORIGIN, "Access-Control-Request-Method": "DELETE"}
    preflight = world.client.open(f"{API}/documents/1", method="OPTIONS", headers=asked)
    assert "Access-Control-Allow-Methods" not in preflight.headers
    assert world.ask(world.key).status_code == 200
