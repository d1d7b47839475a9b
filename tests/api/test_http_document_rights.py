"""Rights of documents: who may see them, as uploads set and documents show them."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
from fake_scorer import FakeScorer
from flask.testing import FlaskClient
from surface import API, FLOWER, LAW, VOLCANO, Store, Worker, assert_problem

from shoal.engine import Engine
from shoal.settings import Settings

DOCUMENTS = f"{API}/documents"


def rights_of(client: FlaskClient, document_id: int) -> tuple[Any, Any]:
    document = client.get(f"{DOCUMENTS}/{document_id}").get_json()
    return document["allow"], document["deny"]


def test_a_document_shows_its_rights(client: FlaskClient, store: Store) -> None:
    named = store(VOLCANO, allow=["group:staff", "user:ann", "group:staff"], deny=["user:bob"])
    assert rights_of(client, named) == (["group:staff", "user:ann"], ["user:bob"])
    assert rights_of(client, store(FLOWER)) == (None, [])
    assert rights_of(client, store(LAW, allow=[])) == ([], [])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("allow", ["staff"], "must be `everyone`, `user:name` or `group:name`"),
        ("allow", ["user:"], "must be"),
        ("deny", ["group:a b"], "must be"),
        ("deny", ["group:a\n"], "must be"),
        ("allow", ["user:" + "x" * 252], "up to 256 characters"),
        ("allow", "user:ann", "list"),
        ("allow", [7], "string"),
        ("deny", [f"user:{n}" for n in range(10_000)], "there are over 1,000"),
    ],
)
def test_invalid_rights_are_refused(client: FlaskClient, field: str, value: Any, message: str) -> None:
    response = client.post(DOCUMENTS, json={"content": VOLCANO, field: value})
    assert_problem(response, 422)
    (shown,) = [
        text for name, texts in response.get_json()["errors"].items() if field in name for text in texts
    ]
    assert message in shown.lower()


def test_forms_and_archives_give_rights_to_all_files(client: FlaskClient, worker: Worker) -> None:
    form = {"files": (io.BytesIO(VOLCANO.encode()), "a.txt"), "allow": "group:a, group:b", "deny": "user:c"}
    assert client.post(f"{DOCUMENTS}/bulk", data=form).status_code == 202
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("b.txt", FLOWER)
    response = client.post(
        f"{DOCUMENTS}/bulk?allow=everyone&deny=group:x",
        data=archive.getvalue(),
        content_type="application/zip",
    )
    assert response.status_code == 202
    worker.work()
    listed = client.get(DOCUMENTS).get_json()["documents"]
    assert [(each["allow"], each["deny"]) for each in listed] == [
        (["group:a", "group:b"], ["user:c"]),
        (["everyone"], ["group:x"]),
    ]
    bad = client.post(f"{DOCUMENTS}/bulk", data={**form, "files": (io.BytesIO(b"x"), "a.txt"), "allow": "b"})
    assert_problem(bad, 422)


def test_new_content_keeps_rights_that_are_not_given(
    client: FlaskClient, store: Store, worker: Worker
) -> None:
    document_id = store(VOLCANO, allow=["group:a"], deny=["user:b"], source_path="a.txt")
    address = f"{DOCUMENTS}/{document_id}"
    client.put(address, json={"content": FLOWER})
    worker.work()
    assert rights_of(client, document_id) == (["group:a"], ["user:b"])
    # Without new text, they are stored at once.
    assert client.put(address, json={"content": FLOWER, "allow": ["group:c"]}).status_code == 200
    assert rights_of(client, document_id) == (["group:c"], ["user:b"])
    assert client.put(address, json={"content": FLOWER, "allow": [], "deny": []}).status_code == 200
    assert rights_of(client, document_id) == ([], [])
    line = json.dumps({"content": LAW, "source_path": "a.txt"})
    client.post(f"{DOCUMENTS}/bulk?on_conflict=replace", data=line, content_type="application/x-ndjson")
    worker.work()
    assert rights_of(client, document_id) == ([], [])


def test_a_duplicate_does_not_widen_who_may_see_a_document(client: FlaskClient, store: Store) -> None:
    document_id = store(VOLCANO, allow=["group:a"])
    response = client.post(DOCUMENTS, json={"content": VOLCANO, "allow": ["group:b"]})
    assert response.status_code == 200
    assert any("who may see it" in warning for warning in response.get_json()["warnings"])
    assert rights_of(client, document_id) == (["group:a"], [])


def test_an_export_has_the_rights_and_what_holds_without(
    client: FlaskClient, store: Store, engine: Engine, settings: Settings, tmp_path: Any
) -> None:
    store(VOLCANO, allow=["group:a"], deny=["user:b"])
    store(FLOWER)
    assert client.put(f"{API}/access", json={"without_rights": "nobody"}).status_code == 200
    lines = "\n".join(engine.maintenance.export()).encode()
    other = Settings(database_url=f"sqlite:///{tmp_path / 'other.db'}")
    with Engine(settings=other, scorer=FakeScorer()) as imported:
        imported.maintenance.import_export(io.BufferedReader(io.BytesIO(lines)))  # type: ignore[arg-type]
        found = {each.title: (each.allow, each.deny) for each in imported.documents.list().documents}
        assert sorted(found.values(), key=str) == [(("group:a",), ("user:b",)), (None, ())]
        assert imported.documents.access_settings().without_rights == "nobody"


def test_the_setting_of_a_collection_is_shown_and_changed(client: FlaskClient) -> None:
    assert client.get(f"{API}/access").get_json() == {"without_rights": "everyone"}
    changed = client.put(f"{API}/access", json={"without_rights": "nobody"})
    assert changed.get_json() == client.get(f"{API}/access").get_json() == {"without_rights": "nobody"}
    assert_problem(client.put(f"{API}/access", json={"without_rights": "staff"}), 422)
