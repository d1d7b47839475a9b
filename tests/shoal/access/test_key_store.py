"""Keys of the catalog: their life, what is stored of them, and when a process notices a change."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.access.authentication import FAILURE_SECONDS, Authenticator, LastUse, Refusal
from shoal.access.key_store import KeyStore, has_keys
from shoal.access.rights import ANYBODY, ELSEWHERE, Access
from shoal.collections.catalog import FILE_NAME, Catalog
from shoal.errors import DatabaseUnavailableError, InvalidFieldError, NotFoundError
from shoal.models.keys import KeyScope, KeyState, Right
from shoal.settings import Settings
from shoal.support.api_keys import new_key

DAY = 86_400.0


class Clock:
    """Seconds since the epoch, and of a monotonic clock."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def catalog(settings: Settings) -> Iterator[Catalog]:
    opened = Catalog(settings)
    yield opened
    opened.close()


@pytest.fixture
def store(catalog: Catalog, clock: Clock) -> KeyStore:
    return KeyStore(catalog, clock)


@pytest.fixture
def authenticator(settings: Settings, store: KeyStore, clock: Clock) -> Iterator[Authenticator]:
    built = Authenticator(replace(settings, key_cache_seconds=5.0), store, clock=clock, monotonic=clock)
    yield built
    built.close()


def test_the_life_of_a_key(store: KeyStore, clock: Clock, settings: Settings) -> None:
    assert not has_keys(settings)
    assert not Path(settings.data_path).exists(), "reading creates no catalog"
    created = store.create("web", [("main", "read")], owners=["ann", "ann"], expires_at=clock.now + DAY)
    assert created.details.scopes == (KeyScope("main", Right.read),)
    assert created.details.owners == ("ann",)
    assert has_keys(settings)
    found = store.find(created.key)
    assert found is not None
    assert found.access().key_id == created.details.id
    assert found.state(clock.now) is KeyState.active
    assert found.state(clock.now + DAY) is KeyState.expired
    assert store.find(created.key + "0") is None
    clock.now += 1
    assert store.revoke(created.details.id).state is KeyState.revoked
    first = store.get(created.details.id).revoked_at
    clock.now += 1
    assert store.revoke(created.details.id).revoked_at == first, "repeating it changes nothing"
    assert has_keys(settings), "a service whose keys are all revoked is not one without keys"
    with pytest.raises(InvalidFieldError, match="revoked"):
        store.rotate(created.details.id)
    for method in (store.get, store.revoke, store.rotate):
        with pytest.raises(NotFoundError):
            method("0" * 16)


def test_the_key_itself_is_stored_nowhere(store: KeyStore, catalog: Catalog, settings: Settings) -> None:
    created = store.create("web", [("*", "admin")])
    catalog.close()
    secret = created.key.removeprefix("shoal_")
    for file in settings.data_path.iterdir():
        assert secret.encode() not in file.read_bytes(), file
    assert created.key not in repr(store.page(10))


def test_keys_are_listed_newest_first_and_by_page(store: KeyStore, clock: Clock) -> None:
    for number in range(5):
        clock.now += 1
        store.create(f"key {number}", [("main", "read")], expires_at=clock.now + 2 if number == 0 else None)
    assert [key.name for key in store.page(2, 1).keys] == ["key 3", "key 2"]
    assert store.page(2, 1).total == 5
    active = store.page(10, only_active=True)
    assert ([key.name for key in active.keys], active.total) == (["key 4", "key 3", "key 2", "key 1"], 4)


def test_rotation_keeps_everything_but_the_key(
    store: KeyStore, clock: Clock, authenticator: Authenticator
) -> None:
    old = store.create("web", [("*", "write")], owners=["ann"], requests_per_second=2.5)
    new = store.rotate(old.details.id, grace_seconds=60)
    assert new.key != old.key
    same = {"id": "", "fingerprint": "", "created_at": "", "revoked_at": None}
    assert replace(new.details, **same) == replace(old.details, **same)
    for key in (old.key, new.key):
        assert isinstance(authenticator.identify(f"Bearer {key}"), Access)
    clock.now += 60
    assert authenticator.identify(f"Bearer {old.key}") is Refusal.revoked
    assert isinstance(authenticator.identify(f"Bearer {new.key}"), Access)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": " a"}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": [("main", "root")]}, "scopes"),
        ({"scopes": [("missing", "read")]}, "scopes"),
        ({"scopes": [("../main", "read")]}, "scopes"),
        ({"scopes": [("main", "read"), ("main", "write")]}, "scopes"),
        ({"owners": []}, "owners"),
        ({"owners": [""]}, "owners"),
        ({"owners": ["a\x00"]}, "owners"),
        ({"owners": list(map(str, range(101)))}, "owners"),
        ({"expires_at": 0.0}, "expires_at"),
        ({"expires_at": float("nan")}, "expires_at"),
        ({"expires_at": 1e300}, "expires_at"),
        ({"requests_per_second": 0}, "requests_per_second"),
        ({"requests_per_second": -1}, "requests_per_second"),
        ({"requests_per_second": 5e-324}, "requests_per_second"),
        ({"requests_per_second": True}, "requests_per_second"),
        ({"requests_per_second": float("inf")}, "requests_per_second"),
    ],
)
def test_bad_values_are_refused_by_field(store: KeyStore, changes: dict[str, Any], field: str) -> None:
    values: dict[str, Any] = {"name": "web", "scopes": [("main", "read")], **changes}
    with pytest.raises(InvalidFieldError) as caught:
        store.create(values.pop("name"), values.pop("scopes"), **values)
    assert caught.value.field == field
    assert not store.has_any()


