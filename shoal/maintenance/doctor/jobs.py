"""Accepted work: every open item must be where a worker will find it, and the counts must be those of the items."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal.jobs import embedded
from shoal.jobs.queue import lease, statements
from shoal.jobs.queue.recovery import reclaim_expired_leases
from shoal.jobs.queue.states import (
    DISCOVER_STAGES,
    RUNNING,
    WAVE_DONE,
    Stage,
    plan_for,
    plan_from_json,
    plan_to_json,
    ready_status,
    stage_after,
)
from shoal.jobs.queue.submission import remove_dropped
from shoal.jobs.queue.transitions import close_if_done
from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, examples
from shoal.models import ItemStatus, JobKind
from shoal.settings import Settings
from shoal.support.clock import timestamp

_OPEN = "('enqueued', 'discovering', 'discovered', 'scoring')"
_RUNNING = "('discovering', 'scoring')"
_SHOWN = "j.status NOT IN ('receiving', 'dropped')"

NO_TEXT = "its text was lost in the database; send the document again"

# Items whose job is gone.
WITHOUT_JOB = (
    "SELECT DISTINCT job_id FROM job_items WHERE job_id NOT IN (SELECT id FROM jobs) ORDER BY job_id"
)
INSERT_JOB = sa.text("""
    INSERT INTO jobs (id, kind, status, plan, created_at, updated_at, received_at)
    VALUES (:job_id, :kind, 'processing', :plan, :now, :now, :moment)
""")
# Open items that are to be stored, and have no text.
WITHOUT_TEXT = f"""
    SELECT i.id, i.job_id, i.wave FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE i.status IN {_OPEN} AND j.kind = 'ingest' AND {_SHOWN}
      AND NOT EXISTS (SELECT 1 FROM job_item_contents c WHERE c.item_id = i.id)
"""
# Texts that nobody will read again.
USELESS_TEXTS = """
    SELECT c.item_id FROM job_item_contents c JOIN job_items i ON i.id = c.item_id
    WHERE i.status IN ('succeeded', 'duplicate', 'canceled')
"""
DELETE_USELESS_TEXTS = sa.text(f"DELETE FROM job_item_contents WHERE item_id IN ({USELESS_TEXTS})")
# Items that are claimed and not worked on, or the other way round: nobody takes them.
HALF_CLAIMED = f"""
    SELECT i.id, i.job_id, i.wave, i.status, w.stage, j.plan
    FROM job_items i JOIN jobs j ON j.id = i.job_id LEFT JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    WHERE (i.lease_owner IS NOT NULL) <> (i.status IN {_RUNNING})
"""
# Items that wait for a first look that their wave has behind it.
LEFT_BEHIND = """
    SELECT i.id, i.job_id, i.wave, i.status, w.stage, j.plan
    FROM job_items i JOIN jobs j ON j.id = i.job_id JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    WHERE i.status IN ('enqueued', 'discovering') AND w.stage IN ('learn', 'relearn', 'score', 'rescore')
      AND (j.plan LIKE '%discover%' OR j.plan LIKE '%rediscover%')
"""
RELEASE = sa.text("""
    UPDATE job_items SET status = :status, lease_owner = NULL, lease_expires_at = NULL, updated_at = :now
    WHERE id = :item_id
""")
# Waves with the number of items that have not ended their stage, by what is noted and by what the items say.
PENDING = f"""
    SELECT w.job_id, w.n, w.stage, w.pending, COUNT(i.id) AS counted
    FROM waves w JOIN jobs j ON j.id = w.job_id
    LEFT JOIN job_items i ON i.job_id = w.job_id AND i.wave = w.n AND i.status IN {_OPEN}
        AND (w.stage NOT IN ('discover', 'rediscover') OR i.status <> 'discovered')
    WHERE {_SHOWN}
    GROUP BY w.job_id, w.n
    HAVING w.pending <> COUNT(i.id) OR (w.pending = 0 AND w.stage NOT IN ('done', 'learn', 'relearn'))
"""
# Open items whose wave is not there.
WITHOUT_WAVE = f"""
    SELECT DISTINCT i.job_id, i.wave AS n FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE i.status IN {_OPEN} AND {_SHOWN}
      AND NOT EXISTS (SELECT 1 FROM waves w WHERE w.job_id = i.job_id AND w.n = i.wave)
"""
INSERT_WAVE = sa.text("""
    INSERT INTO waves (job_id, n, stage, total, pending, bytes)
    SELECT job_id, wave, :stage, COUNT(*), 0, SUM(n_bytes) FROM job_items
    WHERE job_id = :job_id AND wave = :wave GROUP BY job_id, wave
    ON CONFLICT DO NOTHING
