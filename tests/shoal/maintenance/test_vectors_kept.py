"""Vectors survive an export and an import, and the doctor finds and removes damaged ones."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from embedded_library import with_vector
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer

from shoal.encoders.encoder import TextKind
from shoal.engine import Engine
from shoal.index.files import IndexFiles
from shoal.maintenance.import_export import Imported
from shoal.storage import vectors
from shoal.storage.sqlite.database import SqliteSnapshot

TEXTS = {
    "Rain": "Rain falls on the coast.\n\n# Monsoon\n\nThe monsoon brings rain and storm to the coast.",
    "Fire": "Lava of a volcano cools to basalt.",
}


def open_engine(path: Path, encoder: FakeEncoder | None) -> Engine:
    return Engine(db_path=path, scorer=FakeScorer(), encoder=encoder)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shoal.db"
    with open_engine(path, FakeEncoder()) as engine:
        for title, text in TEXTS.items():
            engine.ingest(title=title, content=text)
        engine.maintenance.embed()
    return path


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    with open_engine(path, FakeEncoder()) as engine:
        yield engine


def exported(path: Path, *, canonical: bool = False) -> bytes:
    with open_engine(path, None) as engine:
        return "".join(f"{line}\n" for line in engine.maintenance.export(canonical=canonical)).encode()


def import_into(path: Path, encoder: FakeEncoder | None, data: bytes) -> Imported:
    with open_engine(path, encoder) as engine:
        return engine.maintenance.import_export(io.BufferedReader(io.BytesIO(data)))  # type: ignore[arg-type]


def vectors_of(path: Path) -> list[tuple[str, bytes]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT c.text, v.vector FROM chunk_vectors v JOIN chunks c ON c.id = v.chunk_id ORDER BY c.text"
        ).fetchall()


def test_status_counts_vectors(engine: Engine, tmp_path: Path) -> None:
    status = engine.status()
    assert status.encoder == {"name": "fake", "revision": "1", "dimension": 64}
    assert (status.n_embedded_chunks, status.n_chunks_to_embed) == (status.n_chunks, 0)
    engine.ingest(title="Snow", content="Snow melts.")
    assert engine.status().n_chunks_to_embed == 1
    with open_engine(tmp_path / "other.db", None) as other:
        other.ingest(title="Snow", content="Snow melts.")
        status = other.status()
    assert (status.encoder, status.n_embedded_chunks, status.n_chunks_to_embed) == (None, 0, 0)


@pytest.mark.parametrize("has_encoder", [True, False])
def test_an_import_embeds_nothing_again(path: Path, tmp_path: Path, has_encoder: bool) -> None:
    encoder = FakeEncoder()
    other = tmp_path / "other.db"
    result = import_into(other, encoder if has_encoder else None, exported(path))
    assert (result.vectors, result.n_bad) == (len(vectors_of(path)), 0)
    assert vectors_of(other) == vectors_of(path)
    with open_engine(other, encoder) as engine:
        assert engine.maintenance.embed().n_documents == 0
        with engine.database.snapshot() as snapshot:
            library = engine._library.index.of(snapshot)
        found = library.dense(encoder.embed(["rain"], TextKind.query)[0])
    assert found is not None
    assert found.has_vector.all()
    assert encoder.n_embedded == 0


def test_vectors_of_another_encoder_are_made_anew(path: Path, tmp_path: Path) -> None:
    encoder = FakeEncoder(revision="2")
    other = tmp_path / "other.db"
    assert import_into(other, encoder, exported(path)).vectors == 0
    with open_engine(other, encoder) as engine:
        assert engine.maintenance.embed().n_after == engine.status().n_chunks
    # And the library keeps its own.
    assert import_into(other, None, exported(path)).vectors == 0


def test_a_canonical_export_has_no_vectors(path: Path) -> None:
    assert b'"vector"' in exported(path)
    assert b'"vector"' not in exported(path, canonical=True)
    assert b'"encoder"' not in exported(path, canonical=True)


@pytest.mark.parametrize("vector", ["?", "AAAA", 3, "A" * 48])
def test_a_damaged_vector_is_a_bad_line(path: Path, tmp_path: Path, vector: object) -> None:
    records = [json.loads(line) for line in exported(path).splitlines()]
    number = next(number for number, record in enumerate(records, 1) if "vector" in record)
    records[number - 1]["vector"] = vector
    data = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    result = import_into(tmp_path / "other.db", FakeEncoder(), data)
    assert [line.line for line in result.bad] == [number]
    assert "vector" in result.bad[0].reason
    assert (result.stored, result.vectors) == (2, len(vectors_of(path)) - 1)


@pytest.mark.parametrize(
    "encoder",
    [3, {}, {"name": "x", "revision": "1", "dimension": 0}, {"name": 1, "revision": 2, "dimension": 3}],
)
def test_an_invalid_encoder_of_an_export_is_ignored(path: Path, tmp_path: Path, encoder: object) -> None:
    records = [json.loads(line) for line in exported(path).splitlines()]
    records[0]["encoder"] = encoder
    data = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    result = import_into(tmp_path / "other.db", None, data)
    assert (result.stored, result.vectors, result.n_bad) == (2, 0, 0)


DAMAGE = {
    "vectors: size": "UPDATE chunk_vectors SET vector = substr(vector, 2) WHERE chunk_id = 1",
    "vectors: scale": "UPDATE chunk_vectors SET vector = CAST(x'00000000' || substr(vector, 5) AS BLOB)",
    "vectors: text": "UPDATE chunk_vectors SET text_hash = text_hash + 1 WHERE chunk_id = 2",
    "vectors: kind": "UPDATE chunk_vectors SET vector = 'text' WHERE chunk_id = 2",
    "vector files: none": "UPDATE index_segments SET vectors_file = ''",
    "vector files: a name": "UPDATE index_segments SET vectors_file = '../shoal.db'",
    "vector files: extra": "DELETE FROM chunk_vectors WHERE chunk_id = 1",
}


@pytest.mark.parametrize("name", DAMAGE)
def test_the_doctor_repairs_vectors(engine: Engine, name: str) -> None:
    assert engine.maintenance.doctor().is_healthy
    with closing(sqlite3.connect(engine.settings.database_path)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(DAMAGE[name])
        connection.commit()
    report = engine.maintenance.doctor()
    assert name.partition(":")[0] in {finding.check for finding in report.findings}
    repaired = engine.maintenance.doctor(repair=True)
    assert repaired.is_healthy, repaired.findings
    engine.maintenance.embed()
    assert len(with_vector(engine.database)) == engine.status().n_chunks
    assert engine.maintenance.doctor().findings == ()


def test_the_doctor_finds_a_changed_byte_of_a_file(engine: Engine) -> None:
    file = next(IndexFiles(engine.database).folder.glob("*.vectors"))
    content = bytearray(file.read_bytes())
    content[-9] ^= 1
    file.write_bytes(content)
    assert [finding.check for finding in engine.maintenance.doctor().findings] == ["vector files"]
    assert engine.maintenance.doctor(repair=True).is_healthy
    with engine.database.snapshot() as snapshot:
        library = engine._library.index.of(snapshot)
    found = library.dense(np.ones(64, dtype=np.float32))
    assert found is not None
    assert found.has_vector.all()


def test_coverage_is_shown_for_embedded_libraries_alone(engine: Engine, tmp_path: Path) -> None:
    n_chunks = engine.status().n_chunks
    assert engine.count_embedded() == (n_chunks, n_chunks)
    engine.ingest(title="Snow", content="Snow melts.")
    assert engine.count_embedded() == (n_chunks, n_chunks + 1)
    with open_engine(tmp_path / "other.db", None) as other:
        assert other.count_embedded() is None


def test_a_search_without_vectors_reads_none_of_their_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []

    def record(method: str) -> None:
        original = getattr(SqliteSnapshot, method)

        def recording(self: SqliteSnapshot, statement: str, *rest: object) -> object:
            statements.append(statement)
            return original(self, statement, *rest)

        monkeypatch.setattr(SqliteSnapshot, method, recording)

    with open_engine(tmp_path / "other.db", None) as other:
        other.ingest(title="Rain", content=TEXTS["Rain"])
        record("tuples")
        record("_execute")
        assert other.search("rain").results
    assert statements
    assert not [text for text in statements if any(table in text for table in vectors.TABLES)]
