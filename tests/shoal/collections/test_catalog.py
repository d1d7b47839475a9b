"""The catalog: names, ids, marks of work, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.collections.catalog import MIGRATIONS, SET_VERSION, Catalog, catalog_exists, open_catalog
from shoal.errors import (
    CollectionExistsError,
    CollectionNameError,
    CollectionNotFoundError,
    CollectionStateError,
    SchemaError,
)
from shoal.settings import Settings
from shoal.support import collection_names as names

BAD_NAMES = [
    "",
    "A",
    "-a",
    "_a",
    "a b",
    "a/b",
    "../a",
    "a.db",
    "ä",
    "a\n",
    "a'; DROP TABLE x",
    "a" * 64,
    "\0",
    7,
    None,
]


@pytest.fixture
def catalog(settings: Settings) -> Iterator[Catalog]:
    opened = Catalog(settings)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused_and_found_nowhere(catalog: Catalog, name: object) -> None:
    with pytest.raises(CollectionNameError):
        names.check_new_name(name)
    if isinstance(name, str):
        with pytest.raises(CollectionNotFoundError):
            catalog.find(name)


@pytest.mark.parametrize("name", ["a", "0", "a-b_c", "a" * 63])
def test_a_good_name_is_taken(name: str) -> None:
    assert names.check_new_name(name) == name


def test_reading_creates_no_catalog(catalog: Catalog, settings: Settings) -> None:
    assert [collection.name for collection in catalog.page(10)] == ["main"]
    assert catalog.count() == 1
    assert catalog.with_work() == []
    assert catalog.take_sweep(5, 0) == []
    with pytest.raises(CollectionNotFoundError):
        catalog.rename("a", "b")
    with pytest.raises(CollectionNotFoundError):
        catalog.remove("a")
    assert not catalog_exists(settings)


def test_collections_are_listed_by_name_after_main(catalog: Catalog) -> None:
    for name in ("c", "a", "b"):
        catalog.add(names.new_id(), name)
    assert [each.name for each in catalog.page(10)] == ["main", "a", "b", "c"]
    assert [each.name for each in catalog.page(2, 1)] == ["a", "b"]
    assert [each.name for each in catalog.page(2, 3)] == ["c"]
    assert [each.name for each in catalog.page(1)] == ["main"]
    assert [each.name for each in catalog.after("a", 10)] == ["b", "c"]
    assert catalog.count() == 4


def test_a_name_is_given_once(catalog: Catalog) -> None:
    catalog.add(names.new_id(), "a")
    with pytest.raises(CollectionExistsError):
        catalog.add(names.new_id(), "a")


def test_renaming_keeps_the_id(catalog: Catalog) -> None:
    first, second = (catalog.add(names.new_id(), name) for name in ("a", "b"))
    assert catalog.rename("a", "c").id == first.id
    assert catalog.find("c").id == first.id
    assert catalog.rename("c", "c").id == first.id
    with pytest.raises(CollectionNotFoundError):
        catalog.find("a")
    with pytest.raises(CollectionExistsError):
        catalog.rename("c", "b")
    assert catalog.find("b").id == second.id


def test_swapping_exchanges_the_names(catalog: Catalog) -> None:
    first, second = (catalog.add(names.new_id(), name) for name in ("a", "b"))
    catalog.swap("a", "b")
    assert (catalog.find("a").id, catalog.find("b").id) == (second.id, first.id)
    with pytest.raises(CollectionStateError):
        catalog.swap("a", "a")
    with pytest.raises(CollectionNotFoundError):
        catalog.swap("a", "c")
    assert (catalog.find("a").id, catalog.find("b").id) == (second.id, first.id)


def test_main_stays_what_it_is(catalog: Catalog) -> None:
    catalog.add(names.new_id(), "a")
    for change in (
        lambda: catalog.rename("main", "b"),
        lambda: catalog.remove("main"),
        lambda: catalog.swap("main", "a"),
        lambda: catalog.swap("a", "main"),
    ):
        with pytest.raises(CollectionStateError):
            change()
    with pytest.raises(CollectionNameError):
        catalog.rename("a", "main")
    assert catalog.find("main").id == "main"


def test_a_deleted_name_is_free_at_once(catalog: Catalog) -> None:
    first = catalog.add(names.new_id(), "a")
    assert catalog.remove("a") == first.id
    assert catalog.by_id(first.id) is None
    second = catalog.add(names.new_id(), "a")
    assert catalog.find("a").id == second.id
    assert catalog.deleted(10) == [first.id]
    catalog.forget(first.id)
    catalog.forget(second.id)
    assert catalog.deleted(10) == []
    assert catalog.find("a").id == second.id


def test_a_mark_is_cleared_only_if_no_newer_one_came(catalog: Catalog) -> None:
    collection = catalog.add(names.new_id(), "a")
    catalog.mark_work(collection.id)
    ((marked, mark),) = catalog.with_work()
    assert marked == collection.id
    catalog.mark_work(collection.id)
    catalog.clear_work(collection.id, mark)
    ((_, newer),) = catalog.with_work()
    catalog.clear_work(collection.id, newer)
    assert catalog.with_work() == []


def test_a_deleted_collection_has_no_work(catalog: Catalog) -> None:
    collection = catalog.add(names.new_id(), "a")
    catalog.mark_work(collection.id)
    catalog.remove("a")
    catalog.mark_work(collection.id)
    assert catalog.with_work() == []
    assert catalog.take_sweep(10, 0) == []


def test_a_sweep_takes_turns(catalog: Catalog) -> None:
    ids = {catalog.add(names.new_id(), name).id for name in "abcde"}
    first = catalog.take_sweep(3, 60)
    second = catalog.take_sweep(3, 60)
    assert len(first) == 3
    assert {*first, *second} == ids
    assert catalog.take_sweep(3, 60) == []


def test_a_newer_catalog_is_refused(settings: Settings) -> None:
    opened = open_catalog(settings)
    with opened.write() as transaction:
        transaction.execute(SET_VERSION, {"version": len(MIGRATIONS) + 1})
    opened.close()
    with pytest.raises(SchemaError, match="newer"):
        open_catalog(settings)
