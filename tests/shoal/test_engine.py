"""The engine as a Python library, with a real database file and a small scorer."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal import DocFormat, Engine
from shoal.declared.documents import DocumentFields
from shoal.errors import (
    DatabaseUnavailableError,
    EmptyDocumentError,
    InvalidFieldError,
    NotFoundError,
    QueryError,
    SchemaError,
    SettingsError,
    UnknownFormatError,
)
from shoal.formats.drafts import make_draft
from shoal.settings import Settings

RAIN = (
    "Rain and storm in the wet season. Wind, cloud and rain fall on the coast. Snow and cold follow the heat."
)
LAVA = "# Fire\n\nA volcano throws lava and ash. Lava cools to basalt.\n\n## Stone\n\nGranite is rock of the crust.\n"
COURT = "A judge and a jury weigh evidence. The court hears a witness of the crime."


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        yield engine


def n_documents(engine: Engine) -> int:
    count: int = engine.status().n_documents
    return count


def test_stored_document_is_found(engine: Engine) -> None:
    rain = engine.ingest(title="Weather", content=RAIN, tags=["wet"])
    lava = engine.ingest(title="Volcanoes", content=LAVA, format=DocFormat.markdown)
    assert rain.id is not None
    assert (rain.duplicate, rain.error, rain.tags) == (None, None, ("wet",))
    response = engine.search("lava of a volcano")
    assert {result.document_id for result in response.results} == {lava.id}
    assert response.query_info.top_reef == "volcanoes and rocks"
    assert response.trace_id != engine.search("lava").trace_id
    assert response.took_ms > 0


def test_document_is_returned_with_sections_chunks_and_content(engine: Engine) -> None:
    lava = engine.ingest(
        title="Volcanoes", content=LAVA, format="markdown", tags=["b", "a"], metadata={"x": [1]}
    )
    assert lava.id is not None
    detail = engine.documents.get(lava.id)
    assert (detail.document.title, detail.document.format) == ("Volcanoes", DocFormat.markdown)
    assert (detail.document.tags, detail.document.metadata) == (("a", "b"), {"x": [1]})
    assert [section.path for section in detail.sections if section.n_chunks] == [("Fire",), ("Fire", "Stone")]
    headings = [LAVA[span.start_char : span.end_char] for span in detail.report.left_out]
    assert [heading.strip() for heading in headings] == ["# Fire", "## Stone"]
    page = engine.documents.chunks(lava.id)
    assert page.total == lava.n_chunks == len(page.chunks)
    assert engine.documents.content(lava.id) == LAVA
    second = engine.documents.chunks(lava.id, limit=1, offset=1, n_reefs=1)
    assert [chunk.id for chunk in second.chunks] == [page.chunks[1].id]
    assert second.chunks[0].reefs == page.chunks[1].reefs[:1]


def test_duplicate_content_is_stored_once_and_tags_are_merged(engine: Engine) -> None:
    first = engine.ingest(title="Weather", content=RAIN, tags=["wet"])
    again = engine.ingest(title="The weather again", content=RAIN, tags=["sky", "wet"])
    assert (again.id, again.duplicate, again.title) == (first.id, first.id, "Weather")
    assert (again.n_chunks, again.tags) == (first.n_chunks, ("sky", "wet"))
    assert n_documents(engine) == 1


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"title": "Empty", "content": ""}, EmptyDocumentError),
        ({"title": "Blank", "content": " \n\t "}, EmptyDocumentError),
        (
            {"title": "No text", "content": "<!-- only -->\n\n---\n", "format": "markdown"},
            EmptyDocumentError,
        ),
        ({"title": "PDF", "content": RAIN, "format": "pdf"}, UnknownFormatError),
        ({"title": "Bytes", "content": b"rain"}, InvalidFieldError),
        ({"title": "Tags", "content": RAIN, "tags": "wet"}, InvalidFieldError),
        ({"title": 7, "content": RAIN}, InvalidFieldError),
        ({"title": "Metadata", "content": RAIN, "metadata": {"x": object()}}, InvalidFieldError),
    ],
)
def test_invalid_document_is_refused_and_leaves_nothing(engine: Engine, document: dict, error: type) -> None:
    with pytest.raises(error):
        engine.ingest(**document)
    assert n_documents(engine) == 0


def test_ingest_many_returns_one_result_per_document_in_order(engine: Engine) -> None:
    results = engine.ingest_many(
        [
            {"title": "Weather", "content": RAIN, "tags": ["wet"]},
            {"title": "Empty", "content": ""},
            {"title": "Weather twice", "content": RAIN, "tags": ["sky"]},
            {"title": "Colour", "content": LAVA, "colour": "red"},
            {"title": "Missing"},
            "no document at all",  # type: ignore[list-item]
            {"title": None, "content": LAVA, "format": None, "source_path": "lava.md"},
        ]
    )
    assert [result.id for result in results] == [1, None, 1, None, None, None, 2]
    assert [result.duplicate for result in results] == [None, None, 1, None, None, None, None]
    assert results[2].tags == ("sky", "wet")
    assert results[1].title == "Empty"
    codes = [result.error_code for result in results]
    invalid = "invalid_field"
    assert codes == [None, "empty_document", None, invalid, invalid, invalid, None]
    for i, message in ((1, "no text"), (3, "colour"), (4, "content"), (5, "document")):
        assert message in (results[i].error or ""), results[i]
    assert engine.documents.get(2).document.format is DocFormat.markdown
    assert n_documents(engine) == 2


def test_small_documents_share_transactions_of_bounded_size(settings: Settings) -> None:
    import dataclasses

    bounded = dataclasses.replace(settings, batch_bytes=600, batch_items=4)
    documents = [{"title": str(i), "content": f"{RAIN} Number {i}."} for i in range(11)]
    documents += [documents[3], {"title": "big", "content": "\n".join(f"{COURT} {i}" for i in range(40))}]
    with Engine(settings=bounded, scorer=FakeScorer()) as engine:
        results = engine.ingest_many(documents)
        assert [result.error for result in results] == [None] * 13
        assert results[11].duplicate == results[3].id
        assert n_documents(engine) == 12


def test_interrupted_ingestion_leaves_only_earlier_documents(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    engine.ingest(title="Weather", content=RAIN)
    with monkeypatch.context() as patch:
        patch.setattr(FakeScorer, "analyze", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.ingest(title="Volcanoes", content=LAVA)
    assert n_documents(engine) == 1
    with engine.database.snapshot() as snapshot:
        for table in ("jobs", "waves", "job_items", "job_item_contents", "job_item_cuts"):
            assert snapshot.value(f"SELECT COUNT(*) FROM {table}") == 0, table
    assert engine.ingest(title="Volcanoes", content=LAVA).error is None


def test_file_name_gives_title_format_and_source_path(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "fire_and-stone.md"
    path.write_bytes(b"\xef\xbb\xbf" + LAVA.replace("\n", "\r\n").encode())
    result = engine.ingest_file(path, tags=["files"])
    assert result.id is not None
    document = engine.documents.get(result.id).document
    assert (document.title, document.source_path) == ("Fire and Stone", str(path))
    assert (document.format, document.tags) == (DocFormat.markdown, ("files",))
    assert engine.documents.content(result.id) == LAVA.replace("\n", "\r\n")
    with pytest.raises(NotFoundError):
        engine.ingest_file(tmp_path / "nowhere.txt")


def test_unknown_and_positional_fields_are_refused(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "rain.txt"
    path.write_text(RAIN, encoding="utf-8")
    document_id = engine.ingest(content=LAVA).id
    assert document_id is not None
    calls: list[Callable[..., object]] = [
        lambda **fields: engine.ingest(content=RAIN, **fields),
        lambda **fields: engine.ingest_file(path, **fields),
        lambda **fields: engine.documents.replace(document_id, content=RAIN, **fields),
        lambda **fields: engine.documents.replace_file(document_id, path, **fields),
        lambda **fields: make_draft(content=RAIN, settings=engine.settings, **fields),
    ]
    for call in calls:
        for value in ("Rain", None):
            with pytest.raises(TypeError, match="'tilte'"):
                call(tilte=value)
    with pytest.raises(TypeError):
        engine.ingest(RAIN)  # type: ignore[misc]
    with pytest.raises(TypeError):
        engine.ingest_file(path, "Rain")  # type: ignore[misc]
    assert engine.ingest_many([{"content": RAIN, "tilte": "Rain"}])[0].error == (
        "tilte: is not a field of a document"
    )
    assert n_documents(engine) == 1


def test_missing_fields_get_the_default_and_in_a_replacement_stay(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "wet-season.md"
    path.write_text(RAIN, encoding="utf-8")
    nothing: DocumentFields = dict.fromkeys(DocumentFields.__annotations__)  # type: ignore[assignment]
    first = engine.ingest_file(path, **nothing)
    assert (first.title, first.tags) == ("Wet Season", ())
    second = engine.ingest(content=LAVA, title="Fire", tags=["hot"], metadata={"x": 1}, source_path="a.md")
    assert second.id is not None
    before = engine.documents.get(second.id).document
    engine.documents.replace(second.id, content=COURT, **nothing)
    after = engine.documents.get(second.id).document
    for name in DocumentFields.__annotations__.keys() - {
        "chunks"
    }:  # `chunk_tokens` tells that they were given
        assert getattr(after, name) == getattr(before, name), name
    assert first.id is not None
    engine.documents.delete(first.id)
    engine.documents.replace_file(second.id, path, **nothing)
    after = engine.documents.get(second.id).document
    assert (after.title, after.tags, after.metadata) == ("Fire", ("hot",), {"x": 1})
    assert (after.source_path, after.format) == (str(path), DocFormat.markdown)


def test_tags_filter_listing_and_search(engine: Engine) -> None:
    engine.ingest(title="Weather", content=RAIN, tags=["wet", "sky"])
    engine.ingest(title="Volcanoes", content=LAVA, tags=["hot"])
    assert engine.documents.set_tags(2, [" dry  land ", "dry land"]) == ("dry land",)
    assert [document.id for document in engine.documents.list(tag="dry land").documents] == [2]
    assert engine.documents.list(tag="hot").documents == ()
    assert engine.search("rain and lava", tags=["dry land"]).results[0].document_id == 2
    assert engine.search("rain and lava", tags=["dry land", "wet"]).results == []
    either = {"tags": ["dry land", "wet"], "tags_match": "any"}
    assert {r.document_id for r in engine.search("rain and lava", filters=either).results} == {1, 2}
    with pytest.raises(NotFoundError):
        engine.documents.set_tags(99, ["x"])
    with pytest.raises(InvalidFieldError):
        engine.documents.set_tags(1, ["x" * 65])
    assert engine.documents.get(1).document.tags == ("sky", "wet")


def test_listing_has_pages_and_finds_text_literally(engine: Engine) -> None:
    for i, title in enumerate(["100% Rain", "100 Rains", "Snow_fall", "Snowfall", "Été"]):
        engine.ingest(title=title, content=f"{RAIN} {i}", source_path=f"shelf/{i}.txt")
    assert [d.title for d in engine.documents.list(q="100% r").documents] == ["100% Rain"]
    assert [d.title for d in engine.documents.list(q="snow_").documents] == ["Snow_fall"]
    assert [d.id for d in engine.documents.list(q="SHELF/3").documents] == [4]
    page = engine.documents.list(limit=2, offset=3)
    assert ([d.title for d in page.documents], page.total) == (["Snowfall", "Été"], 5)
    assert engine.documents.list(limit=0).total == 5
    assert engine.documents.list(offset=100).documents == ()
    for arguments in (
        {"q": "\ud83d"},
        {"tag": "\ud83d"},
        {"limit": -1},
        {"offset": -1},
        {"limit": 10**12},
        {"offset": "1"},
    ):
        with pytest.raises(QueryError):
            engine.documents.list(**arguments)


def test_delete_document_says_whether_there_was_one(engine: Engine) -> None:
    document_id = engine.ingest(content=RAIN, title="Rain").id
    assert engine.delete_document(document_id) is True
    assert engine.search("rain").results == []
    assert engine.delete_document(document_id) is False
    assert engine.delete_document(doc_id=2**70) is False


def test_deleted_document_is_gone_from_search_and_reads(engine: Engine) -> None:
    engine.ingest(title="Weather", content=RAIN)
    engine.ingest(title="Volcanoes", content=LAVA)
    assert engine.search("lava").results
    assert engine.documents.delete(2) is True
    assert engine.documents.delete(2) is False
    assert engine.search("lava and granite").results == []
    for read in (engine.documents.get, engine.documents.chunks, engine.documents.content):
        with pytest.raises(NotFoundError):
            read(2)
    again = engine.ingest(title="Volcanoes", content=LAVA)
    assert (again.id, again.duplicate) == (3, None)


def test_deletion_makes_the_file_smaller(settings: Settings) -> None:
    long_text = "\n\n".join(f"{RAIN} {i}\n\n{COURT} {i}" for i in range(1200))
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest(title="Weather", content=RAIN)
        engine.ingest(title="Long", content=long_text)
    full_size = engine.database.path.stat().st_size
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.documents.delete(2)
    assert engine.database.path.stat().st_size < full_size / 2


@pytest.mark.parametrize("document_id", [0, -1, 2**63, 10**30])
def test_impossible_document_ids_are_not_found(engine: Engine, document_id: int) -> None:
    for read in (engine.documents.get, engine.documents.chunks, engine.documents.content):
        with pytest.raises(NotFoundError):
            read(document_id)
    with pytest.raises(NotFoundError):
        engine.documents.set_tags(document_id, ["x"])
    assert engine.documents.delete(document_id) is False


def test_pages_of_a_search_continue_each_other(engine: Engine) -> None:
    for i in range(12):
        engine.ingest(title=f"Weather {i}", content=f"{RAIN} Rain number {i}. Storm." + " Wind." * (i % 3))
    all_ids = [result.chunk_id for result in engine.search("rain and wind", top_k=12).results]
    page_ids = [
        result.chunk_id
        for offset in (0, 5, 10)
        for result in engine.search("rain and wind", top_k=5, offset=offset).results
    ]
    assert len(all_ids) == 12
    assert page_ids[:12] == all_ids


def test_query_without_a_known_word_finds_nothing_and_warns(engine: Engine) -> None:
    engine.ingest(title="Weather", content=RAIN)
    for query, message in (
        ("the and of", "common words"),
        ("1984 42", "common words or numbers"),
        ("qwertz asdf", "qwertz"),
        ("?!", "has no words"),
    ):
        response = engine.search(query, mode="reef")
        assert response.results == []
        assert message in response.warnings[0], response.warnings
    response = engine.search("rain qwertz")
    assert response.results
    assert response.query_info.unknown_words == ("qwertz",)
    assert "qwertz" in response.warnings[0]


def test_chunks_of_other_data_are_left_out_with_a_warning(settings: Settings) -> None:
    class Newer(FakeScorer):
        data_checksum = "e" * 64

    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest(title="Weather", content=RAIN)
        assert engine.status().n_stale_chunks == 0
    with Engine(settings=settings, scorer=Newer()) as engine:
        lava = engine.ingest(title="Both", content="Rain and lava and storm.")
        response = engine.search("rain and storm", mode="reef")
        assert {result.document_id for result in response.results} == {lava.id}
        outdated = "1 passage was scored with other scorer data"
        assert response.warnings[0] == f"{outdated}: not found, until a rescore"
        by_words_too = engine.search("rain and storm").warnings[0]
        assert by_words_too == f"{outdated}: found by words only, and without labels, until a rescore"
        assert engine.status().n_stale_chunks == 1
        target = engine.explain("rain", document_id=1, mode="reef").target
        assert target is not None
        assert [exclusion.reason for exclusion in target.kept_out] == ["other data"]
        # The lexical signal does not depend on the data.
        both = {r.document_id: r for r in engine.search("rain and storm", include_scores=True).results}
        assert set(both) == {1, lava.id}
        assert (both[1].scores.reef, both[1].n_shared_reefs, both[1].shared_reefs) == (0.0, 0, ())
        assert both[1].provenance == ("lexical",)


def test_nothing_is_said_of_relevance_while_chunks_have_other_data(settings: Settings) -> None:
    hopeless = "rain parliament elections taxes ministers", "storm of taxes and elections"

    def warns(engine: Engine) -> list[bool]:
        return ["nothing here" in " ".join(engine.search(query).warnings) for query in hopeless]

    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest(title="Weather", content=RAIN)
        before = warns(engine)
        with engine.database.write() as transaction:
            transaction.execute("UPDATE chunks SET data_checksum = 'other'")
        assert any(before)
        assert not any(warns(engine))


def test_status_counts_stored_data(engine: Engine) -> None:
    engine.ingest(title="Weather", content=RAIN)
    engine.ingest(title="Volcanoes", content=LAVA, format="markdown")
    status = engine.status()
    assert (status.status, status.n_documents) == ("ok", 2)
    assert status.n_chunks == engine.documents.chunks(1).total + engine.documents.chunks(2).total
    assert status.content_bytes == len((RAIN + LAVA).encode())
    assert (status.lagoon_version, status.lagoon_n_reefs) == ("0.0.1-fake", 12)
    assert (status.vocabulary_version, status.n_custom_words, status.n_stale_chunks) == (0, 0, 0)
    assert status.db_path == str(engine.database.path)
    assert status.db_bytes > 4096
    assert set(status.jobs.values()) == {0}
    json.dumps(dataclasses.asdict(status))


def test_reefs_count_their_chunks(engine: Engine) -> None:
    engine.ingest(title="Weather", content=RAIN)
    engine.ingest(title="Courts", content=COURT)
    hierarchy = engine.vocabulary.reefs()
    n_chunks = {reef.name: reef.n_chunks for reef in hierarchy.reefs if reef.n_chunks}
    assert sum(n_chunks.values()) == engine.status().n_chunks
    assert set(n_chunks) == {"weather and climate", "law and courts"}
    assert len(hierarchy.islands) == 6
    assert len(hierarchy.archipelagos) == 4


def test_engines_in_many_threads_share_one_database(engine: Engine) -> None:
    """Threads ingest and search at the same time without errors or lost documents."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(6):
                engine.ingest(title=f"{number} {i}", content=f"{RAIN} {number} {i}")
                assert engine.search("rain", top_k=3).results
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert n_documents(engine) == 24


