"""Runs of sources: what is stored equals what the source has, whatever happens on the way."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from scripted_store import ScriptedStore, sources_of, stored

from shoal import Engine
from shoal.errors import InvalidFieldError, QueryError, SourceError
from shoal.models.sources import RunStatus
from shoal.sources import rows, run_steps
from shoal.sources.run_steps import Follower
from shoal.sources.sources import Sources

FIRST = {
    "a.txt": b"Lava rose in the volcano.",
    "b.txt": b"The whale swims in the sea.",
    "c/d.md": b"# Law\n\nThe judge read the law to the court.",
    "e.txt": b"The bee finds nectar in a flower.",
}


def path(name: str) -> str:
    return f"memory://trial/{name}"


def texts(objects: dict[str, bytes]) -> dict[str, str]:
    return {path(name): data.decode() for name, data in objects.items()}


def followed(engine: Engine, objects: dict[str, bytes], **options: Any) -> ScriptedStore:
    store = ScriptedStore(dict(objects))
    sources_of(engine, store).add("trial", "memory://trial", **options)
    return store


def test_a_second_run_reads_nothing(engine: Engine) -> None:
    store = followed(engine, FIRST)
    first = sources_of(engine, store).run("trial")
    assert (first.status, first.n_new, first.n_listed) == (RunStatus.succeeded, 4, 4)
    assert stored(engine) == texts(FIRST)
    store.reads.clear()
    again = sources_of(engine, store).run("trial")
    assert (again.n_new, again.n_changed, again.n_bytes, store.reads) == (0, 0, 0, [])


def test_changes_moves_and_removals_reach_the_documents(engine: Engine) -> None:
    store = followed(engine, FIRST)
    sources = sources_of(engine, store)
    sources.run("trial")
    ids = {each.source_path: each.id for each in engine.documents.list().documents}
    store.objects["moved/a.txt"] = store.objects.pop("a.txt")
    store.objects["b.txt"] = b"The whale sleeps in the sea."
    del store.objects["e.txt"]
    run = sources.run("trial")
    assert (run.n_moved, run.n_changed, run.n_removed, run.n_new) == (1, 1, 1, 0)
    assert stored(engine) == texts(store.objects)
    after = {each.source_path: each.id for each in engine.documents.list().documents}
    assert after[path("moved/a.txt")] == ids[path("a.txt")]
    assert after[path("b.txt")] == ids[path("b.txt")]


def test_a_version_that_lies_costs_a_read_and_no_work(engine: Engine) -> None:
    store = followed(engine, FIRST)
    sources = sources_of(engine, store)
    sources.run("trial")
    n_jobs = len(engine.jobs.list())
    store.versions = dict.fromkeys(FIRST, "another")
    run = sources.run("trial")
    assert (run.n_changed, len(store.reads)) == (0, 8)
    assert len(engine.jobs.list()) == n_jobs


def test_the_document_of_a_removed_copy_follows_the_other(engine: Engine) -> None:
    store = followed(engine, {"a.txt": FIRST["a.txt"], "copy.txt": FIRST["a.txt"]})
    sources = sources_of(engine, store)
    sources.run("trial")
    del store.objects["a.txt"]
    sources.run("trial")
    assert stored(engine) == {path("copy.txt"): FIRST["a.txt"].decode()}


@pytest.mark.parametrize(("when_gone", "tags"), [("keep", ()), ("mark", ("gone",))])
def test_documents_of_removed_objects_may_stay(engine: Engine, when_gone: str, tags: tuple[str, ...]) -> None:
    store = followed(engine, FIRST, when_gone=when_gone)
    sources = sources_of(engine, store)
    sources.run("trial")
    taken = store.objects.pop("a.txt")
    sources.run("trial")
    assert stored(engine) == texts(FIRST)
    (document,) = [each for each in engine.documents.list().documents if each.source_path == path("a.txt")]
    assert document.tags == tags
    store.objects["a.txt"] = taken
    sources.run("trial")
    assert engine.documents.get(document.id).document.tags == ()


def test_a_source_that_lists_nothing_is_not_emptied(engine: Engine) -> None:
    many = {f"{i}.txt": f"The tide of day {i}.".encode() for i in range(6)}
    store = followed(engine, many)
    sources = sources_of(engine, store)
    sources.run("trial")
    store.objects.clear()
    run = sources.run("trial")
    assert run.status is RunStatus.failed
    assert "is it mounted" in str(run.error)
    assert stored(engine) == texts(many)
    assert sources.run("trial", force=True).n_removed == 6
    assert stored(engine) == {}


def test_objects_that_cannot_be_stored_are_named(engine: Engine) -> None:
    store = followed(engine, {**FIRST, "broken.pdf": b"%PDF-1.7 nothing", "empty.txt": b" "})
    sources = sources_of(engine, store)
    store.errors["e.txt"] = SourceError("the connection broke")
    run = sources.run("trial")
    assert run.status is RunStatus.succeeded
    failed = {each.name: each.error for each in sources.objects("trial", only_errors=True).objects}
    assert failed.keys() == {"broken.pdf", "empty.txt", "e.txt"}
    assert (run.n_failed, sources.get("trial").n_errors) == (3, 3)
    store.errors.clear()
    store.reads.clear()
    sources.run("trial")
    assert store.reads == ["e.txt"], "only what may succeed is read again"
    assert stored(engine) == texts(FIRST)


def test_a_source_that_is_away_goes_on_where_it_was(engine: Engine) -> None:
    store = followed(engine, FIRST)
    sources = sources_of(engine, store)
    follower = Follower(engine.database, engine.settings, engine._library.run_job, store.open)
    started = sources.start("trial")
    assert follower.step()
    store.list_errors = [SourceError("no connection", retry_after=60.0)]
    assert follower.step()
    waiting = sources.get("trial").last_run
    assert waiting is not None
    assert (waiting.id, waiting.error, waiting.n_listed) == (started.id, "no connection", 2)
    assert waiting.next_try_at is not None
    assert not follower.step(), "it waits"
    run = sources.run("trial")
    assert (run.id, run.status, run.n_listed, run.error) == (started.id, RunStatus.succeeded, 4, None)


def test_a_run_fails_after_many_failures(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_steps, "FIRST_PAUSE_SECONDS", 0.0)
    store = followed(engine, FIRST)
    store.list_errors = [SourceError("no connection")] * run_steps.MAX_FAILURES
    sources = sources_of(engine, store)
    sources.start("trial")
    follower = Follower(engine.database, engine.settings, engine._library.run_job, store.open)
    for _ in range(run_steps.MAX_FAILURES):
        assert follower.step()
    assert not follower.step()
    last = sources.get("trial").last_run
    assert last is not None
    assert (last.status, last.error) == (RunStatus.failed, "no connection")


def test_wrong_secrets_end_a_run_at_once(engine: Engine) -> None:
    store = followed(engine, FIRST)
    store.list_errors = [SourceError("access was refused", is_temporary=False)]
    assert sources_of(engine, store).run("trial").status is RunStatus.failed


def test_limits_end_a_run(engine: Engine) -> None:
    store = followed(engine, FIRST, max_objects=3)
    sources = sources_of(engine, store)
    run = sources.run("trial")
    assert run.status is RunStatus.failed
    assert "max_objects" in str(run.error)
    assert stored(engine) == {}
    sources.change("trial", max_objects=10)
    assert sources.run("trial").n_new == 4


def test_a_limit_of_bytes_spreads_the_objects_over_runs(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_steps, "BATCH_OBJECTS", 1)
    store = followed(engine, FIRST, max_bytes=30)
    sources = sources_of(engine, store)
    runs = [sources.run("trial").status for _ in range(3)]
    assert runs == [RunStatus.failed, RunStatus.failed, RunStatus.succeeded]
    assert stored(engine) == texts(FIRST)


def test_schedules_begin_runs_and_pauses_hold_them(engine: Engine) -> None:
    store = followed(engine, FIRST, every="15 min")
    sources = sources_of(engine, store)
    follower = Follower(engine.database, engine.settings, engine._library.run_job, store.open)
    sources.change("trial", is_paused=True)
    assert not follower.step()
    sources.change("trial", is_paused=False)
    while follower.step():
        pass
    assert stored(engine) == texts(FIRST)
    assert sources.runs("trial").total == 1
    due = sources.get("trial").next_run_at
    last = sources.get("trial").last_run
    assert last is not None
    assert last.ended_at is not None
    assert due is not None
    assert due > last.ended_at


def test_a_source_has_one_run_at_a_time(engine: Engine) -> None:
    sources = sources_of(engine, followed(engine, FIRST))
    assert sources.start("trial").id == sources.start("trial").id
    assert sources.stop("trial")
    assert not sources.stop("trial")
    assert sources.start("trial").status is RunStatus.listing


class Killed(BaseException):
    """The process dies."""


def test_a_process_may_die_at_every_write(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are killed before they are saved, again and again, while the source changes between runs."""
    chance = random.Random(7)
    store = followed(engine, FIRST)
    sources = sources_of(engine, store)
    save = Follower._save

    def save_or_die(self: Follower, *args: Any, **options: Any) -> None:
        if chance.random() < 0.5:
            raise Killed
        save(self, *args, **options)

    monkeypatch.setattr(run_steps, "BATCH_OBJECTS", 2)
    for round_ in range(6):
        monkeypatch.setattr(Follower, "_save", save_or_die)
        while True:
            try:
                run = sources.run("trial")
            except Killed:
                with engine.database.write() as transaction:
                    transaction.execute("UPDATE source_runs SET lease_expires_at = 0")  # time passes
            else:
                break
        assert run.status is RunStatus.succeeded
        assert stored(engine) == texts(store.objects)
        assert engine.documents.list().total == len(store.objects)
        name = chance.choice(sorted(store.objects))
        store.objects[f"moved-{round_}.txt"] = store.objects.pop(name)
        store.objects[f"new-{round_}.txt"] = f"The tide of day {round_}.".encode()
        if len(store.objects) > 4:
            del store.objects[chance.choice(sorted(store.objects))]


