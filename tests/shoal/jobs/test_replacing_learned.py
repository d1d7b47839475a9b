"""Replacing a text removes its evidence and adds that of the new text, whichever process dies."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from indexed_library import assert_indexed
from job_parts import assert_consistent, rows, value
from learning_parts import (
    Crew,
    KilledError,
    assert_settled,
    canonical,
    handlers,
    ingest,
    killed_at,
    learned,
    learning_settings,
    run_job,
    scorer,
)
from replacing_parts import contents
from teaching_texts import about

from shoal.engine import Engine
from shoal.formats.drafts import make_draft
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.submission import submit_replacement, submit_rescore
from shoal.jobs.stages import score as rescore_stage
from shoal.jobs.stages.runner import process
from shoal.models.documents import DocumentDraft
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database


@pytest.fixture
def engine(settings: Settings, database: Database) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        yield opened


@pytest.fixture
def learning(settings: Settings) -> Settings:
    return learning_settings(settings)


OLD = [about("fire", "zorblat"), about("law", "quendle"), about("sea", "hoxley wump", 6)]
NEW = about("bees", "mirthog", 8)


def rescore(database: Database, settings: Settings) -> None:
    submit_rescore(database, settings)
    run_job(database, settings)


def numbered(database: Database) -> dict[str, int]:
    return {
        str(text): int(str(i))
        for i, text in rows(database, "SELECT document_id, content FROM document_texts")
    }


def replacement(settings: Settings, content: str) -> DocumentDraft:
    """Return a draft like those of `learning_parts.drafts`."""
    return make_draft(title=content[:12], content=content, format="plaintext", settings=settings)


@pytest.mark.parametrize("observations", ["keep", "prune"])
def test_replacement_removes_old_words_and_learns_new_ones(
    database: Database, learning: Settings, tmp_path: Path, observations: str, migrated_file: Path
) -> None:
    learning = learning_settings(learning, observations=observations)
    ingest(database, learning, OLD)
    assert "zorblat" in learned(database)
    submit_replacement(database, learning, numbered(database)[OLD[0]], replacement(learning, NEW))
    run_job(database, learning)
    assert "mirthog" in learned(database)
    rescore(database, learning)
    if observations == "keep":
        assert_settled(database)
    assert "zorblat" not in learned(database)

    fresh_settings = learning_settings(learning, database_url=f"sqlite:///{tmp_path / 'fresh.db'}")
    (tmp_path / "fresh.db").write_bytes(migrated_file.read_bytes())
    fresh = open_database(fresh_settings.database_url)
    with contextlib.closing(fresh):
        ingest(fresh, fresh_settings, [*OLD[1:], NEW])
        rescore(fresh, fresh_settings)
        assert canonical(database) == canonical(fresh)


def test_text_whose_observations_were_removed_is_discovered_again(
    database: Database, learning: Settings
) -> None:
    ingest(database, learning, OLD)
    document_id = numbered(database)[OLD[0]]
    submit_replacement(database, learning, document_id, replacement(learning, NEW))
    using = handlers(database, learning)
    withdrawn = """UPDATE observed_documents SET state = 'withdrawn'
                   WHERE content_hash = (SELECT content_hash FROM job_items WHERE status = 'scoring')"""
    while batch := claim(database, claims.new_owner(), learning):
        if batch.stage is Stage.score:
            with database.write() as transaction:
                assert transaction.execute(withdrawn) == 1
        process(batch, database, using, learning)
    noted = """SELECT COUNT(*) FROM observed_documents o JOIN documents d ON d.content_hash = o.content_hash
               WHERE d.id = :id AND o.state IN ('pending', 'learned') AND o.stored = 1"""
    assert value(database, noted, id=document_id) == 1
    ingest(database, learning, [about("sea", "brinlow", 8)])
    assert_settled(database)


def test_replacement_survives_death_at_every_statement(database: Database, learning: Settings) -> None:
    ingest(database, learning, OLD)
    document_id = numbered(database)[OLD[0]]
    texts = itertools.cycle([NEW, OLD[0]])
    using = handlers(database, learning)
    died_once = True
    at = 0
    with Crew(database, learning).simulate_deaths() as crew:
        while died_once:
            before, after = contents(database), next(texts)
            submit_replacement(database, learning, document_id, replacement(learning, after))
            died_once = False
            while batch := claim(database, claims.new_owner(), learning):
                is_score = batch.stage is Stage.score
                if is_score and not died_once:
                    with contextlib.suppress(KilledError), killed_at(database, at) as died:
                        process(batch, database, using, learning)
                    died_once = died()
                    if died_once:
                        # Index and database agree, whether it died storing or indexing.
                        assert contents(database) in (before, {**before, document_id: after})
                        assert_indexed(database)
                        crew.report_death(batch.owner)
                else:
                    process(batch, database, using, learning)
            assert contents(database) == {**before, document_id: after}
            assert_consistent(database)
            at += 3
    assert at > 30
    rescore(database, learning)
    assert_settled(database)


def test_rescore_skips_a_document_replaced_concurrently(
    database: Database, learning: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "\n\n".join(about(topic, "zorblat", 6) for topic in ("fire", "sea", "law", "bees"))
    # Each of these words occurs once, so none is learned.
    nonsense = map("".join, itertools.product("bdfg", "xqzv", "wkrt", "jmnp"))
    odd = "".join(f"The {a}x and the {b}q saw a {c}z.\n" for a, b, c in zip(*[nonsense] * 3, strict=False))
    ingest(database, learning, [long])
    ingest(database, learning, [about("fire", "zorblat", 8)])
    document_id = numbered(database)[long]
    submit_rescore(database, learning)
    with Engine(settings=learning, scorer=scorer()) as engine:
        before = engine.documents.get(document_id)
        replaced: list[Any] = []
        prepare = rescore_stage.Rescoring.prepare

        def prepare_and_be_late(self: Any, item: Any) -> Any:
            prepared = prepare(self, item)
            if item.document_id == document_id and not replaced:
                assert prepared is not None
                engine.documents.replace(document_id, content=odd)
                replaced.append(engine.documents.get(document_id))
            return prepared

        monkeypatch.setattr(rescore_stage.Rescoring, "prepare", prepare_and_be_late)
        run_job(database, learning)
        (detail,) = replaced
        assert engine.documents.content(document_id) == odd
        assert detail.document.coverage < 0.6 < before.document.coverage
        assert engine.documents.get(document_id).document.coverage == detail.document.coverage
        assert engine.documents.get(document_id).report == detail.report
        assert_indexed(engine.database)
    monkeypatch.undo()
    rescore(database, learning)
    assert_settled(database)
