"""A library keeps what each document is cut with, and cuts it so again."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import REEF_WORDS, FakeScorer

from shoal import Engine
from shoal.errors import DuplicateContentError, InvalidFieldError, SettingsError
from shoal.models.files import TokenRange
from shoal.settings import Settings
from shoal.support.token_estimate import count_tokens

RANGE = "60-130"
PASSAGES = [
    {"text": "A volcano throws lava. Magma rises.", "heading": ["Earth", "Fire"], "page": 7},
    {"text": "A fern has spores.", "heading": "Plants"},
]


def long_text(n_sentences: int = 60) -> str:
    """Sentences of about seven tokens; every fifth begins another topic."""
    topics = [words.split() for words in REEF_WORDS.values()]
    sentences = []
    for i in range(n_sentences):
        words = islice(cycle(topics[i // 5 % len(topics)]), i % 4, i % 4 + 6)
        sentences.append(f"The {' '.join(words)}.")
    return " ".join(sentences)


TEXT = long_text()


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        yield engine


def texts(engine: Engine, document_id: int | None) -> list[str]:
    assert document_id is not None
    return [chunk.text for chunk in engine.documents.chunks(document_id).chunks]


def cut_with(engine: Engine, document_id: int | None) -> str:
    assert document_id is not None
    return engine.documents.get(document_id).document.chunk_tokens


def assert_in_range(chunks: list[str], tokens: str = RANGE) -> None:
    low, high = TokenRange.of(tokens) or (0, 0)
    assert len(chunks) > 1
    assert all(low <= count_tokens(chunk) <= high for chunk in chunks), [*map(count_tokens, chunks)]


def test_an_upload_may_name_the_tokens_of_its_chunks(engine: Engine) -> None:
    plain = engine.ingest(content=TEXT)
    ranged = engine.ingest(content=TEXT, chunk_tokens=RANGE)
    assert ranged.duplicate is None
    assert_in_range(texts(engine, ranged.id))
    assert texts(engine, plain.id) != texts(engine, ranged.id)
    assert (cut_with(engine, plain.id), cut_with(engine, ranged.id)) == ("any", RANGE)
    for stored, fields in ((plain, {}), (plain, {"chunk_tokens": "any"}), (ranged, {"chunk_tokens": RANGE})):
        assert engine.ingest(content=TEXT, **fields).duplicate == stored.id  # type: ignore[arg-type]


def test_the_setting_is_what_uploads_are_cut_with_by_default(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        before = engine.ingest(content=TEXT)
        chunks = texts(engine, before.id)
    with Engine(settings=replace(settings, chunk_tokens=RANGE), scorer=FakeScorer()) as engine:
        after = engine.ingest(content=TEXT)
        assert cut_with(engine, after.id) == RANGE
        assert engine.ingest(content=TEXT, chunk_tokens="any").duplicate == before.id
        engine.maintenance.rescore()
        assert texts(engine, before.id) == chunks


@pytest.mark.parametrize(
    "tokens", ["", "300", "800-300", "300-599", "10-800", "300-4001", "300 - 800", "given"]
)
def test_a_range_that_is_none_is_refused(
    tokens: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidFieldError, match="chunk_tokens"):
        engine.ingest(content=TEXT, chunk_tokens=tokens)
    if tokens:
        monkeypatch.setenv("SHOAL_CHUNK_TOKENS", tokens)
        with pytest.raises(SettingsError, match="SHOAL_CHUNK_TOKENS"):
            Settings.from_environment()


@pytest.mark.parametrize("fields", [{"content": TEXT, "chunk_tokens": RANGE}, {"chunks": PASSAGES}])
def test_a_document_is_scored_again_as_it_was_cut(fields: dict[str, Any], settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        stored = engine.ingest(**fields)
        assert stored.id is not None
        before = engine.documents.chunks(stored.id).chunks
    # Other data of the scorer: all documents are scored again.
    scorer = FakeScorer()
    scorer.data_checksum = "another build"
    with Engine(settings=settings, scorer=scorer) as engine:
        assert engine.maintenance.rescore().n_documents == 1
        after = engine.documents.chunks(stored.id).chunks
    assert [(c.id, c.start_char, c.end_char, c.section_path, c.place) for c in before] == [
        (c.id, c.start_char, c.end_char, c.section_path, c.place) for c in after
    ]


def test_damaged_documents_are_rebuilt_as_they_were_cut(engine: Engine) -> None:
    ids = [
        engine.ingest(content=TEXT, chunk_tokens=RANGE).id,
        engine.ingest(chunks=PASSAGES).id,
        engine.ingest(content=TEXT).id,
    ]
    before = [texts(engine, document_id) for document_id in ids]
    assert not engine.maintenance.doctor().findings
    with engine.database.write() as transaction:
        transaction.execute("UPDATE chunks SET norm = 99.0")
    engine.maintenance.doctor(repair=True)
    assert [texts(engine, document_id) for document_id in ids] == before
    assert not engine.maintenance.doctor().findings


def test_a_replacement_is_cut_as_the_document_was(engine: Engine) -> None:
    document_id = engine.ingest(content=TEXT, chunk_tokens=RANGE).id
    assert document_id is not None
    engine.documents.replace(document_id, content=long_text(80))
    assert cut_with(engine, document_id) == RANGE
    assert_in_range(texts(engine, document_id))
    engine.documents.replace(document_id, content=long_text(80), chunk_tokens="any")
    assert cut_with(engine, document_id) == "any"
    engine.documents.replace(document_id, chunks=PASSAGES)
    assert texts(engine, document_id) == [passage["text"] for passage in PASSAGES]


def test_given_passages_stay_with_their_text_alone(engine: Engine) -> None:
    document_id = engine.ingest(title="Old", chunks=PASSAGES).id
    assert document_id is not None
    content = engine.documents.content(document_id)
    engine.documents.replace(document_id, content=content, title="New")
    assert cut_with(engine, document_id) == "given"
    assert len(texts(engine, document_id)) == 2
    engine.documents.replace(document_id, content=TEXT)
    assert cut_with(engine, document_id) == "any"


def test_a_replacement_is_a_duplicate_only_of_what_is_cut_alike(engine: Engine) -> None:
    engine.ingest(content=TEXT, chunk_tokens=RANGE)
    other = engine.ingest(content=long_text(30)).id
    assert other is not None
    with pytest.raises(DuplicateContentError):
        engine.documents.replace(other, content=TEXT, chunk_tokens=RANGE)
    engine.documents.replace(other, content=TEXT)
    assert cut_with(engine, other) == "any"


def test_an_export_brings_back_what_documents_are_cut_with(tmp_path: Path) -> None:
    def open_library(name: str, **changes: Any) -> Engine:
        return Engine(
            settings=Settings(database_url=f"sqlite:///{tmp_path / name}", **changes), scorer=FakeScorer()
        )

    with open_library("a.db") as engine:
        engine.ingest(content=TEXT, chunk_tokens=RANGE)
        engine.ingest(content=TEXT)
        engine.ingest(title="Given", chunks=PASSAGES)
        lines = list(engine.maintenance.export(canonical=True))
    # The setting of the other library does not matter.
    with open_library("b.db", chunk_tokens="100-300") as engine:
        data = io.BufferedReader(io.BytesIO("\n".join(lines).encode()))  # type: ignore[arg-type]
        result = engine.maintenance.import_export(data)
        assert (result.stored, result.bad) == (3, ())
        assert list(engine.maintenance.export(canonical=True)) == lines


@pytest.mark.parametrize(
    "passages", [5, [5], [[0]], [[0, 1, ["a"], "acre", 1, 1]], [[0, 10**9, []]], [[5, 2, []]]]
)
def test_passages_that_no_export_has_are_a_bad_line(passages: object, engine: Engine) -> None:
    record = {"type": "document", "content": "Some text.", "chunk_tokens": "given", "passages": passages}
    data = b'{"type":"export","format":1}\n' + json.dumps(record).encode()
    result = engine.maintenance.import_export(io.BufferedReader(io.BytesIO(data)))  # type: ignore[arg-type]
    assert (result.stored, len(result.bad)) == (0, 1)


def test_a_sync_keeps_what_documents_are_cut_with(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    file = folder / "long.txt"
    file.write_text(TEXT)
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}", chunk_tokens=RANGE)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        assert len(engine.maintenance.sync(folder).new) == 1
        assert engine.maintenance.sync(folder, checksum=True).unchanged == 1
    with Engine(settings=replace(settings, chunk_tokens="any"), scorer=FakeScorer()) as engine:
        assert engine.maintenance.sync(folder, checksum=True).unchanged == 1
        file.write_text(long_text(80))
        assert len(engine.maintenance.sync(folder).changed) == 1
        assert cut_with(engine, 1) == RANGE
        file.rename(folder / "renamed.txt")
        assert len(engine.maintenance.sync(folder).renamed) == 1
        assert cut_with(engine, 1) == RANGE


def test_a_file_is_a_duplicate_only_of_what_is_cut_alike(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(f"<html><body><p>{TEXT}</p></body></html>")
    plain = engine.ingest_file(file)
    ranged = engine.ingest_file(file, chunk_tokens=RANGE)
    assert (plain.duplicate, ranged.duplicate) == (None, None)
    assert engine.ingest_file(file, chunk_tokens=RANGE).duplicate == ranged.id
    assert cut_with(engine, ranged.id) == RANGE
    with pytest.raises(InvalidFieldError, match="after its conversion"):
        engine.ingest_file(file, chunks=PASSAGES)


def test_many_documents_may_each_be_cut_in_another_way(engine: Engine) -> None:
    results = engine.ingest_many(
        [
            {"content": TEXT, "chunk_tokens": RANGE},
            {"chunks": PASSAGES},
            {"content": TEXT},
            {"chunks": []},
            *({"content": f"A volcano throws lava {number} times."} for number in range(40)),
        ]
    )
    assert [cut_with(engine, result.id) for result in results[:3]] == [RANGE, "given", "any"]
    assert results[3].error is not None
    assert all(result.error is None for result in results[4:])