def test_scopes_follow_a_rename_and_names_follow_a_swap(
    store: KeyStore, catalog: Catalog, authenticator: Authenticator
) -> None:
    catalog.add("a" * 16, "old")
    catalog.add("b" * 16, "new")
    caller = authenticator.identify(f"Bearer {store.create('k', [('old', 'read')]).key}")
    assert isinstance(caller, Access)
    assert authenticator.collection_of(caller, "old") == "a" * 16
    catalog.rename("old", "older")
    assert authenticator.collection_of(caller, "older") == "a" * 16
    assert authenticator.collection_of(caller, "old") == ELSEWHERE
    catalog.swap("older", "new")
    authenticator.forget()
    swapped = store.page(1).keys[0]
    assert swapped.scopes == (KeyScope("older", Right.read),), "who had a key for a name has one for it now"
    catalog.remove("older")
    assert store.page(1).keys[0].scopes == (KeyScope(None, Right.read),)
    assert authenticator.collection_of(caller, "older") == ELSEWHERE


def test_a_process_notices_a_revocation_after_the_cache_time(
    store: KeyStore, clock: Clock, authenticator: Authenticator
) -> None:
    created = store.create("web", [("main", "read")])
    header = f"Bearer {created.key}"
    assert isinstance(authenticator.identify(header), Access)
    store.revoke(created.details.id)
    clock.now += 4.9
    assert isinstance(authenticator.identify(header), Access)
    clock.now += 0.1
    assert authenticator.identify(header) is Refusal.revoked


def test_an_expiry_needs_no_cache_time(store: KeyStore, clock: Clock, authenticator: Authenticator) -> None:
    header = f"Bearer {store.create('web', [('main', 'read')], expires_at=clock.now + 1).key}"
    assert isinstance(authenticator.identify(header), Access)
    clock.now += 1
    assert authenticator.identify(header) is Refusal.expired


def test_the_first_key_closes_a_service_without_keys(
    store: KeyStore, clock: Clock, authenticator: Authenticator
) -> None:
    assert authenticator.identify(None) is ANYBODY
    created = store.create("web", [("main", "read")])
    clock.now += 5
    assert authenticator.identify(None) is Refusal.missing
    assert authenticator.identify(f"Bearer {new_key()}") is Refusal.unknown
    store.revoke(created.details.id)
    clock.now += 100
    assert authenticator.identify(None) is Refusal.missing


def test_without_the_catalog_nobody_gets_in_and_nobody_waits(
    store: KeyStore, clock: Clock, authenticator: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = f"Bearer {store.create('web', [('main', 'read')]).key}"
    assert isinstance(authenticator.identify(header), Access)
    clock.now += 5
    calls = []

    def fail(_key: str) -> None:
        calls.append(1)
        raise DatabaseUnavailableError("away")

    monkeypatch.setattr(store, "find", fail)
    for _ in range(3):
        with pytest.raises(DatabaseUnavailableError):
            authenticator.identify(header)
    assert len(calls) == 1
    monkeypatch.undo()
    clock.now += FAILURE_SECONDS
    assert isinstance(authenticator.identify(header), Access)


def test_keys_of_the_settings_and_of_the_catalog_work_together(
    settings: Settings, store: KeyStore, clock: Clock
) -> None:
    keyed = replace(settings, api_keys="read:reader-0123456789abcdef,writer-0123456789abcdef")
    both = Authenticator(keyed, store, clock=clock)
    created = store.create("web", [("main", "admin")])
    reader, writer, web = (
        both.identify(f"Bearer {key}")
        for key in ("reader-0123456789abcdef", "writer-0123456789abcdef", created.key)
    )
    assert isinstance(reader, Access)
    assert isinstance(writer, Access)
    assert isinstance(web, Access)
    assert (reader.right_in("main"), writer.right_in("x"), web.right_in("x")) == ("read", "admin", None)
    assert (writer.may_grant, web.may_grant) == (False, True)
    both.close()


def until(is_done: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(2000):
        if is_done():
            return
        waiting.wait(0.005)
    raise AssertionError("not within ten seconds")


def test_last_use_is_written_and_survives(
    store: KeyStore, authenticator: Authenticator, settings: Settings, clock: Clock
) -> None:
    created = store.create("web", [("main", "read")])
    authenticator.identify(f"Bearer {created.key}")
    authenticator.close()
    with sqlite3.connect(settings.data_path / FILE_NAME) as connection:
        assert connection.execute("SELECT last_used_at FROM keys").fetchall() == [(clock.now,)]
    store.record_uses({created.details.id: clock.now - 5})
    assert store.get(created.details.id).last_used_at == "2027-01-15T08:00:00.000Z", "it never goes back"


def test_a_key_is_written_once_in_its_time_however_often_it_is_used() -> None:
    written: list[dict[str, float]] = []
    ticks = Clock()
    uses = LastUse(lambda each: written.append(dict(each)), every=60, clock=ticks)
    uses.note("a", 1.0)
    until(lambda: bool(written))
    for moment in range(2, 500):
        uses.note("a", float(moment))
    uses.note("b", 9.0)
    until(lambda: len(written) == 2)
    assert written == [{"a": 1.0}, {"b": 9.0}]
    uses.close()
    assert written[2:] == [{"a": 499.0}]


def test_a_failed_write_of_last_use_is_repeated_and_harms_nobody() -> None:
    written: list[dict[str, float]] = []

    def write(uses: Any) -> None:
        written.append(dict(uses))
        if len(written) == 1:
            raise DatabaseUnavailableError("away")

    uses = LastUse(write)
    uses.note("a", 1.0)
    until(lambda: bool(written))
    uses.close()
    assert written == [{"a": 1.0}, {"a": 1.0}]
