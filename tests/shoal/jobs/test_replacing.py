"""A document gets new content under its id: citations of what stays hold, and nobody sees it half done."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st
from job_parts import assert_consistent, rows, statuses, value
from learning_parts import (
    Crew,
    KilledError,
    assert_settled,
    canonical,
    handlers,
    killed_at,
    learned,
    learning_settings,
    scorer,
    take_in,
    work_off,
)
from teaching_texts import about

from shoal.engine import Engine
from shoal.errors import DocumentError, DuplicateContentError, EmptyDocumentError, NotFoundError
from shoal.jobs import lease, rescoring
from shoal.jobs.claims import Batch, claim
from shoal.jobs.jobs import get_items, get_job
from shoal.jobs.names import JobKind, JobStatus, Stage
from shoal.jobs.pipeline import handlers_for, process
from shoal.jobs.replacing import continued
from shoal.jobs.upload import submit_one, submit_replacement, submit_rescore
from shoal.models import DocumentDraft
from shoal.parse.draft import make_draft
from shoal.settings import Settings
from shoal.storage.database import Database

FIRE = "Magma rises through the crust. Lava and ash pour from the crater. The rock is basalt and granite."
PLANT = (
    "A flower grows from a seed. The root and the leaf feed the plant. Pollen travels from petal to petal."
)
COURT = "The judge asked the jury for a verdict. A witness gave evidence in court. The crime went to trial."
TIDE = "The tide rises at the shore. A wave fills the pool on the reef. The harbour smells of salt and sea."


def text_of(*parts: str) -> str:
    """A markdown document with a section, and so at least one chunk, for each part."""
    return "".join(f"## Part\n\n{part}\n\n" for part in parts)


@pytest.fixture
def engine(settings: Settings, database: Database) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        yield opened


def chunks_of(engine: Engine, document_id: int) -> dict[str, int]:
    return {chunk.text: chunk.id for chunk in engine.chunks(document_id).chunks}


def assert_indexed(engine: Engine) -> None:
    """Full text, postings and reefs belong to the chunks that there are, and only to them."""
    with engine.database.write() as connection:
        connection.exec_driver_sql("INSERT INTO chunk_fts (chunk_fts, rank) VALUES ('integrity-check', 1)")
    reefs = "SELECT reef_id, chunk_id FROM {} ORDER BY reef_id, chunk_id"
    postings = rows(engine.database, reefs.format("reef_postings"))
    assert postings == rows(engine.database, reefs.format("chunk_reefs"))
    assert {chunk_id for _, chunk_id in postings} <= {
        chunk_id for (chunk_id,) in rows(engine.database, "SELECT id FROM chunks")
    }


def found(engine: Engine, query: str) -> set[int]:
    return {result.chunk_id for result in engine.search(query, top_k=50, mode="reef").results}


def ranked(engine: Engine, query: str) -> list[tuple[int, float]]:
    """Chunks and their scores, best first."""
    found = engine.search(query, top_k=50, mode="reef").results
    return [(result.chunk_id, result.match_score) for result in found]


def test_chunks_whose_text_stays_keep_their_ids(engine: Engine) -> None:
    document_id = engine.ingest(
        content=text_of(FIRE, PLANT, COURT), format="markdown", title="Notes", tags=["a"]
    ).id
    assert document_id is not None
    before = chunks_of(engine, document_id)
    created = engine.document(document_id).document.created_at

    result = engine.replace(document_id, content=text_of(TIDE, FIRE, COURT, "Bees carry nectar to the hive."))

    assert (result.id, result.title, result.tags, result.duplicate) == (document_id, "Notes", ("a",), None)
    after = chunks_of(engine, document_id)
    assert result.n_chunks == len(after) == 4
    assert {after[FIRE], after[COURT]} == {before[FIRE], before[COURT]}
    assert before[PLANT] not in after.values()
    assert min(after[TIDE], after["Bees carry nectar to the hive."]) > max(before.values())
    document = engine.document(document_id).document
    assert document.created_at == created
    assert document.updated_at >= created
    content = engine.content(document_id)
    for chunk in engine.chunks(document_id).chunks:
        assert content[chunk.start_char : chunk.end_char] == chunk.text
    assert_indexed(engine)


def test_searches_find_the_new_text_and_not_the_old(engine: Engine) -> None:
    other = engine.ingest(content=COURT).id
    document_id = engine.ingest(content=text_of(FIRE, PLANT), format="markdown").id
    assert document_id is not None
    assert other is not None
    # So often that the postings are kept in memory.
    for _ in range(6):
        assert found(engine, "magma and lava") >= {chunks_of(engine, document_id)[FIRE]}
    for content in (text_of(PLANT, TIDE), text_of(TIDE), text_of(FIRE, TIDE), text_of(FIRE, PLANT)):
        engine.replace(document_id, content=content)
        chunks = chunks_of(engine, document_id)
        for query in ("magma and lava", "flower and seed", "tide and wave", "judge and jury"):
            by_sql = Engine(settings=engine.settings, scorer=engine.scorer)
            with contextlib.closing(by_sql):
                assert found(engine, query) == found(by_sql, query)
            assert found(engine, query) <= {*chunks.values(), *chunks_of(engine, other).values()}
        assert (chunks.get(FIRE) in found(engine, "magma and lava")) == (FIRE in chunks)
    assert_indexed(engine)


def test_what_is_not_given_stays_and_what_is_given_changes(engine: Engine) -> None:
    document_id = engine.ingest(
        content=FIRE, title="Fire", tags=["a", "b"], metadata={"n": 1}, source_path="fire.txt"
    ).id
    assert document_id is not None
    engine.replace(document_id, content=PLANT)
    document = engine.document(document_id).document
    assert (document.title, document.tags, document.metadata, document.source_path) == (
        "Fire",
        ("a", "b"),
        {"n": 1},
        "fire.txt",
    )
    engine.replace(
        document_id,
        content=COURT,
        title="Court",
        tags=["c"],
        metadata={},
        source_path="c.md",
        format="markdown",
    )
    document = engine.document(document_id).document
    assert (document.title, document.tags, document.metadata, document.source_path, document.format) == (
        "Court",
        ("c",),
        {},
        "c.md",
        "markdown",
    )


def test_the_same_content_makes_no_work_but_what_is_said_of_it_counts(engine: Engine) -> None:
    document_id = engine.ingest(content=FIRE, title="Fire", tags=["a"]).id
    assert document_id is not None
    before = engine.chunks(document_id)
    last_job = value(engine.database, "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'")
    updated = engine.document(document_id).document.updated_at

    assert engine.replace(document_id, content=FIRE).id == document_id
    assert engine.document(document_id).document.updated_at == updated
    engine.replace(document_id, content=FIRE, tags=["b"], metadata={"seen": True})
    document = engine.document(document_id).document
    assert (document.tags, document.metadata) == (("b",), {"seen": True})
    assert engine.chunks(document_id) == before
    assert value(engine.database, "SELECT seq FROM sqlite_sequence WHERE name = 'jobs'") == last_job


def test_another_title_alone_scores_the_same_chunks_anew(engine: Engine) -> None:
    document_id = engine.ingest(content=FIRE, title="Volcano").id
    assert document_id is not None
    engine.ingest(content=PLANT)
    before = chunks_of(engine, document_id)
    # So often that the postings are kept in memory.
    scores = [ranked(engine, "lava in the garden of flowers") for _ in range(6)]
    engine.replace(document_id, content=FIRE, title="Flowers and seeds")
    assert chunks_of(engine, document_id) == before
    after = ranked(engine, "lava in the garden of flowers")
    assert after != scores[-1]
    with Engine(settings=engine.settings, scorer=engine.scorer) as by_sql:
        assert by_sql.document(document_id).document.title == "Flowers and seeds"
        assert ranked(by_sql, "lava in the garden of flowers") == after
    assert_indexed(engine)
    titles = "SELECT rowid FROM chunk_fts WHERE chunk_fts MATCH 'title : {}'"
    assert rows(engine.database, titles.format("seeds"))
    assert not rows(engine.database, titles.format("volcano"))


def test_a_file_becomes_the_new_content(engine: Engine, tmp_path: Path) -> None:
    document_id = engine.ingest(content=FIRE, title="Fire", tags=["a"], metadata={"n": 1}).id
    assert document_id is not None
    path = tmp_path / "plants.md"
    path.write_bytes(f"# Plants\n\n{PLANT} Grün.\n".encode("cp1252"))
    result = engine.replace_file(document_id, path)
    assert (result.id, result.title, result.tags) == (document_id, "Fire", ("a",))
    assert any("not UTF-8" in warning for warning in result.warnings)
    document = engine.document(document_id).document
    assert (document.source_path, document.format, document.metadata) == (str(path), "markdown", {"n": 1})
    assert "Grün" in engine.content(document_id)
    assert engine.replace_file(document_id, path, title="Plants", tags=["b"]).tags == ("b",)
    for missing in (tmp_path / "nothing.md", tmp_path):
        with pytest.raises((NotFoundError, DocumentError)):
            engine.replace_file(document_id, missing)


def test_content_of_another_document_is_refused(engine: Engine) -> None:
    fire, plant = engine.ingest(content=FIRE).id, engine.ingest(content=PLANT).id
    assert fire is not None
    with pytest.raises(DuplicateContentError, match=f"document {plant}"):
        engine.replace(fire, content=PLANT)
    assert engine.content(fire) == FIRE


def test_a_bad_text_leaves_the_document_as_it_was(engine: Engine) -> None:
    document_id = engine.ingest(content=FIRE).id
    assert document_id is not None
    before = engine.chunks(document_id)
    for wrong in ("   \n", "<!-- nothing -->\n\n---\n"):
        with pytest.raises(EmptyDocumentError):
            engine.replace(document_id, content=wrong, format="markdown")
    assert engine.chunks(document_id) == before
    assert engine.content(document_id) == FIRE


@pytest.mark.parametrize("document_id", [0, 17, 2**63, -1])
def test_a_document_that_is_not_there_cannot_be_replaced(engine: Engine, document_id: int) -> None:
    with pytest.raises(NotFoundError):
        engine.replace(document_id, content=FIRE)


# By jobs


def draft(content: str, settings: Settings, title: str = "T", tags: Sequence[str] = ()) -> DocumentDraft:
    return make_draft(content=content, title=title, tags=tags, format="markdown", settings=settings)


class Workers:
    """Workers of a service without learning, that take what they are given in any order."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self.handlers = handlers_for(database, FakeScorer(), settings)

    def claim(self) -> Batch | None:
        return claim(self._database, lease.new_owner(), self._settings)

    def process(self, batch: Batch) -> None:
        process(batch, self._database, self.handlers, self._settings)

    def work(self) -> None:
        while batch := self.claim():
            self.process(batch)
        assert_consistent(self._database)

    def stored(self, content: str) -> int:
        job_id = submit_one(self._database, self._settings, draft(content, self._settings))
        self.work()
        document_id = get_items(self._database, job_id)[0].document_id
        assert document_id is not None
        return document_id


