"""Keys over REST and on their page: create, list, revoke, rotate; owners, rates, metrics, several processes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest
from flask.testing import FlaskClient
from surface import API, assert_problem

from shoal.access.key_store import KeyStore
from shoal.collections.catalog import Catalog
from shoal.engine import Engine
from shoal.jobs.queue.dedup_items import submit_due_dedup
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.access import RATE_LIMIT
from shoal_api.server import Admission

KEYS = f"{API}/keys"
ADMIN = {"Authorization": "Bearer admin-0123456789abcdef"}
WRITE = {"Authorization": "Bearer write-0123456789abcdef"}
NEW = {"name": "web", "scopes": [{"collection": "main", "right": "write"}]}

Create = Callable[..., dict[str, str]]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, api_keys="admin:admin-0123456789abcdef,write:write-0123456789abcdef")


@pytest.fixture
def create(client: FlaskClient) -> Create:
    """Create a key; return the headers of its bearer."""

    def make(**fields: object) -> dict[str, str]:
        response = client.post(KEYS, json={**NEW, **fields}, headers=ADMIN)
        assert response.status_code == 201, response.get_data(as_text=True)
        return {"Authorization": f"Bearer {response.get_json()['key']}"}

    return make


@pytest.fixture
def store(settings: Settings) -> Iterator[KeyStore]:
    """The keys as another process sees them."""
    catalog = Catalog(settings)
    yield KeyStore(catalog)
    catalog.close()


def test_the_life_of_a_key_over_rest(client: FlaskClient) -> None:
    created = client.post(KEYS, json={**NEW, "expires_at": "2999-01-31T00:00:00+01:00"}, headers=ADMIN)
    assert_too_late = client.post(KEYS, json={**NEW, "expires_at": "2001-01-31"}, headers=ADMIN)
    assert_problem(created, 422, "expires_at")
    assert_problem(assert_too_late, 422, "expires_at")
    created = client.post(KEYS, json={**NEW, "expires_at": "2099-01-31T00:00:00+01:00"}, headers=ADMIN)
    assert created.status_code == 201
    key, details = created.get_json()["key"], created.get_json()["details"]
    assert details["expires_at"] == "2099-01-30T23:00:00.000Z"
    bearer = {"Authorization": f"Bearer {key}"}
    assert client.get(f"{API}/documents", headers=bearer).status_code == 200
    listed = client.get(KEYS, headers=ADMIN)
    assert listed.get_json() == {"keys": [details], "total": 1}
    assert key not in listed.get_data(as_text=True)
    one = f"{KEYS}/{details['id']}"
    assert client.get(one, headers=ADMIN).get_json() == details
    rotated = client.post(f"{one}/rotate", headers=ADMIN).get_json()
    assert_problem(client.get(f"{API}/documents", headers=bearer), 401)
    bearer = {"Authorization": f"Bearer {rotated['key']}"}
    assert client.get(f"{API}/documents", headers=bearer).status_code == 200
    assert client.delete(f"{KEYS}/{rotated['details']['id']}", headers=ADMIN).status_code == 204
    problem = assert_problem(client.get(f"{API}/documents", headers=bearer), 401)
    assert "revoked" in problem["detail"]
    assert client.get(f"{KEYS}?only_active=true", headers=ADMIN).get_json()["total"] == 0
    assert_problem(client.post(f"{one}/rotate", headers=ADMIN), 422, "id")
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/rotate")):
        assert_problem(client.open(f"{KEYS}/unknown{path}", method=method, headers=ADMIN), 404)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": [{"collection": "nope", "right": "read"}]}, "scopes"),
        ({"scopes": [{"collection": "main", "right": "root"}]}, "scopes.0.right"),
        ({"scopes": [{"collection": "main"}]}, "scopes.0.right"),
        ({"owners": []}, "owners"),
        ({"requests_per_second": 0}, "requests_per_second"),
        ({"requests_per_second": 5e-324}, "requests_per_second"),
        ({"expires_at": "tomorrow"}, "expires_at"),
        ({"expires_at": "0001-01-01T00:00:00"}, "expires_at"),
        ({"key": "chosen-by-me-0123456789"}, "key"),
    ],
)
def test_bad_keys_are_refused(client: FlaskClient, changes: dict[str, object], field: str) -> None:
    assert_problem(client.post(KEYS, json={**NEW, **changes}, headers=ADMIN), 422, field)
    assert client.get(KEYS, headers=ADMIN).get_json()["total"] == 0


def test_a_scope_as_a_text_is_refused_with_the_form_of_an_object(client: FlaskClient) -> None:
    response = client.post(KEYS, json={**NEW, "scopes": ["main:read"]}, headers=ADMIN)
    problem = assert_problem(response, 422, "scopes.0")
    assert '{"collection": "main", "right": "read"}' in str(problem["errors"])


def test_a_key_bound_to_owners_names_no_other(client: FlaskClient, create: Create) -> None:
    """In notes, users, hooks and searches, by address and by body."""
    bound, other = create(owners=["ann", "team"]), create(owners=["ben"])
    client.post(f"{API}/notes", json={"text": "Lava of Ben.", "owner": "ben"}, headers=other)
    added = client.post(f"{API}/notes", json={"text": "Lava of Ann."}, headers=bound)
    assert added.headers["Location"].endswith("owner=ann"), "its first owner is the usual one"
    note = added.get_json()["note"]["id"]
    hook = {"input": {"session_id": "s", "prompt": "lava"}}
    for method, path, body in (
        ("GET", "/notes?owner=ben", None),
        ("GET", "/notes?owner=default", None),
        ("GET", "/notes?owner=*", None),
        ("GET", f"/notes/{note - 1}?owner=ben", None),
        ("POST", "/notes/search", {"query": "lava", "owner": "ben"}),
        ("POST", "/notes/search?owner=ben", {"query": "lava"}),
        ("POST", "/notes/bulk?owner=ben", [{"text": "x"}]),
        ("POST", "/users/ben/recall", {"query": "lava"}),
        ("POST", "/users/ben/remember", {"items": []}),
        ("POST", "/users/ann%2F..%2Fben/recall", {"query": "lava"}),
        ("POST", "/hooks/prompt?owner=ben", hook),
        ("POST", "/search", {"query": "lava", "units": ["note"], "owner": "ben"}),
        ("POST", "/search?owner=ben", {"query": "lava", "units": ["note"]}),
        ("GET", "/search?q=lava&units=note&owner=ben", None),
    ):
        problem = assert_problem(client.open(API + path, method=method, json=body, headers=bound), 403)
        assert "'ann', 'team'" in problem["detail"]
    page = client.get("/notes?owner=ben&q=lava", headers=bound)
    assert_problem(page, 403)
    found = client.post(f"{API}/search", json={"query": "lava", "units": ["note"]}, headers=bound)
    assert "Ben" not in found.get_data(as_text=True)
    assert client.get(f"{API}/notes?owner=team", headers=bound).get_json()["total"] == 0
    assert client.get(f"{API}/notes/{note}", headers=bound).status_code == 200
    assert_problem(client.get(f"{API}/notes/{note - 1}", headers=bound), 404)


def test_no_count_includes_notes_of_other_owners(client: FlaskClient, engine: Engine, create: Create) -> None:
    """Nor jobs that compare them, whose numbers are numbers of notes."""
    for owner in ("ann", "ben"):
        for i in range(3):
            note = {"text": f"Lava {i} of {owner}.", "owner": owner}
            client.post(f"{API}/notes", json=note, headers=WRITE)
    of_both = submit_due_dedup(engine.database, replace(engine.settings, note_dedup_hours=1))
    assert of_both is not None
    job = client.post(f"{API}/notes/dedup?owner=ben", headers=WRITE).get_json()["job"]["id"]
    upload = client.post(f"{API}/documents", json={"content": "Lava flows."}, headers=WRITE)
    upload_id = upload.get_json()["job"]["id"]

    def counts(headers: dict[str, str]) -> tuple[Any, ...]:
        status, jobs, shown = (
            client.get(f"{API}/{path}", headers=headers).get_json()
            for path in ("status", "jobs", "collections/main")
        )
        page = client.get("/status", headers=headers).get_data(as_text=True)
        n_notes = re.search(r"<dt>Notes</dt><dd>(\d+)</dd>", page)
        assert n_notes is not None
        assert status["jobs"] == shown["jobs"]
        listed = [each["id"] for each in jobs["jobs"]]
        in_page = re.findall(r'href="/jobs/(\d+)"', client.get("/jobs", headers=headers).text)
        assert {int(each) for each in in_page} == set(listed)
        assert jobs["total"] == len(listed) == sum(status["jobs"].values())
        return status["n_notes"], int(n_notes[1]), listed

    everything = [upload_id, job, of_both]
    assert counts(WRITE) == (6, 6, everything)
    assert counts(create(owners=["ann", "ben"])) == (6, 6, everything)
    assert counts(create(owners=["ben"])) == (3, 3, [upload_id, job])
    assert counts(create(owners=["ann"])) == (3, 3, [upload_id])
    assert counts(create(owners=["nobody"])) == (0, 0, [upload_id])
    ann = create(owners=["ann"])
    for path in (f"{API}/jobs/{job}", f"{API}/jobs/{job}/items", f"{API}/jobs/{job}/events", f"/jobs/{job}"):
        assert client.get(path, headers=ann).status_code == 404
        assert client.get(path, headers=create(owners=["ben"])).status_code == 200


def test_bound_key_gets_a_job_that_it_may_see(client: FlaskClient, engine: Engine, create: Create) -> None:
    for owner in ("ann", "ben"):
        client.post(f"{API}/notes", json={"text": f"Lava of {owner}.", "owner": owner}, headers=WRITE)
    of_both = submit_due_dedup(engine.database, replace(engine.settings, note_dedup_hours=1))
    assert of_both is not None
    ann = create(owners=["ann"])
    own = client.post(f"{API}/notes/dedup", headers=ann).get_json()["job"]["id"]
    assert own != of_both
    assert client.post(f"{API}/notes/dedup", headers=ann).get_json()["job"]["id"] == own
    assert client.get(f"{API}/jobs/{own}", headers=ann).status_code == 200


def test_a_bound_key_ends_and_repeats_no_job_of_another_owner(client: FlaskClient, create: Create) -> None:
    for owner in ("ann", "ben"):
        client.post(f"{API}/notes", json={"text": f"Lava of {owner}.", "owner": owner}, headers=WRITE)
    job = client.post(f"{API}/notes/dedup?owner=ben", headers=WRITE).get_json()["job"]["id"]
    ann, ben = create(owners=["ann"]), create(owners=["ben"])
    for action in ("cancel", "retry"):
        problem = assert_problem(client.post(f"{API}/jobs/{job}/{action}", headers=ann), 404)
        assert "ben" not in str(problem)
        assert_problem(client.post(f"{API}/jobs/{job + 99}/{action}", headers=ann), 404)
    assert client.get(f"{API}/jobs/{job}", headers=WRITE).get_json()["status"] == "enqueued"
    assert_problem(client.post(f"{API}/jobs/{job}/retry", headers=ben), 409)
    assert client.post(f"{API}/jobs/{job}/cancel", headers=ben).status_code == 202
    # Jobs of documents belong to the collection.
    body = {"content": "Lava flows down the slope."}
    upload = client.post(f"{API}/documents", json=body, headers=ben).get_json()["job"]["id"]
    assert client.post(f"{API}/jobs/{upload}/cancel", headers=ann).status_code == 202


def test_a_key_has_its_own_rate(client: FlaskClient, create: Create, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.application.extensions[RATE_LIMIT]._buckets, "_clock", lambda: 0.0)
    slow, fast = create(requests_per_second=2), create()
    answers = [client.get(f"{API}/reefs", headers=slow) for _ in range(8)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 6
    assert "2 a second" in assert_problem(refused[0], 429)["detail"]
    assert refused[0].headers["Retry-After"] == "1"
    assert {client.get(f"{API}/jobs", headers=fast).status_code for _ in range(8)} == {200}


def test_metrics_count_keys_and_refusals(client: FlaskClient, create: Create) -> None:
    bound = create(owners=["ann"])
    client.get(f"{API}/documents", headers=bound)
    client.get(f"{API}/notes?owner=ben", headers=bound)
    client.get(f"{API}/documents")
    client.get(f"{API}/collections/nope/documents", headers=bound)
    client.get(f"{API}/queries", headers=bound)
    text = client.get("/metrics", headers=ADMIN).get_data(as_text=True)
    counts = dict(re.findall(r'^shoal_refused_requests_total{reason="([^"]+)"} (\S+)$', text, re.MULTILINE))
    assert {reason for reason, n in counts.items() if n == "1.0"} == {
        "missing",
        "owner",
        "no collection",
        "no right",
    }
    assert set(counts) == {
        *("missing", "unknown", "expired", "revoked", "no right", "no collection", "rate", "owner"),
        *("bad token", "expired token", "revoked token", "token"),
    }
    fingerprint = client.get(KEYS, headers=ADMIN).get_json()["keys"][0]["fingerprint"]
    assert f'shoal_key_requests_total{{key="{fingerprint}"}} 4.0' in text


def test_another_process_notices_within_the_cache_time(
    settings: Settings, engine: Engine, store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A catalog on PostgreSQL that another process has just made may stay unseen for a second longer.
    monkeypatch.setattr("shoal.collections.catalog.LOOK_SECONDS", 0.0)
    app = create_app(replace(settings, api_keys="", key_cache_seconds=0.05), engine=engine)
    client = app.test_client()
    assert client.get(f"{API}/documents").status_code == 200, "without keys, this machine is served"
    created = store.create("web", [("main", "read")])
    time.sleep(0.05)
    assert_problem(client.get(f"{API}/documents"), 401)
    bearer = {"Authorization": f"Bearer {created.key}"}
    assert client.get(f"{API}/documents", headers=bearer).status_code == 200
    store.revoke(created.details.id)
    time.sleep(0.05)
    assert_problem(client.get(f"{API}/documents", headers=bearer), 401)
    assert_problem(client.get(f"{API}/documents"), 401)


def test_collections_that_a_key_does_not_open_are_not_listed(
    client: FlaskClient, create: Create, app: flask.Flask
) -> None:
    for name in ("books", "secret"):
        client.post(f"{API}/collections", json={"name": name}, headers=WRITE)
    own = create(scopes=[{"collection": "books", "right": "read"}, {"collection": "main", "right": "read"}])
    listed = client.get(f"{API}/collections", headers=own).get_json()
    assert ([each["name"] for each in listed["collections"]], listed["total"]) == (["main", "books"], 2)
    assert client.get(f"{API}/collections", headers=WRITE).get_json()["total"] == 3
    assert client.get(f"{API}/collections/books", headers=own).status_code == 200
    assert_problem(client.get(f"{API}/collections/secret", headers=own), 404)
    client.delete(f"{API}/collections/books", headers=WRITE)
    assert_problem(client.get(f"{API}/collections/books/documents", headers=own), 404)


def test_the_page_of_keys_creates_replaces_and_revokes(client: FlaskClient) -> None:
    assert "Key needed" in client.get("/keys").text
    assert_problem(client.get("/keys", headers=WRITE), 403)
    form = {"name": "<b>web", "scopes": "main:read, *:read", "owners": "ann", "days": "30", "rate": "2"}
    created = client.post("/keys", data=form, headers=ADMIN)
    key = re.findall(r"shoal_[0-9a-f]{48}", created.text)
    assert len(key) == 1
    assert "&lt;b&gt;web" in created.text
    assert client.get(f"{API}/documents", headers={"Authorization": f"Bearer {key[0]}"}).status_code == 200
    page = client.get("/keys", headers=ADMIN).text
    assert key[0] not in page
    assert "read in all collections; notes of ann; 2 requests a second" in page
    key_id = client.get(KEYS, headers=ADMIN).get_json()["keys"][0]["id"]
    replaced = client.post(f"/keys/{key_id}/rotate", headers=ADMIN)
    assert len(re.findall(r"shoal_[0-9a-f]{48}", replaced.text)) == 1
    newest = client.get(f"{KEYS}?only_active=true", headers=ADMIN).get_json()["keys"][0]["id"]
    assert client.post(f"/keys/{newest}/revoke", headers=ADMIN).status_code == 303
    assert client.get(f"{KEYS}?only_active=true", headers=ADMIN).get_json()["total"] == 0
    for wrong in ({"scopes": "main"}, {"scopes": ""}, {"days": "soon"}, {"rate": "-1"}, {"name": ""}):
        refused = client.post("/keys", data={**form, **wrong}, headers=ADMIN)
        assert refused.status_code == 422
        assert 'role="alert"' in refused.text


def test_bodies_for_a_foreign_collection_are_not_received(
    settings: Settings, store: KeyStore, tmp_path: Path
) -> None:
    store._catalog.add("a" * 16, "secret")
    key = store.create("web", [("main", "write")]).key
    admission = Admission(settings)
    shown = []
    for name in ("secret", "nosuch"):
        path = f"{API}/collections/{name}/documents/bulk"
        refusal = admission.check("POST", path, f"Bearer {key}")
        assert refusal is not None
        assert admission.max_body(path) == settings.max_upload_bytes
        shown.append((refusal.code, refusal.problem_code, refusal.detail.replace(name, ""), refusal.headers))
    assert shown[0] == shown[1]
    assert shown[0][0] == 404
    assert admission.check("POST", f"{API}/documents", f"Bearer {key}") is None