def test_started_engine_finds_documents_of_another_engine(settings: Settings) -> None:
    with (
        Engine(settings=settings, scorer=FakeScorer()) as reader,
        Engine(settings=settings, scorer=FakeScorer()) as writer,
    ):
        reader.start()
        assert reader.search("rain").results == []
        assert reader.status().index_bytes == 0
        writer.ingest(title="Weather", content=RAIN)
        assert len(reader.search("rain").results) == 1
        assert reader.status().index_bytes == writer.status().index_bytes > 0
        writer.documents.delete(1)
        assert reader.search("rain").results == []


def test_settings_come_from_the_environment_unless_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_DATABASE_URL", f"sqlite:///{tmp_path / 'from-environment.db'}")
    with Engine(scorer=FakeScorer()) as engine:
        assert engine.database.path == tmp_path / "from-environment.db"
    with Engine(db_path=tmp_path / "given.db", scorer=FakeScorer()) as engine:
        assert engine.database.path == tmp_path / "given.db"
    with Engine(database_url=f"sqlite:///{tmp_path / 'url.db'}", scorer=FakeScorer()) as engine:
        assert engine.database.path == tmp_path / "url.db"
    with pytest.raises(SettingsError):
        Engine(db_path="a.db", database_url="sqlite:///b.db")
    with pytest.raises(SettingsError):
        Engine(database_url="mysql://somewhere")
    monkeypatch.setenv("SHOAL_LEARNING", "0")
    with Engine(db_path=tmp_path / "given.db", scorer=FakeScorer(), learning=True) as engine:
        assert engine.settings.learning