@pytest.fixture
def workers(database: Database, settings: Settings) -> Workers:
    return Workers(database, settings)


def replace(database: Database, settings: Settings, document_id: int, content: str) -> int:
    return submit_replacement(database, settings, document_id, draft(content, settings))


def contents(database: Database) -> dict[int, str]:
    return {int(str(i)): str(text) for i, text in rows(database, "SELECT id, content FROM documents")}


def test_a_job_replaces_a_document(database: Database, settings: Settings, workers: Workers) -> None:
    document_id = workers.stored(FIRE)
    job_id = replace(database, settings, document_id, PLANT)
    assert contents(database) == {document_id: FIRE}
    workers.work()
    job = get_job(database, job_id)
    assert (job.kind, job.status) == (JobKind.replacing, JobStatus.succeeded)
    assert get_items(database, job_id)[0].document_id == document_id
    assert contents(database) == {document_id: PLANT}


def test_the_replacement_that_was_accepted_last_wins(
    database: Database, settings: Settings, workers: Workers
) -> None:
    document_id = workers.stored(FIRE)
    first = replace(database, settings, document_id, PLANT)
    second = replace(database, settings, document_id, COURT)
    held = workers.claim()
    assert held is not None
    assert [item.job_id for item in held.items] == [first]
    # The other one has to wait, whoever is free.
    assert workers.claim() is None
    workers.process(held)
    workers.work()
    assert contents(database) == {document_id: COURT}
    assert get_job(database, second).status is JobStatus.succeeded