""")
SET_WAVE = sa.text("""
    UPDATE waves SET stage = :stage, pending = :pending, notified_at = 0, attempts = 0, lease_owner = NULL,
        lease_expires_at = NULL
    WHERE job_id = :job_id AND n = :wave
""")
WAVE = sa.text(
    "SELECT w.stage, j.plan FROM waves w JOIN jobs j ON j.id = w.job_id WHERE job_id = :job_id AND n = :wave"
)
OPEN_OF_WAVE = sa.text(f"""
    SELECT id, status FROM job_items WHERE job_id = :job_id AND wave = :wave AND status IN {_OPEN}
""")
# Jobs whose counts, or whose end, are not those of their items.
_COUNTS = {
    "total": "COUNT(i.id)",
    "n_succeeded": "COALESCE(SUM(i.status = 'succeeded'), 0)",
    "n_failed": "COALESCE(SUM(i.status = 'failed'), 0)",
    "n_duplicate": "COALESCE(SUM(i.status = 'duplicate'), 0)",
    "n_canceled": "COALESCE(SUM(i.status = 'canceled'), 0)",
    "bytes_total": "COALESCE(SUM(i.n_bytes), 0)",
    "bytes_done": f"COALESCE(SUM(i.n_bytes * (i.status NOT IN {_OPEN})), 0)",
}
WRONG_COUNTS = f"""
    SELECT j.id FROM jobs j LEFT JOIN job_items i ON i.job_id = j.id
    WHERE {_SHOWN} GROUP BY j.id
    HAVING {" OR ".join(f"j.{name} <> {count}" for name, count in _COUNTS.items())}
"""
RECOUNT = sa.text(f"""
    UPDATE jobs SET revision = revision + 1, updated_at = :now,
        {", ".join(f"{name} = (SELECT {count} FROM job_items i WHERE i.job_id = :job_id)" for name, count in _COUNTS.items())}
    WHERE id = :job_id
""")
# Jobs that have ended with open waves, and jobs that go on without any.
WRONG_ENDS = f"""
    SELECT j.id, j.status IN ('enqueued', 'processing') AS goes_on
    FROM jobs j LEFT JOIN waves w ON w.job_id = j.id AND w.stage <> 'done'
    WHERE {_SHOWN} GROUP BY j.id
    HAVING (j.status IN ('enqueued', 'processing')) <> (COUNT(w.n) > 0)
"""
REOPEN = sa.text("""
    UPDATE jobs SET status = 'processing', finished_at = NULL, error = NULL, updated_at = :now,
        revision = revision + 1
    WHERE id = :job_id