def test_unusable_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailableError, match="no folder"):
        Engine(db_path=tmp_path / "nowhere" / "shoal.db")
    (tmp_path / "letter.db").write_text("Dear Sir or Madam, " * 400)
    with pytest.raises(SchemaError, match="not a Shoal database"):
        Engine(db_path=tmp_path / "letter.db")


HEAVY = ("scipy", "marshmallow", "celery", "flask")
READING = "engine.search('rain and storm'); engine.explain('rain'); engine.status(); engine.documents.list()"


@pytest.mark.parametrize(
    ("work", "unneeded"),
    [(READING, HEAVY), ("engine.ingest(title='Snow', content='Snow falls.')", ("scipy", "flask"))],
    ids=["reading", "ingestion"],
)
def test_commands_import_no_heavy_packages(engine: Engine, work: str, unneeded: tuple[str, ...]) -> None:
    """Commands wait for imports."""
    engine.ingest(title="Weather", content=RAIN)
    code = (
        "import sys; from shoal import Engine\n"
        f"with Engine(db_path={str(engine.database.path)!r}) as engine:\n"
        f"    {work}\n"
        f"print([name for name in {unneeded!r} if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert process.stdout.strip() == "[]", process.stdout + process.stderr


def test_the_status_is_read_by_attribute_and_by_name(engine: Engine) -> None:
    status = engine.status()
    assert status["n_documents"] == status.n_documents
    with pytest.raises(KeyError):
        status["no such member"]