def test_a_text_that_a_document_is_about_to_lose_is_stored_anew(
    database: Database, settings: Settings, workers: Workers
) -> None:
    document_id = workers.stored(FIRE)
    replace(database, settings, document_id, PLANT)
    again = submit_one(database, settings, draft(FIRE, settings))
    held = workers.claim()
    assert held is not None
    assert workers.claim() is None, "it is not settled yet whether this is a duplicate"
    workers.process(held)
    workers.work()
    assert statuses(database, again) == ["succeeded"]
    assert sorted(contents(database).values()) == sorted([FIRE, PLANT])


def test_two_documents_may_pass_a_text_on(database: Database, settings: Settings, workers: Workers) -> None:
    first, second = workers.stored(FIRE), workers.stored(PLANT)
    jobs = [
        replace(database, settings, second, COURT),
        replace(database, settings, first, PLANT),
    ]
    workers.work()
    assert [get_job(database, job_id).status for job_id in jobs] == [JobStatus.succeeded] * 2
    assert contents(database) == {first: PLANT, second: COURT}


def test_a_replacement_fails_with_its_reason_where_it_cannot_be(
    database: Database, settings: Settings, workers: Workers
) -> None:
    taken, document_id, gone = workers.stored(FIRE), workers.stored(PLANT), workers.stored(COURT)
    same = replace(database, settings, document_id, FIRE)
    of_nothing = replace(database, settings, gone, TIDE)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.delete_document(gone)
    workers.work()
    assert get_items(database, same)[0].error == f"the same content is stored already as document {taken}"
    error = get_items(database, of_nothing)[0].error
    assert error == f"document {gone} was deleted before its new content was stored"
    assert contents(database) == {taken: FIRE, document_id: PLANT}


