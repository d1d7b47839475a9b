"""Filters beyond searches: similar passages, deletions, exports; and the places of errors."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.errors import FilterError, QueryError
from shoal.settings import Settings


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        for number, tag in enumerate(("sea", "sea", "land")):
            text = f"The volcano number {number} is a mountain of fire and lava."
            engine.ingest(
                title=f"Volcano {number}", content=text, tags=[tag], metadata={"year": 2000 + number}
            )
        yield engine


def test_similar_passages_meet_the_filters(engine: Engine) -> None:
    assert {each.document_id for each in engine.similar(1)} == {2, 3}
    assert {each.document_id for each in engine.similar(1, filter="tags = land")} == {3}
    assert {each.document_id for each in engine.similar(1, filters={"tags": ["sea"]})} == {2}
    with pytest.raises(FilterError):
        engine.similar(1, filter="tags =")


def test_documents_are_deleted_by_a_filter(engine: Engine) -> None:
    deletion = engine.documents.deletion(filter="tags = sea AND year >= 2001")
    assert (deletion.document_ids, deletion.first[0].title) == ((2,), "Volcano 1")
    assert engine.documents.list().total == 3
    assert engine.documents.delete_many(filter="tags = sea") == 2
    assert engine.documents.delete_many(filter="tags = sea") == 0
    assert [each.id for each in engine.documents.list().documents] == [3]
    for filter_ in (None, "", {}):
        with pytest.raises(QueryError):
            engine.documents.delete_many(filter=filter_)
    with pytest.raises(FilterError, match="is of passages"):
        engine.documents.delete_many(filter="page = 1")


def test_an_export_has_the_documents_that_meet_a_filter(engine: Engine) -> None:
    engine.pins.add("volcano", [1])
    engine.vocabulary.synonyms.add(["lava", "magma"])
    records = [json.loads(line) for line in engine.maintenance.export(filter="tags = land")]
    assert [(each["type"], each.get("id")) for each in records][:2] == [("export", None), ("document", 3)]
    assert {each["type"] for each in records} == {"export", "document", "chunk"}
    with pytest.raises(FilterError):
        engine.maintenance.export(filter="reef = 1")


@pytest.mark.parametrize(
    ("expression", "blamed"),
    [
        ('tags = sea AND reef IN ["volcanoes and rocks", "nonsense"]', '"nonsense"'),
        ("tags = sea AND NOT island = 9999", "9999"),
    ],
)
def test_errors_of_names_point_at_the_place(engine: Engine, expression: str, blamed: str) -> None:
    with pytest.raises(FilterError) as raised:
        engine.search("volcano", filter=expression)
    assert raised.value.excerpt is not None
    assert raised.value.excerpt[1] == blamed
    with pytest.raises(FilterError, match=r"\$or\[1\]\.reef\.\$eq: there is no reef"):
        engine.search("volcano", filter={"$or": [{"tags": "sea"}, {"reef": "nonsense"}]})


def test_errors_of_lists_point_at_the_place(engine: Engine) -> None:
    with pytest.raises(FilterError) as raised:
        engine.documents.list(filter="tags = sea AND page > 3")
    assert raised.value.excerpt is not None
    assert raised.value.excerpt[1] == "page > 3"
