"""Damaged values: named by the doctor, refused by backup, restore and copy, and behind unexpected errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fake_scorer import FakeScorer
from libraries import make, titles
from postgres_schemas import new_schema, url_of

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.errors import BackupError, CopyError, DamagedDatabaseError
from shoal.maintenance.backup import create_backup, restore
from shoal.maintenance.copying import copy_library
from shoal.maintenance.doctor import run_checks
from shoal.maintenance.doctor.findings import CheckContext
from shoal.maintenance.stored_values import JSON, NAMES, RANGES, describe_damage
from shoal.settings import Settings
from shoal.storage.copies import copied_tables
from shoal.storage.opening import open_database

DAMAGE = {
    "UPDATE documents SET title = x'ff41' WHERE id = 2": "document 2: documents.title is not stored as TEXT",
    "UPDATE documents SET title = CAST(x'ff41' AS TEXT) WHERE id = 2": "document 2: documents.title is not UTF-8",
    "UPDATE documents SET metadata = '[' WHERE id = 2": "document 2: documents.metadata is not a JSON object",
    "UPDATE documents SET n_bytes = -4 WHERE id = 2": "document 2: documents.n_bytes is less than 0",
    "UPDATE documents SET coverage = 7 WHERE id = 2": "documents.coverage is not between 0 and 1",
    "UPDATE chunks SET text = CAST(x'ff41' AS TEXT) WHERE id = 1": "document 1: chunks.text is not UTF-8",
    "UPDATE chunks SET locator = 'x' WHERE id = 1": "document 1: chunks.locator is not a JSON object",
    "UPDATE chunks SET end_char = 99999 WHERE id = 1": "chunks.end_char is not between start_char and the size",
    "UPDATE chunks SET start_char = -1 WHERE id = 1": "chunks.start_char is not between 0 and the size of the",
    "UPDATE chunks SET end_line = start_line - 1 WHERE id = 1": "chunks.end_line is less than start_line",
    "UPDATE sections SET heading_end = 99999 WHERE id = 1": "sections.heading_end is not between heading_start",
    "UPDATE sections SET path = '[1]' WHERE id = 1": "sections.path is not a JSON array of texts",
    "UPDATE document_tags SET tag = x'41' WHERE document_id = 1": "document_tags.tag is not stored as TEXT",
}
"""Damage, and what names it."""
SHIFTED = "UPDATE chunks SET start_char = start_char + 1, end_char = end_char + 1 WHERE id = 1"
"""Offsets within the size of the text that do not fit it."""
damaged = pytest.mark.parametrize(("statement", "reason"), DAMAGE.items(), ids=range(len(DAMAGE)))


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return make(tmp_path / "shoal.db", 3)


def damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(statement).rowcount >= 1


@damaged
def test_damaged_copy_is_not_restored(library: Path, tmp_path: Path, statement: str, reason: str) -> None:
    source = tmp_path / "backup.db"
    create_backup(library, source)
    damage(source, statement)
    before = titles(library)
    with pytest.raises(BackupError, match=reason) as caught:
        restore(library, source)
    assert "shoal doctor" in str(caught.value)
    assert titles(library) == before


def test_copy_whose_offsets_do_not_fit_its_text_is_not_restored(library: Path, tmp_path: Path) -> None:
    source = tmp_path / "backup.db"
    create_backup(library, source)
    damage(source, SHIFTED)
    with pytest.raises(BackupError, match=r"document 1: passage #0 differs.*shoal doctor --repair"):
        restore(library, source)


@damaged
def test_damaged_library_is_not_backed_up_and_not_copied(
    library: Path, tmp_path: Path, statement: str, reason: str
) -> None:
    damage(library, statement)
    with pytest.raises(BackupError, match=reason):
        create_backup(library, tmp_path / "backup.db")
    assert not (tmp_path / "backup.db").exists()
    with pytest.raises(CopyError, match=reason):
        copy_library(f"sqlite:///{library}", f"sqlite:///{tmp_path / 'copy.db'}")


@damaged
def test_doctor_names_what_restore_refuses(library: Path, statement: str, reason: str) -> None:
    damage(library, statement)
    context = CheckContext(Settings(database_url=f"sqlite:///{library}"), FakeScorer())
    with closing(context):
        findings = run_checks(context).findings
    assert reason in str([each.examples for each in findings if each.check == "values"])


def test_doctor_repairs_a_section_outside_of_its_text(library: Path) -> None:
    with Engine(db_path=library, scorer=FakeScorer()) as engine:
        n_bytes = len(engine.documents.content(1).encode())
    damage(library, f"UPDATE sections SET end_char = {n_bytes + 9} WHERE document_id = 1")
    context = CheckContext(Settings(database_url=f"sqlite:///{library}"), FakeScorer())
    with closing(context):
        assert not run_checks(context).is_healthy
        assert run_checks(context, repair=True).is_healthy


@pytest.mark.parametrize("command", [["search", "lava rock rain"], ["export"], ["show", "2"], ["list"]])
@damaged
def test_no_command_ends_with_an_internal_error(
    library: Path, capsys: pytest.CaptureFixture[str], command: list[str], statement: str, reason: str
) -> None:
    damage(library, statement)
    code = run([*command, "--db", str(library)])
    shown = capsys.readouterr().err
    assert "internal error" not in shown
    if code:
        assert "the database is damaged" in shown


def test_unexpected_error_of_an_intact_library_stays_what_it_is(
    library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no such number")

    monkeypatch.setattr(Engine, "search", fail)
    assert run(["search", "lava", "--db", str(library)]) == 1
    assert "internal error, ValueError: no such number" in capsys.readouterr().err


def test_text_that_is_no_utf8_is_damage(library: Path) -> None:
    with closing(open_database(f"sqlite:///{library}")) as database:
        with pytest.raises(DamagedDatabaseError, match="shoal doctor"), database.snapshot():
            b"\xff".decode()
        damage(library, "UPDATE documents SET title = CAST(x'ff41' AS TEXT) WHERE id = 2")
        with pytest.raises(DamagedDatabaseError), database.snapshot() as snapshot:
            snapshot.rows("SELECT title FROM documents")


def test_flipped_bytes_of_the_words_of_notes_are_damage(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer()) as engine:
        for text in ("Lava is hot rock.", "Rain is cold water."):
            engine.notes.of("ann").add(text)
    damage(tmp_path / "shoal.db", "UPDATE notes SET words = CAST(x'ff' || words AS BLOB)")
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer()) as engine:
        notes = engine.notes.of("ann")
        for operation in (lambda: notes.search("lava"), lambda: notes.add("Lava is very hot rock.")):
            with pytest.raises(DamagedDatabaseError):
                operation()


def test_declaration_names_columns_that_exist() -> None:
    columns = {table.name: dict(zip(table.columns, table.types, strict=True)) for table in copied_tables()}
    for declared in (JSON, NAMES, RANGES):
        for table, names in declared.items():
            assert names.keys() <= columns[table].keys(), table
    for table, ranges in RANGES.items():
        assert {columns[table][name] for name in ranges} <= {"int8", "float8"}


@pytest.fixture
def on_postgresql(tmp_path: Path) -> Iterator[Settings]:
    with new_schema() as schema:
        yield Settings(database_url=url_of(schema), learning=False, data_dir=str(tmp_path))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE chunks SET end_char = 99999", "chunks.end_char is not between start_char and the size"),
        ("UPDATE sections SET path = '[1]'", "sections.path is not a JSON array of texts"),
        ("UPDATE documents SET n_bytes = -1", "documents.n_bytes is less than 0"),
    ],
)
def test_damage_on_postgresql_is_named(on_postgresql: Settings, statement: str, reason: str) -> None:
    with Engine(settings=on_postgresql, scorer=FakeScorer()) as engine:
        engine.ingest(content="# Fire\n\nLava is hot rock.\n", title="Fire", format="markdown")
        with engine.database.snapshot() as snapshot:
            assert describe_damage(snapshot) is None
        with engine.database.write() as transaction:
            transaction.execute(statement)
        with engine.database.snapshot() as snapshot:
            assert reason in (describe_damage(snapshot) or "")