def test_a_document_that_is_replaced_while_it_is_scored_is_scored_again(
    database: Database, settings: Settings, workers: Workers
) -> None:
    """A lease that was lost, and a worker that does not know."""
    document_id = workers.stored(FIRE)
    replace(database, settings, document_id, text_of(PLANT, COURT))
    batch = workers.claim()
    assert batch is not None
    handler: Any = workers.handlers[Stage.score]
    prepared = handler.prepare(batch.items[0])
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.replace(document_id, content=text_of(COURT, TIDE))
        kept = chunks_of(engine, document_id)
        prepare_anew = handler.prepare
        calls = itertools.count()

        def prepare(item: Any) -> Any:
            return prepared if next(calls) == 0 else prepare_anew(item)

        handler.prepare = prepare
        workers.process(batch)
        assert next(calls) == 2
        assert contents(database) == {document_id: text_of(PLANT, COURT)}
        assert_indexed(engine)
        assert chunks_of(engine, document_id)[COURT] == kept[COURT]


def test_readers_see_the_old_document_or_the_new_one(settings: Settings, engine: Engine) -> None:
    texts = [text_of(FIRE, PLANT, COURT), text_of(PLANT, TIDE), text_of(TIDE, FIRE, COURT, PLANT)]
    document_id = engine.ingest(content=texts[0], format="markdown").id
    assert document_id is not None
    expected = {}
    for text in texts:
        engine.replace(document_id, content=text)
        expected[text] = [
            (chunk.chunk_index, chunk.text, chunk.start_char, chunk.reefs)
            for chunk in engine.chunks(document_id).chunks
        ]
    done = threading.Event()

    def rewrite() -> None:
        try:
            for text in texts * 8:
                engine.replace(document_id, content=text)
        finally:
            done.set()

    thread = threading.Thread(target=rewrite)
    thread.start()
    seen = 0
    try:
        while not done.is_set():
            with engine.database.snapshot() as snapshot:
                content = snapshot.value("SELECT content FROM documents")
                rows_seen = [
                    (row["chunk_index"], row["text"], row["start_char"])
                    for row in snapshot.rows("SELECT * FROM chunks ORDER BY chunk_index")
                ]
            assert rows_seen == [row[:3] for row in expected[content]]
            for result in engine.search("magma, flower, tide and verdict", top_k=20, mode="reef").results:
                assert any(result.text == row[1] for rows_of in expected.values() for row in rows_of)
            seen += 1
    finally:
        thread.join()
    assert seen


