"""An export contains all data. A canonical export depends only on the documents."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.maintenance.export import UNSTABLE_FIELDS

DOCUMENTS: list[dict[str, Any]] = [
    {
        "title": "Fire",
        "content": "# Fire\n\nA volcano throws lava.\n\n<!-- not read -->\n\n## Stone\n\nGranite rock.\n",
        "format": "markdown",
        "tags": ["hot", "a"],
        "metadata": {"z": 1.123456789, "created_at": "by hand"},
        "source_path": "fire.md",
    },
    {"title": "Weather", "content": "Rain and storm. Wind.\r\nÉté 🌧.", "tags": []},
    {"title": "Courts", "content": "A judge and a jury weigh evidence of the crime."},
]


def export(folder: Path, documents: list[dict[str, Any]], *, canonical: bool) -> list[str]:
    folder.mkdir()
    with Engine(db_path=folder / "shoal.db", scorer=FakeScorer()) as engine:
        for result in engine.ingest_many(documents):
            assert result.error is None
        return list(engine.maintenance.export(canonical=canonical))


def test_export_contains_documents_chunks_reefs_and_islands(tmp_path: Path) -> None:
    records = [json.loads(line) for line in export(tmp_path / "x", DOCUMENTS, canonical=False)]
    assert records[0] == {"type": "export", "format": 1, "vocabulary_version": 0}
    documents = {record["content_hash"]: record for record in records if record["type"] == "document"}
    assert {record["content"] for record in documents.values()} == {
        document["content"] for document in DOCUMENTS
    }
    fire = next(record for record in documents.values() if record["title"] == "Fire")
    assert (fire["tags"], fire["source_path"], fire["format"]) == (["a", "hot"], "fire.md", "markdown")
    assert fire["metadata"] == DOCUMENTS[0]["metadata"]
    assert {reason for _, _, reason in fire["left_out"]} >= {"heading", "comment"}
    chunks = [record for record in records if record["type"] == "chunk"]
    for chunk in chunks:
        content = documents[chunk["document"]]["content"]
        assert content[chunk["start_char"] : chunk["end_char"]] == chunk["text"]
        assert chunk["reefs"] == sorted(chunk["reefs"], key=lambda reef: -reef["z_score"])
        assert chunk["islands"]
    assert {chunk["document"] for chunk in chunks} == set(documents)


def test_canonical_export_does_not_depend_on_document_order(tmp_path: Path) -> None:
    exports = [
        export(tmp_path / str(i), list(order), canonical=True)
        for i, order in enumerate(itertools.permutations(DOCUMENTS))
    ]
    assert all(other == exports[0] for other in exports)


def test_canonical_export_does_not_depend_on_deleted_documents(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer()) as engine:
        engine.ingest_many(DOCUMENTS[1:])
        before = list(engine.maintenance.export(canonical=True))
        engine.ingest(**DOCUMENTS[0])
        assert list(engine.maintenance.export(canonical=True)) != before
        engine.documents.delete(3)
        assert list(engine.maintenance.export(canonical=True)) == before


def test_canonical_export_has_no_ids_times_or_versions(tmp_path: Path) -> None:
    lines = export(tmp_path / "x", DOCUMENTS, canonical=True)
    for record in map(json.loads, lines):
        assert not UNSTABLE_FIELDS & record.keys()
        assert list(record) == sorted(record)
        for chunk_value in record.get("arch_scores", []):
            assert round(chunk_value, 6) == chunk_value


@pytest.mark.parametrize("canonical", [False, True])
def test_export_shows_the_state_of_its_start(tmp_path: Path, canonical: bool) -> None:
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer()) as engine:
        engine.ingest_many(DOCUMENTS)
        expected = list(engine.maintenance.export(canonical=canonical))
        lines = engine.maintenance.export(canonical=canonical)
        first = next(lines)
        engine.documents.delete(1)
        engine.ingest(title="New", content="A market price and a wage.")
        assert [first, *lines] == expected
        engine.maintenance.export().close()  # type: ignore[attr-defined] # an unread export holds no transaction


def test_current_learned_words_are_exported(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer()) as engine:
        insert = """INSERT INTO custom_words (word, from_version, retired, word_hash, word_id, specificity,
            idf_q, weight_q, n_occurrences, n_documents, created_at) VALUES (?, ?, ?, 1, ?, 2, 9, 9, 3, 2,
            'then')"""
        with engine.database.write() as transaction:
            transaction.write_many(
                "INSERT INTO vocabulary_versions VALUES (?, 'then', NULL, NULL, 1, 'data')", [(1,), (2,)]
            )
            transaction.write_many(
                insert,
                # The last two belong to a version that is not published yet.
                [
                    *(("tok", 1, 0, 7), ("tok", 2, 0, 7), ("gone", 1, 0, 8), ("gone", 2, 1, 8)),
                    *(("tok", 3, 1, 7), ("new", 3, 0, 9)),
                ],
            )
            transaction.execute("INSERT INTO word_reefs VALUES (2, 5, 100, 0.5, 0.75)")
        words = [
            record
            for record in map(json.loads, engine.maintenance.export())
            if record["type"] == "custom_word"
        ]
        assert [(word["word"], word["from_version"]) for word in words] == [("tok", 2)]
        assert words[0]["reefs"] == [
            {"reef_id": 5, "bm25_q": 100, "association_strength": 0.5, "probability": 0.75}
        ]
        assert engine.status().n_custom_words == 1