""")


def _leases(context: CheckContext) -> Sequence[Finding]:
    now = time.time()
    with context.database.snapshot() as snapshot:
        held = [
            *snapshot.rows(statements.LEASED_ITEMS.text),
            *snapshot.rows(statements.LEASED_WAVES.text),
        ]
    stale = [row for row in held if row["lease_expires_at"] <= now or lease.is_dead(row["lease_owner"])]
    if not stale:
        return []
    return [
        Finding(
            "leases",
            f"work is held by workers that are gone or silent: {len(stale):,} claims",
            "they were killed, or their machine sleeps; nothing is lost",
            "a running worker takes the work back within seconds: start one (`shoal worker`, `shoal up`); --repair "
            "takes it back now",
            n=len(stale),
            examples=examples(f"job {row['job_id']}" for row in stale),
            can_repair=True,
        )
    ]


def _take_back(context: CheckContext) -> None:
    reclaim_expired_leases(context.database, context.settings, time.time())


def _items(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        no_job = [row[0] for row in snapshot.tuples(WITHOUT_JOB)]
        no_text = snapshot.rows(WITHOUT_TEXT)
        half = [*snapshot.rows(HALF_CLAIMED), *snapshot.rows(LEFT_BEHIND)]
        no_wave = snapshot.rows(WITHOUT_WAVE)
        useless = sum(1 for _ in snapshot.tuples(USELESS_TEXTS))
    found = []
    if no_job:
        found.append(
            _stuck(
                f"items belong to jobs that are not there: {_jobs(no_job)}",
                "--repair makes the jobs again",
                no_job,
            )
        )
    if no_wave:
        jobs = [row["job_id"] for row in no_wave]
        found.append(
            _stuck(f"items belong to no wave: {_jobs(jobs)}", "--repair makes the waves again", jobs)
        )
    if half:
        jobs = [row["job_id"] for row in half]
        found.append(
            _stuck(
                f"items are neither waiting nor being worked on: {_jobs(jobs)}",
                "--repair gives them back",
                jobs,
            )
        )
    if no_text:
        jobs = [row["job_id"] for row in no_text]
        advice = "--repair ends them as failed, so that their jobs can end; send these documents again"
        found.append(_stuck(f"the text of items is not there: {_jobs(jobs)}", advice, jobs))
    if useless:
        found.append(
            Finding(
                "items",
                f"{useless:,} texts of items that have ended take up space",
                "they are stored as documents, or were not wanted",
                "--repair removes them",
                n=useless,
                is_harm=False,
                can_repair=True,
            )
        )
    return found


def _stuck(problem: str, advice: str, jobs: Sequence[int]) -> Finding:
    meaning = "no worker finds them, and their jobs never end"
    return Finding("items", problem, meaning, advice, n=len(jobs), can_repair=True)


def _repair_items(context: CheckContext) -> None:
    with context.database.write() as connection:
        now = timestamp()
        for (job_id,) in connection.execute(sa.text(WITHOUT_JOB)).all():
            connection.execute(INSERT_JOB, _job_row(job_id, context.settings, now))
            connection.execute(RECOUNT, {"job_id": job_id, "now": now})
        for row in connection.execute(sa.text(WITHOUT_WAVE)).mappings().all():
            _begin_wave(connection, row["job_id"], row["n"])
        for row in connection.execute(sa.text(HALF_CLAIMED)).mappings().all():
            released = {"item_id": row["id"], "status": _unclaimed(row), "now": now}
            connection.execute(RELEASE, released)
        for row in connection.execute(sa.text(LEFT_BEHIND)).mappings().all():
            ready = ready_status(Stage(row["stage"]), plan_from_json(row["plan"])).value
            connection.execute(RELEASE, {"item_id": row["id"], "status": ready, "now": now})
        failed = connection.execute(sa.text(WITHOUT_TEXT)).mappings().all()
        for row in failed:
            ended = {"item_id": row["id"], "status": ItemStatus.failed.value, "error": NO_TEXT, "now": now}
            connection.execute(statements.END_OPEN_ITEM, ended)
        for job_id, wave in {(row["job_id"], row["wave"]) for row in failed}:
            _settle_wave(connection, job_id, wave)
        for job_id in {row["job_id"] for row in failed}:
            _settle_job(connection, job_id, now)
        connection.execute(DELETE_USELESS_TEXTS)


def _job_row(job_id: int, settings: Settings, now: str) -> dict[str, Any]:
    plan = plan_to_json(plan_for(JobKind.ingest, settings))
    return {"job_id": job_id, "kind": JobKind.ingest.value, "plan": plan, "now": now, "moment": time.time()}


def _begin_wave(connection: sa.Connection, job_id: int, wave: int) -> None:
    """Let the open items of a wave begin anew: to look at a text twice changes nothing."""
    one, now = {"job_id": job_id, "wave": wave}, timestamp()
    plan = plan_from_json(connection.execute(statements.PLAN, one).scalar_one())
    items = connection.execute(OPEN_OF_WAVE, one).all()
    for item in items:
        connection.execute(RELEASE, {"item_id": item.id, "status": ItemStatus.enqueued.value, "now": now})
        connection.execute(statements.DELETE_CUTS, {"item_id": item.id})
    connection.execute(INSERT_WAVE, {**one, "stage": plan[0].value})
    connection.execute(SET_WAVE, {**one, "stage": plan[0].value, "pending": len(items)})


def _unclaimed(row: sa.RowMapping) -> str:
    """What an item is before anyone claims it; one that is not being worked on stays what it is."""
    status: str = row["status"]
    if status not in {running.value for running in RUNNING.values()}:
        return status
    plan = plan_from_json(row["plan"])
    # Without a wave, or after it has ended, the last stage is still to be done.
    stage = plan[-1] if row["stage"] in (None, WAVE_DONE) else Stage(row["stage"])
    return ready_status(stage, plan).value


def _waves(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        wrong = snapshot.rows(PENDING)
    if not wrong:
        return []
    return [
        Finding(
            "waves",
            f"waves wait for another number of items than they have: {_jobs([row['job_id'] for row in wrong])}",
            "their jobs stand still, or go on before all items are through",
            "--repair counts the items again and opens the next stage where all are through",
            n=len(wrong),
            examples=examples(
                f"job {row['job_id']}, wave {row['n']}: {row['pending']} are noted, {row['counted']} are open"
                for row in wrong
            ),
            can_repair=True,
        )
    ]


def _repair_waves(context: CheckContext) -> None:
    with context.database.write() as connection:
        now = timestamp()
        wrong = connection.execute(sa.text(PENDING)).mappings().all()
        for row in wrong:
            _settle_wave(connection, row["job_id"], row["n"])
        for job_id in {row["job_id"] for row in wrong}:
            _settle_job(connection, job_id, now)


def _settle_wave(connection: sa.Connection, job_id: int, wave: int) -> None:
    """Count a wave's items again; where all are through, open the stage that follows."""
    one = {"job_id": job_id, "wave": wave}
    row = connection.execute(WAVE, one).one()
    plan = plan_from_json(row.plan)
    states = [item.status for item in connection.execute(OPEN_OF_WAVE, one).all()]
    if not states:
        connection.execute(SET_WAVE, {**one, "stage": WAVE_DONE, "pending": 0})
        return
    if row.stage == WAVE_DONE:
        _begin_wave(connection, job_id, wave)
        return
    stage = Stage(row.stage)
    if stage in DISCOVER_STAGES:
        pending = sum(state != ItemStatus.discovered for state in states)
        following = stage_after(stage, plan)
        if not pending and following is not None:
            stage, pending = following, len(states)
    else:
        pending = len(states)
    connection.execute(SET_WAVE, {**one, "stage": stage.value, "pending": pending})