# What is learned


@pytest.fixture
def learning(settings: Settings) -> Settings:
    return learning_settings(settings)


OLD = [about("fire", "zorblat"), about("law", "quendle"), about("sea", "hoxley wump", 6)]
NEW = about("bees", "mirthog", 8)


def rescore(database: Database, settings: Settings) -> None:
    submit_rescore(database, settings)
    work_off(database, settings)


def numbered(database: Database) -> dict[str, int]:
    return {str(text): int(str(i)) for i, text in rows(database, "SELECT id, content FROM documents")}


def replacement(settings: Settings, content: str) -> DocumentDraft:
    """As `learning_parts.drafts` makes one."""
    return make_draft(title=content[:12], content=content, format="plaintext", settings=settings)


@pytest.mark.parametrize("observations", ["keep", "prune"])
def test_words_of_the_old_text_are_forgotten_and_those_of_the_new_one_learned(
    database: Database, learning: Settings, tmp_path: Path, observations: str, migrated_file: Path
) -> None:
    learning = learning_settings(learning, observations=observations)
    take_in(database, learning, OLD)
    assert "zorblat" in learned(database)
    submit_replacement(database, learning, numbered(database)[OLD[0]], replacement(learning, NEW))
    work_off(database, learning)
    assert "mirthog" in learned(database)
    rescore(database, learning)
    if observations == "keep":
        assert_settled(database)
    assert "zorblat" not in learned(database)

    fresh_settings = learning_settings(learning, database_url=f"sqlite:///{tmp_path / 'fresh.db'}")
    (tmp_path / "fresh.db").write_bytes(migrated_file.read_bytes())
    fresh = Database(fresh_settings.database_url)
    with contextlib.closing(fresh):
        take_in(fresh, fresh_settings, [*OLD[1:], NEW])
        rescore(fresh, fresh_settings)
        assert canonical(database) == canonical(fresh)


def test_a_text_whose_first_look_was_withdrawn_is_looked_at_again(
    database: Database, learning: Settings
) -> None:
    take_in(database, learning, OLD)
    document_id = numbered(database)[OLD[0]]
    submit_replacement(database, learning, document_id, replacement(learning, NEW))
    using = handlers(database, learning)
    withdrawn = """UPDATE observed_documents SET state = 'withdrawn'
                   WHERE content_hash = (SELECT content_hash FROM job_items WHERE status = 'scoring')"""
    while batch := claim(database, lease.new_owner(), learning):
        if batch.stage is Stage.score:
            with database.write() as connection:
                assert connection.exec_driver_sql(withdrawn).rowcount == 1
        process(batch, database, using, learning)
    noted = """SELECT COUNT(*) FROM observed_documents o JOIN documents d ON d.content_hash = o.content_hash
               WHERE d.id = :id AND o.state IN ('pending', 'learned') AND o.stored = 1"""
    assert value(database, noted, id=document_id) == 1
    take_in(database, learning, [about("sea", "brinlow", 8)])
    assert_settled(database)


