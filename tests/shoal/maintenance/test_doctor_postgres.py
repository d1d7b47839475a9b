"""The doctor checks and repairs a library on PostgreSQL like one on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from libraries import make
from postgres_schemas import new_schema, url_of

from shoal.cli.app import run
from shoal.engine import Engine
from shoal.errors import BackupError
from shoal.maintenance.copying import copy_library
from shoal.maintenance.doctor import CheckContext, Report, run_checks
from shoal.settings import Settings
from shoal.storage.opening import open_database


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """The settings of a small library on PostgreSQL."""
    with new_schema() as schema:
        copy_library(f"sqlite:///{make(tmp_path / 'shoal.db', 2)}", url_of(schema))
        yield Settings(database_url=url_of(schema), data_dir=str(tmp_path / "data"))


def examine(settings: Settings, **options: Any) -> Report:
    with closing(CheckContext(settings, FakeScorer())) as context:
        return run_checks(context, **options)


def problems(report: Report) -> list[str]:
    """The checks that found an error."""
    return [finding.check for finding in report.findings if finding.is_error]


DAMAGE = {
    "schema": "DROP INDEX idx_chunks_confidence",
    "texts": "UPDATE chunks SET end_char = end_char + 1 WHERE document_id = 1 AND chunk_index = 0",
    "scores": "UPDATE chunks SET norm = 7 WHERE document_id = 2",
    "totals": "UPDATE library_totals SET n_documents = 7",
}


def test_every_check_runs_and_damage_is_found_and_repaired(settings: Settings) -> None:
    report = examine(settings)
    assert problems(report) == []
    assert not any(finding.is_unseen for finding in report.findings)
    assert {"file", "schema", "texts", "totals", "jobs", "learned texts", "values"} <= set(report.looked_at)
    change(settings, "; ".join(DAMAGE.values()))
    assert problems(examine(settings)) == ["schema"]
    report = examine(settings, repair=True)
    assert problems(report) == []
    assert {finding.check for finding in report.repaired} >= DAMAGE.keys()
    assert problems(examine(settings)) == []
    change(settings, "UPDATE documents SET metadata = '[]' WHERE id = 1")
    change(settings, "UPDATE documents SET format = 'stone' WHERE id = 2")
    (finding,) = [finding for finding in examine(settings).findings if finding.check == "values"]
    assert finding.examples[0].startswith("document 1: documents.metadata is not a JSON object")
    assert any("documents.format is none of" in example for example in finding.examples)


def change(settings: Settings, statements: str) -> None:
    with closing(open_database(settings.database_url)) as database, database.write() as transaction:
        transaction.connection.execute(statements)


def test_backup_and_restore_name_the_tools_of_postgresql(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        with pytest.raises(BackupError, match="pg_dump"):
            engine.maintenance.backup(tmp_path / "copy.db")
        assert engine.maintenance.copy(f"sqlite:///{tmp_path / 'copy.db'}").n_documents == 2
    monkeypatch.setenv("SHOAL_DATABASE_URL", settings.database_url)
    for command in ("backup", "restore"):
        assert run([command, str(tmp_path / "copy.db")]) != 0
        assert "pg_dump" in capsys.readouterr().err
    assert run(["doctor", "--quick"]) in (0, 1)
    assert "checks:" in capsys.readouterr().out
