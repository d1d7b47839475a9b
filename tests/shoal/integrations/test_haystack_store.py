"""The document store and the retriever for Haystack, used as its own are."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
pytest.importorskip("haystack", reason="the extra `haystack` is not installed")

from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.writers import DocumentWriter
from haystack.dataclasses import ByteStream
from haystack.document_stores.errors import DocumentStoreError, DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils import Secret

from shoal.client import Client
from shoal.engine import Engine
from shoal.integrations.haystack import ShoalDocumentStore, ShoalRetriever

DOCUMENTS = [
    Document(id="a", content="Lava rose in the old volcano.", meta={"year": 2019, "by": {"name": "Ada"}, "x.y": 1}),
    Document(id="b", content="Lava and ash fell.", meta={"year": 2024.5, "day": "2024-05-01", "draft": True}),
    Document(id="c", content="The judge read the law.", meta={"year": None, "by": {"name": "Grace"}}),
    Document(id="d/e.md", content="# Heat\n\nMagma is hot.", meta={}),
]  # fmt: skip


def comparison(field: str, operator: str, value: Any) -> dict[str, Any]:
    return {"field": field, "operator": operator, "value": value}


FILTERS: list[dict[str, Any]] = [
    comparison("meta.year", "==", 2019),
    comparison("meta.year", "==", None),
    comparison("meta.year", "!=", None),
    comparison("meta.year", "!=", 2019),
    comparison("meta.year", ">", 2019),
    comparison("meta.year", ">=", 2019),
    comparison("meta.year", "<", 2024.5),
    comparison("meta.year", "<=", 2024.5),
    comparison("meta.year", ">", None),
    comparison("meta.day", ">=", "2024-05-01"),
    comparison("meta.day", "<", "2024-05-01T00:00:00"),
    comparison("meta.draft", "==", True),
    comparison("meta.by.name", "==", "Ada"),
    comparison("meta.by.name", "in", ["Ada", "Grace"]),
    comparison("meta.by.name", "not in", ["Ada", None]),
    comparison("meta.by.name", "in", [None]),
    comparison("meta.by.name", "in", []),
    comparison("year", "==", 2019),
    comparison("id", "in", ["a", "d/e.md"]),
    {"operator": "AND", "conditions": [comparison("meta.year", ">", 1), comparison("meta.draft", "==", True)]},
    {"operator": "OR", "conditions": [comparison("id", "==", "c"), comparison("meta.draft", "==", True)]},
    {"operator": "NOT", "conditions": [comparison("meta.year", ">", 1), comparison("meta.draft", "==", True)]},
    {"operator": "AND", "conditions": [{"operator": "NOT", "conditions": [comparison("id", "==", "a")]}]},
]  # fmt: skip


@pytest.fixture
def library(engine: Engine) -> Engine:
    for each in (1, 2):
        engine.documents.delete(each)
    return engine


@pytest.fixture
def store(library: Engine) -> ShoalDocumentStore:
    written = ShoalDocumentStore(library)
    assert written.write_documents(DOCUMENTS) == len(DOCUMENTS)
    return written


def test_documents_come_back_as_they_were_written(store: ShoalDocumentStore) -> None:
    assert store.count_documents() == len(DOCUMENTS)
    assert store.filter_documents() == DOCUMENTS
    assert store.filter_documents({}) == DOCUMENTS


@pytest.mark.parametrize("filters", FILTERS, ids=json.dumps)
def test_filters_have_the_meaning_that_they_have_in_haystack(
    store: ShoalDocumentStore, filters: dict[str, Any]
) -> None:
    model = InMemoryDocumentStore()
    model.write_documents(DOCUMENTS)
    expected = {each.id for each in model.filter_documents(filters)}
    assert {each.id for each in store.filter_documents(filters)} == expected


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"operator": "XOR", "conditions": [comparison("id", "==", "a")]}, "filters.operator: 'XOR' is none of"),
        ({"operator": "AND"}, "filters.conditions: must be a list"),
        ({"operator": "AND", "conditions": []}, "at least one"),
        ({"operator": "AND", "conditions": ["x"]}, r"filters.conditions\[0\]: must be an object"),
        (comparison("meta.a", "like", "x"), "filters.operator: 'like' is none of =="),
        ({"field": "meta.a", "operator": "=="}, "value is missing"),
        (comparison("meta.a", "in", "x"), "must be a list"),
        (comparison("meta.a", ">", "x"), "compares numbers and dates"),
        (comparison("meta.a", ">", [1]), "compares with strings"),
        (comparison("meta.a", "==", {"b": 1}), "compares with strings"),
        (comparison("content", "==", "x"), "cannot compare content"),
        (comparison("", "==", "x"), "filters.field"),
    ],
)  # fmt: skip
def test_what_a_filter_cannot_say_is_an_error(
    store: ShoalDocumentStore, filters: dict[str, Any], message: str
) -> None:
    with pytest.raises(FilterError, match=message):
        store.filter_documents(filters)


def test_policies_for_documents_that_exist(store: ShoalDocumentStore) -> None:
    new = Document(id="new", content="Ferns grow from spores.")
    changed = Document(id="a", content="Lava rose in the new volcano.", meta={"year": 1})
    for policy in (DuplicatePolicy.NONE, DuplicatePolicy.FAIL):
        with pytest.raises(DuplicateDocumentError, match="'a' exists already"):
            store.write_documents([new, changed], policy)
        with pytest.raises(DuplicateDocumentError, match="'new' exists already"):
            store.write_documents([new, new], policy)
    assert store.count_documents() == len(DOCUMENTS)
    assert store.write_documents([new, changed], DuplicatePolicy.SKIP) == 1
    assert store.filter_documents(comparison("id", "==", "a")) == DOCUMENTS[:1]
    assert store.write_documents([new, changed], DuplicatePolicy.OVERWRITE) == 2
    assert store.filter_documents(comparison("id", "==", "a")) == [changed]
    assert store.count_documents() == len(DOCUMENTS) + 1


def test_documents_are_deleted(store: ShoalDocumentStore) -> None:
    store.delete_documents(["a", "unknown", "document-99", "document-x"])
    assert {each.id for each in store.filter_documents()} == {"b", "c", "d/e.md"}


def test_what_a_library_does_not_keep_is_an_error(store: ShoalDocumentStore) -> None:
    for document, message in (
        (Document(content=None, id="x"), "text"),
        (Document(content="x", blob=ByteStream(b"x")), "text alone"),
        (Document(content="x", embedding=[0.1]), "embedding"),
        (Document(content=DOCUMENTS[0].content, id="copy"), "is stored already, as document"),
    ):
        with pytest.raises(DocumentStoreError, match=message):
            store.write_documents([document], DuplicatePolicy.SKIP)
    with pytest.raises(DocumentStoreError, match="'b'"):
        store.write_documents([Document(content=DOCUMENTS[0].content, id="b")], DuplicatePolicy.OVERWRITE)
    with pytest.raises(ValueError, match="documents of Haystack"):
        store.write_documents(["x"])  # type: ignore[list-item]
    assert store.filter_documents() == DOCUMENTS


def test_documents_that_came_otherwise_have_ids(searcher: Engine | Client) -> None:
    store = ShoalDocumentStore(searcher)
    assert store.count_documents() == 2
    volcano, law = store.filter_documents()
    assert (volcano.id, volcano.meta) == ("notes/volcano.txt", {"by": "a geologist"})
    assert law.id.startswith("document-")
    assert store.filter_documents(comparison("meta.by", "==", "a geologist")) == [volcano]
    store.delete_documents([law.id])
    assert [each.id for each in store.filter_documents()] == [volcano.id]


def test_passages_have_their_citation_and_reason(searcher: Engine | Client) -> None:
    retriever = ShoalRetriever(ShoalDocumentStore(searcher), top_k=1)
    (document,) = retriever.run("lava and ash")["documents"]
    assert "Lava rose" in (document.content or "")
    assert document.score is not None
    assert 0 < document.score <= 1
    assert document.meta["by"] == "a geologist"
    cited = document.meta["shoal"]
    assert (cited["document_title"], cited["start_line"], cited["end_line"]) == ("Volcano", 1, 3)
    assert cited["why"].startswith("holds *Lava*")
    assert cited["relevance"] == document.score
    json.dumps(document.to_dict())
    (same,) = asyncio.run(retriever.run_async("lava and ash"))["documents"]
    assert (same.id, same.content, same.score) == (document.id, document.content, document.score)


def test_filters_of_a_run_take_the_place_of_the_own(store: ShoalDocumentStore) -> None:
    retriever = ShoalRetriever(store, {"filter": "year EXISTS"}, filters=comparison("meta.draft", "==", True))

    def found(**arguments: Any) -> set[str]:
        return {each.meta["shoal"]["source_path"] for each in retriever.run("lava", **arguments)["documents"]}

    assert found() == {"b"}
    assert found(filters=comparison("meta.year", "==", 2019)) == {"a"}
    assert found(filters=comparison("id", "in", ["a", "b", "d/e.md"])) == {"a", "b"}
    assert len(retriever.run("lava", filters=comparison("id", "in", ["a", "b"]), top_k=1)["documents"]) == 1
    with pytest.raises(FilterError):
        found(filters=comparison("score", ">", 0.5))


def test_a_pipeline_writes_and_answers(library: Engine) -> None:
    store = ShoalDocumentStore(library)
    writing = Pipeline()
    writing.add_component("writer", DocumentWriter(store, DuplicatePolicy.SKIP))
    assert writing.run({"writer": {"documents": DOCUMENTS}}) == {
        "writer": {"documents_written": len(DOCUMENTS)}
    }
    template = "{% for d in documents %}{{ d.content }} ({{ d.meta.shoal.why }})\n{% endfor %}{{ question }}"
    asking = Pipeline()
    asking.add_component("retriever", ShoalRetriever(store, top_k=1))
    asking.add_component("prompt", PromptBuilder(template, required_variables="*"))
    asking.connect("retriever.documents", "prompt.documents")
    question = "who read the law"
    answer = asking.run({"retriever": {"query": question}, "prompt": {"question": question}})
    prompt = answer["prompt"]["prompt"]
    assert prompt.startswith("The judge read the law. (holds *read* and *law*")
    assert prompt.endswith(question)


def test_a_pipeline_of_an_address_is_serialized(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_KEY_OF_TESTS", "a-key")
    store = ShoalDocumentStore(address, key=Secret.from_env_var("SHOAL_KEY_OF_TESTS"))
    pipeline = Pipeline()
    pipeline.add_component("retriever", ShoalRetriever(store, {"context": 1}, top_k=3))
    written = pipeline.dumps()
    assert "a-key" not in written
    read = Pipeline.loads(written, allowed_modules=["shoal.integrations.haystack"])
    assert read.to_dict() == pipeline.to_dict()
    assert len(read.run({"retriever": {"query": "lava"}})["retriever"]["documents"]) == 1


def test_an_engine_is_not_serialized(store: ShoalDocumentStore) -> None:
    with pytest.raises(TypeError, match="address"):
        store.to_dict()
