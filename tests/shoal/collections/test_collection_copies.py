"""All collections of an installation are copied to another one, whatever stops the copy on the way."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from postgres_schemas import new_schema, url_of

from shoal.access.key_store import KeyStore
from shoal.cli.app import run
from shoal.collections.collections import Collections
from shoal.collections.copying import copy_all
from shoal.engine import Engine
from shoal.errors import CopyError
from shoal.maintenance.copying import CopyStep
from shoal.settings import Settings

TEXTS = {
    "main": ["A volcano throws lava and ash.", "Rain and storm. Wind over the sea."],
    "birds": ["A heron waits for fish."],
    "fish": ["Herring swim in shoals.", "A salmon returns to its river."],
}


@pytest.fixture
def source(settings: Settings) -> Settings:
    """An installation with two collections besides main, and a key."""
    with Engine(settings=settings, scorer=FakeScorer()) as main, Collections(settings, main=main) as all_:
        for name, texts in TEXTS.items():
            if name != "main":
                all_.create(name)
            with all_.engine(name) as engine:
                for text in texts:
                    engine.ingest(content=text)
        KeyStore(all_.catalog).create("reader", [("birds", "read")])
    return settings


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    """An installation that does not exist yet."""
    if request.param == "sqlite":
        yield Settings(database_url=f"sqlite:///{tmp_path / 'target.db'}")
        return
    with new_schema() as schema:
        yield Settings(database_url=url_of(schema), data_dir=str(tmp_path / "machine"))


on_sqlite = pytest.mark.parametrize("target", ["sqlite"], indirect=True)


def exports(settings: Settings) -> dict[str, list[str]]:
    """The canonical exports of all collections."""
    with Engine(settings=settings, scorer=FakeScorer()) as main, Collections(settings, main=main) as all_:
        found = {}
        for collection in all_.list().collections:
            with all_.engine(collection.name) as engine:
                found[collection.name] = list(engine.maintenance.export(canonical=True))
        return found


def killed_at(name: str, copy: Callable[[Callable[[str, CopyStep], None]], object]) -> bool:
    """Whether a copy, in a process of its own, kills itself when it comes to passages of a collection."""

    def watch(current: str, step: CopyStep) -> None:
        if (current, step.table) == (name, "chunks"):
            os.kill(os.getpid(), signal.SIGKILL)

    process = os.fork()
    if process == 0:
        try:
            copy(watch)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL


def test_a_killed_copy_of_all_collections_continues(
    source: Settings, target: Settings, tmp_path: Path
) -> None:
    assert killed_at("fish", lambda watch: list(copy_all(source, target, watch=watch)))
    copied = {copy.name: copy.result for copy in copy_all(source, target)}
    assert list(copied) == list(TEXTS)
    assert copied["main"] is copied["birds"] is None, "complete copies are left alone"
    assert copied["fish"] is not None
    assert copied["fish"].was_continued
    expected = exports(source)
    assert [any("heron" in line for line in lines) for lines in expected.values()] == [False, True, False]
    assert exports(target) == expected
    if target.is_sqlite:
        return
    back = Settings(database_url=f"sqlite:///{tmp_path / 'back.db'}")
    assert all(copy.result and copy.result.is_source_unchanged for copy in copy_all(target, back))
    assert exports(back) == expected


@on_sqlite
def test_a_collection_that_changed_since_its_copy_is_named(source: Settings, target: Settings) -> None:
    for copy in copy_all(source, target):
        if copy.name == "birds":
            break
    with (
        Engine(settings=source, scorer=FakeScorer()) as main,
        Collections(source, main=main) as all_,
        all_.engine("birds") as birds,
    ):
        birds.documents.delete(1)
    with pytest.raises(
        CopyError, match="collection 'birds': its copy is complete, and the source was changed"
    ):
        list(copy_all(source, target))


@on_sqlite
def test_the_command_says_what_it_copied_and_left_out(
    source: Settings, target: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with Collections(source) as all_:
        all_.create("empty")
    arguments = ["copy", "--all-collections", str(source.database_path), str(target.database_path)]
    assert run([*arguments, "--collection", "birds"]) == 2
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert {name: each["n_documents"] for name, each in result["collections"].items()} == {
        **{name: len(texts) for name, texts in TEXTS.items()},
        "empty": 0,
    }
    assert result["keys_left_out"] == 1
    assert "1 key of SOURCE left out" in captured.err
    assert run(arguments) == 1, "a finished copy is a library like any other"
    assert "collection 'main': " in capsys.readouterr().err
    with pytest.raises(CopyError, match="one installation"):
        list(copy_all(source, source))
