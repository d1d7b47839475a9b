"""A static index, texts with given vectors, is imported whole or not at all."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer

from shoal.encoders.encoder import TextKind
from shoal.engine import Engine
from shoal.errors import EncoderError, EncoderMismatchError
from shoal.maintenance import index_import
from shoal.maintenance.index_import import ImportedIndex, NotAnIndexError
from shoal.settings import Settings

TEXTS = (
    "Rain falls on the coast. The wind blows from the sea.\n\nA storm follows in the evening.",
    "Lava of a volcano cools to basalt.",
    "The jury believes the witness.",
)


def documents(texts: Sequence[str] = TEXTS) -> list[dict[str, Any]]:
    return [
        {"content": text, "metadata": {"source": f"{number}.md", "page": number, "title": f"Part {number}"}}
        for number, text in enumerate(texts)
    ]


def embeddings(texts: Sequence[str] = TEXTS) -> list[list[float]]:
    # Of another length than 1, as many models return them.
    return [[3 * number for number in row] for row in FakeEncoder().embed(texts, TextKind.document).tolist()]


def index(**changes: Any) -> bytes:
    return json.dumps({"embeddings": embeddings(), "documents": documents(), **changes}).encode()


def import_into(engine: Engine, data: bytes, name: str = "fake") -> ImportedIndex:
    return engine.maintenance.import_index(io.BytesIO(data), encoder_name=name)


@pytest.fixture
def encoder() -> FakeEncoder:
    return FakeEncoder()


@pytest.fixture
def engine(tmp_path: Path, encoder: FakeEncoder) -> Iterator[Engine]:
    settings = Settings(embed=True, max_document_bytes=20_000)
    with Engine(
        db_path=tmp_path / "shoal.db", settings=settings, scorer=FakeScorer(), encoder=encoder
    ) as engine:
        yield engine


def assert_nothing(engine: Engine) -> None:
    status = engine.status()
    assert (status.n_documents, status.n_embedded_chunks) == (0, 0)


@pytest.mark.parametrize("read_bytes", range(1, 20))
def test_a_value_goes_on_behind_what_was_read(monkeypatch: pytest.MonkeyPatch, read_bytes: int) -> None:
    monkeypatch.setattr(index_import, "READ_BYTES", read_bytes)
    stream = index_import.JsonStream(io.BytesIO(b' {"n" : 1234.5e-2 ,"m":[10, 20], "o": {"a": "b"}} '), 100)
    found: dict[str, Any] = {}
    for key in stream.members():
        found[key] = [stream.value() for _ in stream.elements()] if key == "m" else stream.value()
    stream.end()
    assert found == {"n": 12.345, "m": [10, 20], "o": {"a": "b"}}


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("read_bytes", [1, 7, 1 << 18])
def test_texts_become_passages_with_the_given_vectors(
    engine: Engine,
    encoder: FakeEncoder,
    monkeypatch: pytest.MonkeyPatch,
    is_compressed: bool,
    read_bytes: int,
) -> None:
    monkeypatch.setattr(index_import, "READ_BYTES", read_bytes)
    data = index()
    result = import_into(engine, gzip.compress(data) if is_compressed else b"\xef\xbb\xbf" + data)
    assert (result.stored, result.duplicates, result.vectors, result.cut, result.n_bad) == (3, 0, 3, 0, 0)
    status = engine.status()
    assert (status.n_chunks, status.n_embedded_chunks, status.n_chunks_to_embed) == (3, 3, 0)
    n_of_sample = encoder.n_embedded
    assert n_of_sample == 3
    (best, *_) = engine.search(TEXTS[1], mode="dense", include_scores=True).results
    assert (best.document_title, best.metadata["source"]) == ("Part 1", "1.md")
    assert best.scores.dense_raw == pytest.approx(1.0, abs=0.02)
    assert engine.maintenance.embed().n_after == 3
    assert engine.maintenance.doctor().is_healthy


def test_the_order_of_the_members_does_not_matter_and_others_are_left_out(engine: Engine) -> None:
    data = {
        "model": "x",
        "documents": documents(),
        "more": [[1], {"a": 2}],
        "embeddings": embeddings(),
        "n": 3,
    }
    assert import_into(engine, json.dumps(data, indent=2).encode()).vectors == 3


def test_a_second_import_adds_nothing(engine: Engine) -> None:
    import_into(engine, index())
    before = engine.status()
    result = import_into(engine, index())
    assert (result.stored, result.duplicates, result.vectors) == (0, 3, 0)
    assert dataclasses.replace(engine.status(), db_bytes=before.db_bytes) == before


def test_an_import_gives_vectors_to_texts_that_lack_them(engine: Engine) -> None:
    for document in documents():
        engine.ingest(title=document["metadata"]["title"], content=document["content"], format="plaintext")
    assert import_into(engine, index()).vectors >= 2


def test_a_rescore_keeps_passages_and_vectors(engine: Engine) -> None:
    import_into(engine, index())
    engine.maintenance.rescore()
    status = engine.status()
    assert (status.n_chunks, status.n_embedded_chunks) == (3, 3)


def test_equal_texts_are_stored_once_and_equal_ids_stay_apart(engine: Engine) -> None:
    given = [
        {"id": "a", "content": TEXTS[0]},
        {"id": "a", "content": TEXTS[1]},
        {"id": "b", "content": TEXTS[0]},
    ]
    vectors = embeddings((TEXTS[0], TEXTS[1], TEXTS[0]))
    result = import_into(engine, index(embeddings=vectors, documents=given))
    assert (result.stored, result.duplicates, result.vectors) == (2, 1, 2)
    assert [result.metadata for result in engine.search("volcano").results] == [{"id": "a"}]


def test_bad_documents_are_listed_and_do_not_stop_the_others(engine: Engine) -> None:
    bad: list[Any] = [
        {"content": ""},
        {"metadata": {}},
        "text",
        {"content": 3},
        {"content": "Snow.", "page": 3},
        {"content": "x" * 20_001},
        {"content": "Snow.", "metadata": [1]},
    ]
    given = [*documents(), *bad]
    vectors = [*embeddings(), *(embeddings()[:1] * len(bad))]
    result = import_into(engine, index(embeddings=vectors, documents=given))
    assert (result.stored, result.vectors, result.n_bad) == (3, 3, len(bad))
    assert [each.number for each in result.bad] == list(range(3, 3 + len(bad)))
    assert "`metadata`" in result.bad[4].reason


def test_a_text_that_is_too_long_for_a_passage_is_named(engine: Engine) -> None:
    texts = ("Rain falls on the coast of the sea. " * 400, TEXTS[1])
    result = import_into(engine, index(embeddings=embeddings(texts), documents=documents(texts)))
    assert (result.stored, result.vectors, result.cut) == (2, 1, 1)
    assert engine.status().n_chunks_to_embed > 0


def with_row(number: int, row: Any) -> list[Any]:
    rows: list[Any] = embeddings()
    rows[number] = row
    return rows


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (index(embeddings=with_row(1, [0.1, 0.2])), "Embedding dimension mismatch: got 2, expected 64"),
        (index(embeddings=with_row(2, [0.0] * 64)), "embedding 2 is zero or not finite"),
        (index(embeddings=with_row(2, [1e308] * 64)), "embedding 2 is zero or not finite"),
        (index(embeddings=with_row(2, [10**400] * 64)), "embedding 2 is zero or not finite"),
        (index(embeddings=with_row(2, [float("nan")] * 64)), "NaN is no number"),
        (index(embeddings=with_row(2, [float("inf")] * 64)), "Infinity is no number"),
        (index(embeddings=with_row(1, ["0.1"] * 64)), "embedding 1 is not a list of numbers"),
        (index(embeddings=with_row(1, [True] * 64)), "embedding 1 is not a list of numbers"),
        (index(embeddings=with_row(1, None)), "embedding 1 is not a list of numbers"),
        (index(embeddings=with_row(1, [[0.1]] * 64)), "embedding 1 is not a list of numbers"),
        (index(embeddings=embeddings()[:2]), "2 embeddings and 3 documents"),
        (index(documents=documents()[:1]), "3 embeddings and 1 documents"),
        (index(embeddings={}), "expected `[`"),
        (b'{"embeddings": []}', "no `documents`"),
        (b'{"documents": []}', "no `embeddings`"),
        (b'{"documents": [], "embeddings": [], "documents": []}', "comes twice"),
        (b'{"documents": [], "embeddings": []} {}', "something follows"),
        (b'{"documents": [], "embeddings": [],}', "JSON"),
        (b'{"documents": [,], "embeddings": []}', "JSON"),
        (b'{"documents": [{}{}], "embeddings": []}', "expected `,`"),
        (b"[]", "expected `{`"),
        (b"", "cut off"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"documents": ' + b"[" * 100_000, "cut off|usable"),
        (b'{"documents": [' + b'{"a":' * 100_000, "cut off|usable"),
        (index()[:-1], "cut off"),
        (index()[:-200], "cut off"),
        (index()[:500], "cut off"),
        (gzip.compress(index())[:-30], "cut off or is damaged"),
        (b'{"documents": ["' + b"x" * 2_000_000 + b'"], "embeddings": []}', "which is the limit"),
        (b'{"n": ' + b"1" * 5_000 + b', "documents": [], "embeddings": []}', "usable"),
    ],
)
def test_a_file_that_is_not_sound_stores_nothing(engine: Engine, data: bytes, message: str) -> None:
    with pytest.raises(NotAnIndexError, match=message.replace("[", r"\[").replace("{", r"\{")) as raised:
        import_into(engine, data)
    assert "nothing was stored" in str(raised.value)
    assert_nothing(engine)


def test_every_truncation_stores_nothing(engine: Engine) -> None:
    data = index(embeddings=[[1.0] * 64], documents=[{"content": "Rain.", "metadata": {}}])
    for length in range(0, len(data), 3):
        with pytest.raises(NotAnIndexError):
            import_into(engine, data[:length])
    assert_nothing(engine)


def test_an_index_without_documents_is_whole(engine: Engine) -> None:
    assert import_into(engine, b'{"embeddings": [], "documents": []}').stored == 0


def test_vectors_of_another_encoder_are_refused(engine: Engine, encoder: FakeEncoder) -> None:
    with pytest.raises(EncoderMismatchError, match="SHOAL_ENCODER"):
        import_into(engine, index(), "other")
    others = encoder.embed(["one", "two", "three"], TextKind.document).tolist()
    with pytest.raises(EncoderMismatchError, match="not those of `fake`"):
        import_into(engine, index(embeddings=others))
    assert_nothing(engine)


def test_without_an_encoder_nothing_is_stored(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db", scorer=FakeScorer()) as engine:
        with pytest.raises(EncoderError, match="SHOAL_ENCODER"):
            import_into(engine, index())
        assert_nothing(engine)


def test_a_library_with_vectors_of_another_revision_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db"
    with Engine(db_path=path, scorer=FakeScorer(), encoder=FakeEncoder(revision="0")) as engine:
        engine.ingest(title="Snow", content="Snow melts.")
        engine.maintenance.embed()
    with (
        Engine(db_path=path, scorer=FakeScorer(), encoder=FakeEncoder()) as engine,
        pytest.raises(EncoderMismatchError, match="--again"),
    ):
        import_into(engine, index())


def test_memory_does_not_grow_with_the_file(engine: Engine, tmp_path: Path) -> None:
    """All vectors of a large file are never in memory together: their text has 30 MB."""
    import tracemalloc

    row = json.dumps(embeddings()[0])
    path = tmp_path / "large.json"
    with path.open("w") as file:
        file.write('{"embeddings": [' + ",".join([row] * 20_000) + '], "documents": []}')
    assert path.stat().st_size > 25_000_000
    with path.open("rb") as opened:
        tracemalloc.start()
        try:
            with pytest.raises(NotAnIndexError, match="20,000 embeddings and 0 documents"):
                engine.maintenance.import_index(opened, encoder_name="fake")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 12_000_000


def test_an_interrupted_import_is_completed_by_the_next(
    engine: Engine, encoder: FakeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:

        def die(*_: Any) -> None:
            raise KeyboardInterrupt

        patched.setattr(index_import, "_store_vectors", die)
        with pytest.raises(KeyboardInterrupt):
            import_into(engine, index())
    status = engine.status()
    assert (status.n_documents, status.n_embedded_chunks, status.n_chunks_to_embed) == (3, 0, 3)
    result = import_into(engine, index())
    assert (result.stored, result.duplicates, result.vectors) == (0, 3, 3)
    assert engine.status().n_chunks_to_embed == 0