def _job_counts(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        wrong = {row[0] for row in snapshot.tuples(WRONG_COUNTS)} | {
            row[0] for row in snapshot.tuples(WRONG_ENDS)
        }
    if not wrong:
        return []
    return [
        Finding(
            "jobs",
            f"jobs tell other numbers than their items: {_jobs(sorted(wrong))}",
            "their progress is wrong, or they never end, or ended before their work was done",
            "--repair counts their items again; a job with open items goes on",
            n=len(wrong),
            can_repair=True,
        )
    ]


def _repair_jobs(context: CheckContext) -> None:
    with context.database.write() as connection:
        now = timestamp()
        wrong = {
            row[0]
            for statement in (WRONG_COUNTS, WRONG_ENDS)
            for row in connection.execute(sa.text(statement))
        }
        for job_id in wrong:
            _settle_job(connection, job_id, now)


def _settle_job(connection: sa.Connection, job_id: int, now: str) -> None:
    """Count a job's items again, and end or reopen it as its waves say."""
    one = {"job_id": job_id, "now": now}
    connection.execute(RECOUNT, one)
    if (
        not close_if_done(connection, job_id, now)
        and connection.execute(statements.OPEN_WAVES_OF_JOB, one).scalar_one()
    ):
        connection.execute(REOPEN, one)


def _leftovers(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        moment = time.time() - context.settings.upload_timeout
        silent = snapshot.value(statements.SILENT_UPLOADS.text, {"moment": moment})
        held = snapshot.rows(statements.LOCAL_JOBS.text)
    n = silent + sum(lease.is_dead(row["local_owner"]) for row in held)
    spooled = _old_spool_files(context.settings)
    found = []
    if n:
        found.append(
            Finding(
                "leftovers",
                f"{n:,} uploads or commands that were broken off take up space",
                "nothing of them was promised to anyone",
                "the next command or worker removes them; --repair does it now",
                n=n,
                is_harm=False,
                can_repair=True,
            )
        )
    if spooled:
        found.append(
            Finding(
                "leftovers",
                f"{len(spooled):,} files of old uploads are in the spool",
                "a service that was killed has left them; nothing of them was promised to anyone",
                "--repair removes them",
                n=len(spooled),
                examples=examples(path.name for path in spooled),
                is_harm=False,
                can_repair=True,
            )
        )
    return found


def _old_spool_files(settings: Settings) -> list[Path]:
    """Files in the spool that nobody has written to for as long as an upload may be silent."""
    folder = settings.data_path / "spool"
    if not folder.is_dir():
        return []
    before = time.time() - settings.upload_timeout
    return sorted(path for path in folder.iterdir() if path.is_file() and path.stat().st_mtime < before)


def _tidy(context: CheckContext) -> None:
    database, settings = context.database, context.settings
    embedded.drop_abandoned_jobs(database, settings)
    moment = time.time() - settings.upload_timeout
    with database.write() as connection:
        connection.execute(statements.DROP_SILENT_UPLOADS, {"moment": moment})
    remove_dropped(database, embedded.ALL_SLICES)
    for path in _old_spool_files(settings):
        path.unlink(missing_ok=True)


def _jobs(job_ids: Sequence[int]) -> str:
    distinct = sorted(set(job_ids))
    shown = ", ".join(str(job_id) for job_id in distinct[:10])
    more = f" and {len(distinct) - 10:,} more" if len(distinct) > 10 else ""
    return f"job {shown}{more}" if len(distinct) == 1 else f"jobs {shown}{more}"


CHECKS = (
    Check("items", "items that no worker would find", _items, _repair_items),
    Check("leases", "claims of workers that are gone", _leases, _take_back),
    Check("waves", "how many items waves wait for", _waves, _repair_waves),
    Check("jobs", "counts and ends of jobs", _job_counts, _repair_jobs),
    Check("leftovers", "what was broken off", _leftovers, _tidy),
)
