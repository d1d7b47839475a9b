"""The vector stores of OpenAI's API, as its own client speaks them: a collection is a vector store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest
from fake_scorer import FakeScorer
from key_service import FOREIGN, OWN, key_service
from openai_client import client_of
from surface import FLOWER, VOLCANO, prepare

from shoal.access.key_store import KeyStore
from shoal.client import make_token
from shoal.collections.vector_stores import Labels
from shoal.engine import Engine
from shoal.filters.foreign import OPENAI_OPERATORS
from shoal.settings import Settings
from shoal.support.search_tokens import new_pair
from shoal_api import create_app
from shoal_api.service import EXTENSION

openai = pytest.importorskip("openai", reason="the client of OpenAI's API is not installed")

MAIN = "vs_main"
DOCUMENTS: dict[str, dict[str, Any]] = {
    "old": {"year": 2019, "author": "Ada", "draft": False, "a.b": "c"},
    "new": {"year": 2024.5, "author": "Grace", "draft": True, "title": "mine"},
    "none": {"nested": {"x": 1}, "list": [1]},
}
"""The attributes of each file, by its title."""
OPERATORS: list[tuple[str, str, Any, str]] = [
    ("author", "eq", "Ada", "old"),
    ("draft", "eq", True, "new"),
    ("year", "eq", "2019", ""),
    ("a.b", "eq", "c", "old"),
    ("title", "eq", "mine", "new"),
    ("author", "ne", "Ada", "new none"),
    ("year", "gt", 2019, "new"),
    ("year", "gte", 2019, "old new"),
    ("year", "lt", 2024.5, "old"),
    ("year", "lte", 2024.5, "old new"),
    ("author", "in", ["Ada", "x"], "old"),
    ("author", "nin", ["Ada", "x"], "new none"),
]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, drop_in="openai")


@pytest.fixture
def stores(app: flask.Flask) -> Any:
    return client_of(app).vector_stores


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Any]:
    """Searches `main`, which has a file for each of DOCUMENTS, whose text is about a volcano."""
    folder = tmp_path_factory.mktemp("openai")
    settings = Settings(database_url=f"sqlite:///{folder / 'shoal.db'}", drop_in="openai")
    prepare(settings, migrated)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        for title, metadata in DOCUMENTS.items():
            engine.ingest(title=title, content=f"{VOLCANO} It is {title}.", metadata=metadata)
        client = client_of(create_app(settings, engine=engine))
        yield lambda query="lava and ash", **options: client.vector_stores.search(
            MAIN, query=query, **options
        )


def names(page: Any) -> set[str]:
    return {result.filename for result in page.data}


def test_a_store_is_created_listed_changed_and_deleted(stores: Any, app: flask.Flask) -> None:
    created = stores.create(name="Support FAQ", description="Questions", metadata={"team": "x"})
    assert created.id.startswith("vs_")
    assert (created.name, created.metadata, created.status) == ("Support FAQ", {"team": "x"}, "completed")
    assert created.file_counts.total == created.usage_bytes == 0
    assert stores.retrieve(created.id) == created
    assert created.shoal_collection == "support-faq"
    assert {each.id for each in stores.list()} == {MAIN, created.id}
    changed = stores.update(created.id, name="Help", metadata=None)
    assert (changed.name, changed.metadata, changed.description) == ("Help", {}, "Questions")
    assert stores.update(created.id).name == "Help"
    assert app.extensions[EXTENSION].collections.catalog.find("support-faq").id == created.id[3:]
    labels = Labels(app.extensions[EXTENSION].collections.catalog)
    assert labels.of([created.id[3:]])
    assert stores.delete(created.id).deleted
    assert labels.of([created.id[3:]]) == {}
    assert [each.id for each in stores.list()] == [MAIN]
    with pytest.raises(openai.NotFoundError):
        stores.retrieve(created.id)


def test_any_name_makes_a_collection(stores: Any) -> None:
    given = ["notes", "notes", "Notes!", "", "Größe", "main", "swap", "日本", "x" * 256]
    created = [stores.create(name=name) for name in given]
    assert [each.name for each in created] == given
    collections = [each.shoal_collection for each in created]
    assert collections[0] == "notes"
    assert collections[1].startswith("notes-")
    assert len(set(collections)) == len(given)
    unnamed = stores.create()
    assert unnamed.name == unnamed.shoal_collection


def test_a_list_is_read_page_by_page(stores: Any) -> None:
    ids = [MAIN, *(stores.create(name=f"s{number}").id for number in range(5))]
    assert [each.id for each in stores.list(limit=2, order="asc")] == ids
    assert [each.id for each in stores.list(limit=2)] == ids[::-1]
    page = stores.list(limit=2, order="asc", after=ids[1])
    assert ([each.id for each in page.data], page.has_more) == (ids[2:4], True)
    page = stores.list(limit=2, order="asc", before=ids[3])
    assert ([each.id for each in page.data], page.has_more) == (ids[1:3], True)
    page = stores.list(limit=9, order="asc", after=ids[1], before=ids[3])
    assert ([each.id for each in page.data], page.has_more) == (ids[2:3], False)
    with pytest.raises(openai.BadRequestError, match="after"):
        stores.list(after="vs_x")


def test_a_store_that_is_deleted_meanwhile_is_not_listed(
    stores: Any, app: flask.Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [MAIN, *(stores.create(name=f"s{number}").id for number in range(3))]
    read = Labels.of

    def delete_meanwhile(labels: Labels, collection_ids: Any) -> Any:
        app.extensions[EXTENSION].collections.delete("s1")
        return read(labels, collection_ids)

    monkeypatch.setattr(Labels, "of", delete_meanwhile)
    assert [each.id for each in stores.list(order="asc", limit=9).data] == [*ids[:2], ids[3]]


def test_two_changes_at_once_are_both_kept(
    stores: Any, app: flask.Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_id = stores.create(name="FAQ", metadata={"team": "x"}).id
    database = app.extensions[EXTENSION].collections.catalog.database()
    write = database.write

    def after_another_change() -> Any:
        monkeypatch.setattr(database, "write", write)
        stores.update(store_id, name="Help")
        return write()

    monkeypatch.setattr(database, "write", after_another_change)
    stores.update(store_id, metadata={"team": "y"})
    changed = stores.retrieve(store_id)
    assert (changed.name, changed.metadata) == ("Help", {"team": "y"})


def test_results_have_the_form_of_the_contract_a_citation_and_a_reason(search: Any) -> None:
    page = search()
    assert page.object == "vector_store.search_results.page"
    assert names(page) == DOCUMENTS.keys()
    scores = [result.score for result in page.data]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    (new,) = [result for result in page.data if result.filename == "new"]
    # Its client makes all numbers floats.
    assert new.file_id == f"file-main-{int(new.attributes['shoal_document_id'])}"
    assert [(part.type, part.text) for part in new.content] == [("text", f"{VOLCANO} It is new.")]
    assert new.attributes["shoal_why"].startswith("holds *Lava* and *ash*")
    assert (new.attributes["shoal_start_line"], new.attributes["shoal_title"]) == (1, "new")
    own = {name: value for name, value in new.attributes.items() if not name.startswith("shoal_")}
    assert own == DOCUMENTS["new"]
    (none,) = [result for result in page.data if result.filename == "none"]
    assert not {"nested", "list"} & none.attributes.keys()


@pytest.mark.parametrize(("key", "operator", "value", "met"), OPERATORS)
def test_every_operator(search: Any, key: str, operator: str, value: Any, met: str) -> None:
    assert names(search(filters={"type": operator, "key": key, "value": value})) == set(met.split())


def test_every_operator_has_a_case() -> None:
    assert {operator for _, operator, _, _ in OPERATORS} == set(OPENAI_OPERATORS)


def test_filters_are_joined(search: Any) -> None:
    old = {"type": "eq", "key": "author", "value": "Ada"}
    new = {"type": "gt", "key": "year", "value": 2020}
    assert names(search(filters={"type": "or", "filters": [old, new]})) == {"old", "new"}
    assert names(search(filters={"type": "and", "filters": [old, new]})) == set()
    nested = {"type": "and", "filters": [{"type": "or", "filters": [old, new]}, old]}
    assert names(search(filters=nested)) == {"old"}


def test_threshold_number_and_several_queries(search: Any) -> None:
    everything = search()
    best = everything.data[0].score
    assert all(
        each.score >= best - 0.001 for each in search(ranking_options={"score_threshold": best - 0.001})
    )
    assert search(ranking_options={"score_threshold": 1, "ranker": "auto"}).data == []
    assert len(search(max_num_results=2).data) == 2
    # Some programs send what they leave out as null.
    options = ("filters", "max_num_results", "ranking_options", "rewrite_query")
    assert search(extra_body=dict.fromkeys(options)).data == everything.data
    several = search(query=["lava", "qwrtp", "lava and ash"])
    assert several.search_query == ["lava", "qwrtp", "lava and ash"]
    assert names(several) == DOCUMENTS.keys()
    assert len({result.attributes["shoal_chunk_id"] for result in several}) == len(several.data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rewrite_query": True}, "rewrite_query: is not supported"),
        ({"ranking_options": {"ranker": "default-2024-11-15"}}, "ranking_options.ranker: is not supported"),
        ({"ranking_options": {"score_threshold": 2}}, "score_threshold"),
        ({"ranking_options": {"hybrid_search": {}}}, "ranking_options.hybrid_search"),
        ({"max_num_results": 51}, "max_num_results"),
        ({"max_num_results": 0}, "max_num_results"),
        ({"query": ""}, "query"),
        ({"query": []}, "query"),
        ({"query": ["x"] * 11}, "query"),
        ({"query": {"a": 1}}, "query"),
        ({"filters": {"type": "like", "key": "a", "value": "b"}}, "filters.type: 'like' is none of eq"),
        ({"filters": {"type": "eq", "key": "a"}}, "filters: value is missing"),
        ({"filters": {"type": "eq", "key": "a", "value": "b", "x": 1}}, "filters: 'x' is not known"),
        ({"filters": {"type": "eq", "key": "", "value": "b"}}, "filters.key: must be a text"),
        ({"filters": {"type": "eq", "key": "a", "value": {}}}, "compares with strings"),
        ({"filters": {"type": "gt", "key": "a", "value": "b"}}, "compares numbers and dates"),
        ({"filters": {"type": "in", "key": "a", "value": "b"}}, "must be a list"),
        ({"filters": {"type": "and", "filters": []}}, "filters.filters: must have at least one"),
        ({"filters": {"type": "and", "filters": [1]}}, "filters.filters[0]: must be an object"),
        ({"extra_body": {"colour": "red"}}, "colour: is not known"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_an_error_that_says_so(search: Any, options: Any, message: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        search(**options)
    assert message in caught.value.message
    assert caught.value.body["type"] == "invalid_request_error"
    assert caught.value.body.keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expires_after": {"anchor": "last_active_at", "days": 1}}, "expires_after: is not supported"),
        ({"name": "x" * 257}, "name"),
        ({"metadata": {"a": 1}}, "metadata.a: must be a text"),
        ({"metadata": {str(i): "x" for i in range(17)}}, "at most 16"),
        ({"metadata": {"a" * 65: "x"}}, "1 to 64 characters"),
        ({"metadata": {"a": "x" * 513}}, "at most 512"),
        ({"extra_body": {"colour": "red"}}, "colour"),
    ],
)
def test_a_store_is_created_only_as_asked(stores: Any, options: Any, message: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        stores.create(**options)
    assert message in caught.value.message
    assert [each.id for each in stores.list()] == [MAIN]


def test_main_cannot_be_deleted_and_unknown_stores_are_not_found(stores: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="cannot be deleted"):
        stores.delete(MAIN)
    for name in ("vs_0123456789abcdef", "vs_", "vs_x", "main", "vs_MAIN", "vs_main\n"):
        for ask in (
            stores.retrieve,
            stores.delete,
            stores.update,
            lambda each: stores.search(each, query="x"),
        ):
            with pytest.raises(openai.NotFoundError):
                ask(name)


def test_interface_is_off_until_the_setting_names_it(empty: Any) -> None:
    assert empty.get("/openai/v1/vector_stores").status_code == 404


@pytest.fixture(scope="module")
def keys(
    tmp_path_factory: pytest.TempPathFactory, migrated: Path
) -> Iterator[tuple[flask.Flask, dict[str, str], dict[str, str]]]:
    """A service with keys: the application, the header of each caller, and the ids of two stores."""
    with key_service(tmp_path_factory.mktemp("keys"), migrated, drop_in="openai") as (app, headers):
        collections = app.extensions[EXTENSION].collections
        with collections.engine(OWN) as engine:
            for name, text in (("red", VOLCANO), ("blue", f"{VOLCANO} {FLOWER}")):
                engine.ingest(title=name, content=text, allow=[f"group:{name}"])
        yield app, headers, {name: f"vs_{collections.catalog.find(name).id}" for name in (OWN, FOREIGN)}


def test_keys_hold_as_everywhere(keys: Any) -> None:
    app, headers, ids = keys

    def stores(caller: str) -> Any:
        return client_of(app, headers[caller]).vector_stores

    for caller in ("wrong", "expired", "revoked"):
        with pytest.raises(openai.AuthenticationError):
            stores(caller).search(ids[OWN], query="lava")
    own = stores("own read")
    assert names(own.search(ids[OWN], query="lava")) == {"red", "blue"}
    assert [each.id for each in own.list()] == [ids[OWN]]
    assert own.retrieve(ids[OWN]).file_counts.completed == 2
    messages = []
    for other in (ids[FOREIGN], MAIN, "vs_0123456789abcdef"):
        for ask in (own.retrieve, lambda each: own.search(each, query="lava")):
            with pytest.raises(openai.NotFoundError) as caught:
                ask(other)
            messages.append(caught.value.body["message"].replace(other, ""))
    assert len(set(messages)) == 1
    for caller in ("own admin", "all write"):
        for ask in (stores(caller).create, lambda caller=caller: stores(caller).delete(ids[OWN])):
            with pytest.raises(openai.PermissionDeniedError):
                ask()
    assert {each.id for each in stores("all read").list()} == {MAIN, *ids.values()}


def test_a_search_token_searches_what_it_may_see(keys: Any) -> None:
    app, _, ids = keys
    store = KeyStore(app.extensions[EXTENSION].collections.catalog)
    created = store.create("app", [(OWN, "read")])
    private, public = new_pair()
    store.set_public_key(created.details.id, public)
    token = make_token(created.details.id, private, collections=[OWN], principals=["group:red"], seconds=600)
    client = client_of(app, f"Bearer {token}")
    assert names(client.vector_stores.search(ids[OWN], query="lava")) == {"red"}
    for ask in (client.vector_stores.list, lambda: client.vector_stores.retrieve(ids[OWN])):
        with pytest.raises(openai.PermissionDeniedError):
            ask()