def test_a_preview_stores_nothing(engine: Engine) -> None:
    store = followed(engine, {**FIRST, "broken.pdf": b"%PDF-1.7 nothing"})
    sources = sources_of(engine, store)
    preview = sources.preview("trial")
    assert (preview.n_listed, preview.n_new, preview.is_complete) == (5, 5, True)
    assert [(each.name, each.error is None) for each in preview.first] == [
        ("a.txt", True), ("b.txt", True), ("broken.pdf", False), ("c/d.md", True), ("e.txt", True)
    ]  # fmt: skip
    assert (preview.first[3].title, preview.first[3].text[:5]) == ("D", "# Law")
    assert stored(engine) == {}
    assert sources.get("trial").n_objects == 0


def test_a_removed_source_leaves_or_takes_its_documents(engine: Engine) -> None:
    sources = sources_of(engine, followed(engine, FIRST))
    sources.run("trial")
    assert sources.remove("trial") == 0
    assert stored(engine) == texts(FIRST)
    sources = sources_of(engine, followed(engine, FIRST))
    sources.run("trial")
    assert sources.remove("trial", with_documents=True) == 4


def test_two_sources_cannot_have_one_name(engine: Engine) -> None:
    followed(engine, FIRST)
    with pytest.raises(QueryError, match="another source has the name 'trial'"):
        followed(engine, FIRST)


