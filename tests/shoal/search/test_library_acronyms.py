"""The acronyms of a library: scans, decisions, and what exports carry."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.errors import NotFoundError, QueryError, SynonymConflictError
from shoal.library import acronyms as library_acronyms
from shoal.settings import Settings

WATER = "The World Health Organization (WHO) wrote about water. The Royal Society for Birds (RSB) did not."
BIRDS = "# Birds\n\nThe RSB (Royal Society for Birds) counts birds."


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        engine.ingest(content=WATER, title="Water")
        engine.ingest(content=BIRDS, title="Birds", format="markdown")
        yield engine


def test_a_scan_proposes_what_it_finds_and_where(engine: Engine) -> None:
    acronyms = engine.vocabulary.acronyms
    assert acronyms.list().n_unscanned == 2
    done = acronyms.scan()
    assert (done.scanned, done.new, done.n_unscanned) == (2, 2, 0)
    page = acronyms.list()
    assert [(each.acronym, each.expansion, each.n_documents) for each in page.acronyms] == [
        ("RSB", "Royal Society for Birds", 2),
        ("WHO", "World Health Organization", 1),
    ]
    first = page.acronyms[0]
    assert first.document_id is not None
    content = engine.documents.content(first.document_id)
    assert content[first.start_char : first.end_char] == "Royal Society for Birds (RSB)"
    assert acronyms.list(acronym="who").total == 1
    assert acronyms.get(first.id) == first


def test_a_scan_reads_only_what_changed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_acronyms, "BATCH", 1)
    acronyms = engine.vocabulary.acronyms
    assert acronyms.scan(max_seconds=0).n_unscanned == 1
    assert acronyms.scan().scanned == 1
    assert acronyms.scan().scanned == 0
    engine.documents.replace(1, content="The Royal Society for Birds (RSB) met.")
    assert acronyms.scan().scanned == 1
    assert {each.acronym: each.n_documents for each in acronyms.list().acronyms} == {"RSB": 2}
    engine.documents.delete(2)
    assert {each.acronym: each.n_documents for each in acronyms.list().acronyms} == {"RSB": 1}
    engine.documents.delete(1)
    assert acronyms.list().total == 0


def test_a_confirmed_acronym_is_a_synonym_until_it_is_rejected(engine: Engine) -> None:
    acronyms, synonyms = engine.vocabulary.acronyms, engine.vocabulary.synonyms
    acronyms.scan()
    who = acronyms.list(acronym="WHO").acronyms[0]
    confirmed = acronyms.confirm(who.id)
    assert confirmed.status == "confirmed"
    assert confirmed.synonym_id is not None
    assert synonyms.get(confirmed.synonym_id).synonyms == ("WHO", "World Health Organization")
    assert [r.document_title for r in engine.search("WHO advice", mode="lexical").results] == ["Water"]
    with pytest.raises(SynonymConflictError, match="confirmed already"):
        acronyms.confirm(who.id)
    assert acronyms.list(status="confirmed").acronyms == (confirmed,)
    rejected = acronyms.reject(who.id)
    assert (rejected.status, rejected.synonym_id) == ("rejected", None)
    assert synonyms.list().total == 0
    engine.ingest(content=f"{WATER} Again.", title="Again")
    assert acronyms.scan().new == 0
    assert {each.acronym for each in acronyms.list().acronyms} == {"RSB"}


def test_a_confirmation_that_contradicts_changes_nothing(engine: Engine) -> None:
    engine.vocabulary.synonyms.add(["Royal Society for Birds"], root="RSB")
    acronyms = engine.vocabulary.acronyms
    acronyms.scan()
    rsb = acronyms.list(acronym="RSB").acronyms[0]
    with pytest.raises(SynonymConflictError, match="entry 1"):
        acronyms.confirm(rsb.id)
    assert acronyms.get(rsb.id) == rsb


def test_unknown_acronyms_and_arguments_are_refused(engine: Engine) -> None:
    acronyms = engine.vocabulary.acronyms
    for call in (acronyms.get, acronyms.confirm, acronyms.reject):
        with pytest.raises(NotFoundError):
            call(9)
    with pytest.raises(QueryError, match="proposed, confirmed, rejected"):
        acronyms.list(status="open")


def test_an_export_carries_entries_and_decisions(engine: Engine, tmp_path: Path) -> None:
    acronyms, synonyms = engine.vocabulary.acronyms, engine.vocabulary.synonyms
    acronyms.scan()
    by_name = {each.acronym: each.id for each in acronyms.list().acronyms}
    acronyms.confirm(by_name["WHO"])
    acronyms.reject(by_name["RSB"])
    synonyms.add(["bird"], root="animal")
    lines = list(engine.maintenance.export(canonical=True))
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'other.db'}")
    with Engine(settings=settings, scorer=FakeScorer()) as other:
        for expected in (2, 0):
            imported = other.maintenance.import_export(io.BytesIO("\n".join(lines).encode()))
            assert (imported.synonyms, imported.n_bad) == (expected, 0)
        assert list(other.maintenance.export(canonical=True)) == lines
        (confirmed,) = other.vocabulary.acronyms.list(status="confirmed").acronyms
        assert confirmed.synonym_id is not None
        assert other.vocabulary.acronyms.scan().new == 0
        assert other.vocabulary.acronyms.list().total == 0
        bad = '{"type": "export", "format": 1}\n{"type": "synonym", "synonyms": ["x"]}\n'
        assert other.maintenance.import_export(io.BytesIO(bad.encode())).n_bad == 1