def test_a_replacement_survives_the_death_of_its_worker_at_any_statement(
    database: Database, learning: Settings
) -> None:
    take_in(database, learning, OLD)
    document_id = numbered(database)[OLD[0]]
    texts = itertools.cycle([NEW, OLD[0]])
    using = handlers(database, learning)
    died_once = True
    at = 0
    with Crew(database, learning).at_work() as crew:
        while died_once:
            before, after = contents(database), next(texts)
            submit_replacement(database, learning, document_id, replacement(learning, after))
            died_once = False
            while batch := claim(database, lease.new_owner(), learning):
                is_score = batch.stage is Stage.score
                if is_score and not died_once:
                    with contextlib.suppress(KilledError), killed_at(database, at) as died:
                        process(batch, database, using, learning)
                    died_once = died()
                    if died_once:
                        assert contents(database) == before
                        crew.bury(batch.owner)
                else:
                    process(batch, database, using, learning)
            assert contents(database) == {**before, document_id: after}
            assert_consistent(database)
            at += 3
    assert at > 30
    rescore(database, learning)
    assert_settled(database)


def test_a_rescore_leaves_a_document_alone_that_was_replaced_meanwhile(
    database: Database, learning: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "\n\n".join(about(topic, "zorblat", 6) for topic in ("fire", "sea", "law", "bees"))
    # Each of these words once, so that none is learned.
    nonsense = map("".join, itertools.product("bdfg", "xqzv", "wkrt", "jmnp"))
    odd = "".join(f"The {a}x and the {b}q saw a {c}z.\n" for a, b, c in zip(*[nonsense] * 3, strict=False))
    take_in(database, learning, [long])
    take_in(database, learning, [about("fire", "zorblat", 8)])
    document_id = numbered(database)[long]
    submit_rescore(database, learning)
    with Engine(settings=learning, scorer=scorer()) as engine:
        before = engine.document(document_id)
        replaced: list[Any] = []
        prepare = rescoring.Rescoring.prepare

        def prepare_and_be_late(self: Any, item: Any) -> Any:
            prepared = prepare(self, item)
            if item.document_id == document_id and not replaced:
                assert prepared is not None
                engine.replace(document_id, content=odd)
                replaced.append(engine.document(document_id))
            return prepared

        monkeypatch.setattr(rescoring.Rescoring, "prepare", prepare_and_be_late)
        work_off(database, learning)
        (detail,) = replaced
        assert engine.content(document_id) == odd
        assert detail.document.coverage < 0.6 < before.document.coverage
        assert engine.document(document_id).document.coverage == detail.document.coverage
        assert engine.document(document_id).report == detail.report
        assert_indexed(engine)
    monkeypatch.undo()
    rescore(database, learning)
    assert_settled(database)


# Which chunks go on


TEXTS = st.lists(st.sampled_from("abcdef"), max_size=12)


@given(TEXTS, TEXTS)
def test_chunks_go_on_under_an_equal_text_and_in_their_order(before: list[str], after: list[str]) -> None:
    numbered_before = list(enumerate(before, start=100))
    kept = continued(numbered_before, after)
    assert len(kept) == len(after)
    ids = [chunk_id for chunk_id in kept if chunk_id is not None]
    assert ids == sorted(set(ids))
    texts = dict(numbered_before)
    assert all(
        chunk_id is None or texts[chunk_id] == text for chunk_id, text in zip(kept, after, strict=True)
    )
    if before == after:
        assert None not in kept


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9), unique=True))
def test_of_different_texts_as_many_go_on_as_can(before: list[int], after: list[int]) -> None:
    numbered_before = [(place, str(text)) for place, text in enumerate(before)]
    kept = continued(numbered_before, [str(text) for text in after])
    longest = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i, j in itertools.product(range(len(before)), range(len(after))):
        longest[i + 1][j + 1] = (
            longest[i][j] + 1 if before[i] == after[j] else max(longest[i][j + 1], longest[i + 1][j])
        )
    assert sum(chunk_id is not None for chunk_id in kept) == longest[-1][-1]


def test_a_document_of_many_equal_chunks_is_matched_in_no_time() -> None:
    before = [(i, "same" if i % 2 else str(i)) for i in range(40_000)]
    after = ["new", *(text for _, text in before[::-1])]
    assert len(continued(before, after)) == len(after)