def test_objects_are_read_at_the_rate_that_is_allowed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(run_steps.time, "sleep", pauses.append)
    monkeypatch.setattr(run_steps.time, "monotonic", lambda: 0.0)
    sources_of(engine, followed(engine, FIRST, max_rate=0.5)).run("trial")
    assert [pause for pause in sorted(pauses) if pause] == [2.0, 4.0, 6.0]


def test_a_long_run_ends_and_the_next_one_goes_on(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    store = followed(engine, FIRST, max_seconds=60)
    sources = sources_of(engine, store)
    sources.start("trial")
    with engine.database.write() as transaction:
        transaction.execute("UPDATE source_runs SET started_at = '2026-01-01T00:00:00.000Z'")
    run = sources.run("trial")
    assert (run.status, "max_seconds" in str(run.error)) == (RunStatus.failed, True)
    assert sources.run("trial").n_new == 4


def test_a_document_that_is_gone_is_stored_again(engine: Engine) -> None:
    store = followed(engine, {**FIRST, "copy.txt": FIRST["a.txt"]})
    sources = sources_of(engine, store)
    sources.run("trial")
    (document,) = [each for each in engine.documents.list().documents if each.source_path == path("b.txt")]
    engine.documents.delete(document.id)
    missing = {each.name: each.document_id for each in sources.objects("trial").objects}
    assert missing["b.txt"] is None
    assert missing["copy.txt"] == missing["a.txt"]
    assert sources.preview("trial").n_changed == 1
    store.reads.clear()
    assert (sources.run("trial").n_new, store.reads) == (1, ["b.txt"])
    assert stored(engine) == texts(FIRST)


def test_two_sources_of_one_place_keep_their_documents(engine: Engine) -> None:
    store = followed(engine, FIRST)
    sources = sources_of(engine, store)
    sources.add("other", "memory://trial")
    sources.run("trial")
    sources.run("other")
    assert sources.remove("other", with_documents=True) == 0
    assert stored(engine) == texts(FIRST)
    assert sources.remove("trial", with_documents=True) == 4


def follower_of(engine: Engine, store: ScriptedStore) -> Follower:
    """A follower that leaves jobs to workers."""
    return Follower(engine.database, engine.settings, None, store.open)


def test_what_a_canceled_job_did_not_store_is_stored_by_the_next_run(engine: Engine) -> None:
    store = followed(engine, FIRST)
    sources = sources_of(engine, store)
    sources.run("trial")
    store.objects["a.txt"] = b"Lava sank in the volcano."
    sources.start("trial")
    follower, started = follower_of(engine, store), len(engine.jobs.list())
    while len(engine.jobs.list()) == started:
        assert follower.step()
    engine.jobs.cancel(engine.jobs.list()[0].id)
    assert sources.run("trial").n_failed == 1
    assert sources.run("trial").n_new == 1
    assert stored(engine) == texts(store.objects)


def test_a_late_step_of_a_stopped_run_removes_nothing(engine: Engine) -> None:
    store = followed(engine, FIRST)
    sources = sources_of(engine, store)
    sources.run("trial")
    late = sources.start("trial")
    sources.stop("trial")
    sources.start("trial")
    follower = follower_of(engine, store)
    assert follower.step()
    with engine.database.write() as transaction:
        source_id = transaction.value("SELECT id FROM sources")
        rows.write_listed(transaction, source_id, late.id, store.list(None).objects)
    sources.run("trial")
    assert stored(engine) == texts(FIRST)
    assert sources.runs("trial").runs[0].n_removed == 0


def test_one_object_that_cannot_be_read_holds_up_nothing(engine: Engine) -> None:
    store = followed(engine, FIRST)
    sources = sources_of(engine, store)
    sources.run("trial")
    store.objects["bad.txt"] = b"The tide turns."
    store.errors["bad.txt"] = SourceError("status 500")
    del store.objects["e.txt"]
    run = sources.run("trial")
    assert (run.status, run.n_failed, run.n_removed) == (RunStatus.succeeded, 1, 1)


def test_a_stopped_schedule_goes_on_after_its_time(engine: Engine) -> None:
    store = followed(engine, FIRST, every="1 day")
    sources = sources_of(engine, store)
    sources.start("trial")
    assert sources.stop("trial")
    assert not follower_of(engine, store).step()


def test_places_with_the_same_paths_are_refused(engine: Engine) -> None:
    here = {"endpoint_url": "http://127.0.0.1:9000"}
    allowed = dataclasses.replace(engine.settings, sources="s3://reports http://127.0.0.1:9000")
    sources = Sources(engine.database, allowed, engine._library.run_job)
    sources.add("all", "s3://reports")
    sources.add("part", "s3://reports/2026")
    with pytest.raises(InvalidFieldError, match="with the paths of those of the source all"):
        sources.add("elsewhere", "s3://reports/2026/05", options=here)


def test_an_interrupted_run_goes_on_at_once(engine: Engine) -> None:
    store = followed(engine, FIRST)
    sources = sources_of(engine, store)

    store.errors["a.txt"] = KeyboardInterrupt()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        sources.run("trial")
    store.errors.clear()
    assert sources.run("trial").n_new == 4


def test_a_step_that_kills_its_process_is_not_taken_for_ever(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = followed(engine, FIRST)
    sources_of(engine, store).start("trial")
    follower = follower_of(engine, store)
    monkeypatch.setattr(Follower, "_take_step", lambda *_: (_ for _ in ()).throw(Killed()))
    for _ in range(run_steps.MAX_FAILURES):
        with pytest.raises(Killed):
            follower.step()
        with engine.database.write() as transaction:
            transaction.execute("UPDATE source_runs SET lease_expires_at = 0")
    assert follower.step()
    last = sources_of(engine, store).get("trial").last_run
    assert last is not None
    assert (last.status, "died again and again" in str(last.error)) == (RunStatus.failed, True)
