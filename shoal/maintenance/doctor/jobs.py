"""Checks of accepted jobs: workers must find every open item, and counts must match the items."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.errors import TEXT_LOST
from shoal.jobs import in_process
from shoal.jobs.queue import claims, statements
from shoal.jobs.queue.progress import wake_all
from shoal.jobs.queue.recovery import reclaim_expired_leases
from shoal.jobs.queue.states import (
    RUNNING,
    STATUS_AFTER,
    WAVE_DONE,
    plan_for,
    plan_from_json,
    plan_to_json,
    ready_status,
    sql_list,
    stage_after,
)
from shoal.jobs.queue.submission import remove_dropped
from shoal.jobs.queue.transitions import close_if_done
from shoal.maintenance.doctor.findings import Check, CheckContext, Finding, Severity, examples
from shoal.models.jobs import ItemStatus, JobKind, Stage
from shoal.settings import Settings
from shoal.storage.database import Row, Transaction
from shoal.support.clock import timestamp

_OPEN = statements.OPEN_ITEM
_RUNNING = sql_list(dict.fromkeys(RUNNING.values()))
_SHOWN = "j.status NOT IN ('receiving', 'dropped')"

NO_TEXT = "its text was lost in the database; send the document again"

# Ids of missing jobs that still have items.
WITHOUT_JOB = (
    "SELECT DISTINCT job_id FROM job_items WHERE job_id NOT IN (SELECT id FROM jobs) ORDER BY job_id"
)
INSERT_JOB = """
    INSERT INTO jobs (id, kind, status, plan, created_at, updated_at, received_at)
    VALUES (:job_id, :kind, 'processing', :plan, :now, :now, :moment)
"""
# Open items of ingest jobs without their text.
WITHOUT_TEXT = f"""
    SELECT i.id, i.job_id, i.wave FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE i.status IN {_OPEN} AND j.kind = 'ingest' AND {_SHOWN}
      AND NOT EXISTS (SELECT 1 FROM job_item_contents c WHERE c.item_id = i.id)
      AND NOT EXISTS (SELECT 1 FROM job_item_files f WHERE f.item_id = i.id)
"""
# Texts of items that have ended and cannot be retried.
OBSOLETE_TEXTS = """
    SELECT c.item_id FROM job_item_contents c JOIN job_items i ON i.id = c.item_id
    WHERE i.status IN ('succeeded', 'duplicate')
"""
DELETE_OBSOLETE_TEXTS = f"DELETE FROM job_item_contents WHERE item_id IN ({OBSOLETE_TEXTS})"
# Items whose lease contradicts their status: workers do not claim them.
INCONSISTENT_CLAIMS = f"""
    SELECT i.id, i.job_id, i.wave, i.status, w.stage, j.plan
    FROM job_items i JOIN jobs j ON j.id = i.job_id LEFT JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    WHERE (i.lease_owner IS NOT NULL) <> (i.status IN {_RUNNING})
"""
# Items that wait for a stage that their wave has left.
BEHIND_WAVE = """
    SELECT i.id, i.job_id, i.wave, i.status, w.stage, j.plan
    FROM job_items i JOIN jobs j ON j.id = i.job_id JOIN waves w ON w.job_id = i.job_id AND w.n = i.wave
    WHERE (i.status IN ('enqueued', 'converting', 'converted', 'discovering')
           AND w.stage IN ('learn', 'relearn', 'score', 'rescore') AND j.plan LIKE '%discover%')
       OR (i.status IN ('enqueued', 'converting') AND w.stage NOT IN ('convert', 'done')
           AND j.plan LIKE '%convert%')
"""
RELEASE = """
    UPDATE job_items SET status = :status, lease_owner = NULL, lease_expires_at = NULL, updated_at = :now
    WHERE id = :item_id
"""
# Waves whose recorded number of items in the current stage differs from the items, with both numbers.
PENDING = f"""
    SELECT w.job_id, w.n, w.stage, w.pending, COUNT(i.id) AS counted
    FROM waves w JOIN jobs j ON j.id = w.job_id
    LEFT JOIN job_items i ON i.job_id = w.job_id AND i.wave = w.n AND i.status IN {_OPEN}
        AND (w.stage NOT IN ('discover', 'rediscover') OR i.status <> 'discovered')
        AND (w.stage <> 'convert' OR i.status <> 'converted')
    WHERE {_SHOWN}
    GROUP BY w.job_id, w.n
    HAVING w.pending <> COUNT(i.id) OR (w.pending = 0 AND w.stage NOT IN ('done', 'learn', 'relearn'))
"""
# Missing waves that still have open items.
WITHOUT_WAVE = f"""
    SELECT DISTINCT i.job_id, i.wave AS n FROM job_items i JOIN jobs j ON j.id = i.job_id
    WHERE i.status IN {_OPEN} AND {_SHOWN}
      AND NOT EXISTS (SELECT 1 FROM waves w WHERE w.job_id = i.job_id AND w.n = i.wave)
"""
INSERT_WAVE = """
    INSERT INTO waves (job_id, n, stage, total, pending, bytes)
    SELECT job_id, wave, :stage, COUNT(*), 0, SUM(n_bytes) FROM job_items
    WHERE job_id = :job_id AND wave = :wave GROUP BY job_id, wave
    ON CONFLICT DO NOTHING
"""
SET_WAVE = """
    UPDATE waves SET stage = :stage, pending = :pending, notified_at = 0, attempts = 0, lease_owner = NULL,
        lease_expires_at = NULL
    WHERE job_id = :job_id AND n = :wave
"""
WAVE = (
    "SELECT w.stage, j.plan FROM waves w JOIN jobs j ON j.id = w.job_id WHERE job_id = :job_id AND n = :wave"
)
OPEN_OF_WAVE = f"""
    SELECT id, status FROM job_items WHERE job_id = :job_id AND wave = :wave AND status IN {_OPEN}
"""
# Jobs whose counts differ from those of their items.
_COUNTS = {
    "total": "COUNT(i.id)",
    "n_succeeded": "COUNT(*) FILTER (WHERE i.status = 'succeeded')",
    "n_failed": "COUNT(*) FILTER (WHERE i.status = 'failed')",
    "n_duplicate": "COUNT(*) FILTER (WHERE i.status = 'duplicate')",
    "n_canceled": "COUNT(*) FILTER (WHERE i.status = 'canceled')",
    "bytes_total": "COALESCE(SUM(i.n_bytes), 0)",
    "bytes_done": f"COALESCE(SUM(CASE WHEN i.status NOT IN {_OPEN} THEN i.n_bytes ELSE 0 END), 0)",
}
WRONG_COUNTS = f"""
    SELECT j.id FROM jobs j LEFT JOIN job_items i ON i.job_id = j.id
    WHERE {_SHOWN} GROUP BY j.id
    HAVING {" OR ".join(f"j.{name} <> {count}" for name, count in _COUNTS.items())}
"""
_SET_COUNTS = ", ".join(
    f"{name} = (SELECT {count} FROM job_items i WHERE i.job_id = :job_id)" for name, count in _COUNTS.items()
)
RECOUNT = f"""
    UPDATE jobs SET revision = revision + 1, updated_at = :now, {_SET_COUNTS}
    WHERE id = :job_id
"""
# Ended jobs with open waves, and open jobs without any.
WRONG_ENDS = f"""
    SELECT j.id, j.status IN ('enqueued', 'processing') AS is_open
    FROM jobs j LEFT JOIN waves w ON w.job_id = j.id AND w.stage <> 'done'
    WHERE {_SHOWN} GROUP BY j.id
    HAVING (j.status IN ('enqueued', 'processing')) <> (COUNT(w.n) > 0)
"""
REOPEN = """
    UPDATE jobs SET status = 'processing', finished_at = NULL, error = NULL, updated_at = :now,
        revision = revision + 1
    WHERE id = :job_id
"""


def _leases(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        now = snapshot.now()
        leased = [
            *snapshot.rows(statements.LEASED_ITEMS),
            *snapshot.rows(statements.LEASED_WAVES),
        ]
    stale = [row for row in leased if row["lease_expires_at"] <= now or claims.is_dead(row["lease_owner"])]
    if not stale:
        return []
    return [
        Finding(
            "leases",
            f"dead or silent workers hold {len(stale):,} claims",
            "the workers were killed, or their machine is suspended; nothing is lost",
            "a running worker reclaims the work within seconds: start one (`shoal worker`, `shoal up`); "
            "--repair reclaims it now",
            n=len(stale),
            examples=examples(f"job {row['job_id']}" for row in stale),
            can_repair=True,
        )
    ]


def _reclaim_leases(context: CheckContext) -> None:
    reclaim_expired_leases(context.database, context.settings, context.database.now())


def _items(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        no_job = [row[0] for row in snapshot.tuples(WITHOUT_JOB)]
        no_text = snapshot.rows(WITHOUT_TEXT)
        inconsistent = [*snapshot.rows(INCONSISTENT_CLAIMS), *snapshot.rows(BEHIND_WAVE)]
        no_wave = snapshot.rows(WITHOUT_WAVE)
        n_obsolete = sum(1 for _ in snapshot.tuples(OBSOLETE_TEXTS))
    findings = []
    if no_job:
        findings.append(
            _stuck(
                f"items refer to missing jobs: {_jobs(no_job)}",
                "--repair creates the jobs again",
                no_job,
            )
        )
    if no_wave:
        jobs = [row["job_id"] for row in no_wave]
        findings.append(
            _stuck(f"items refer to missing waves: {_jobs(jobs)}", "--repair creates the waves again", jobs)
        )
    if inconsistent:
        jobs = [row["job_id"] for row in inconsistent]
        findings.append(
            _stuck(
                f"items are neither waiting nor claimed: {_jobs(jobs)}",
                "--repair releases them",
                jobs,
            )
        )
    if no_text:
        jobs = [row["job_id"] for row in no_text]
        advice = "--repair marks them as failed, so that their jobs can end; send these documents again"
        findings.append(_stuck(f"texts of items are missing: {_jobs(jobs)}", advice, jobs))
    if n_obsolete:
        findings.append(
            Finding(
                "items",
                f"{n_obsolete:,} texts of ended items take up space",
                "they are stored as documents",
                "--repair removes them",
                n=n_obsolete,
                severity=Severity.note,
                can_repair=True,
            )
        )
    return findings


def _stuck(problem: str, advice: str, jobs: Sequence[int]) -> Finding:
    meaning = "workers do not find them, and their jobs never end"
    return Finding("items", problem, meaning, advice, n=len(jobs), can_repair=True)


def _repair_items(context: CheckContext) -> None:
    with context.database.write() as transaction:
        now = timestamp()
        for (job_id,) in transaction.rows(WITHOUT_JOB):
            transaction.execute(INSERT_JOB, _job_row(transaction, job_id, context.settings, now))
            transaction.execute(RECOUNT, {"job_id": job_id, "now": now})
        for row in transaction.rows(WITHOUT_WAVE):
            _restart_wave(transaction, row["job_id"], row["n"])
        for row in transaction.rows(INCONSISTENT_CLAIMS):
            released = {"item_id": row["id"], "status": _released_status(row), "now": now}
            transaction.execute(RELEASE, released)
        for row in transaction.rows(BEHIND_WAVE):
            ready = ready_status(Stage(row["stage"]), plan_from_json(row["plan"])).value
            transaction.execute(RELEASE, {"item_id": row["id"], "status": ready, "now": now})
        failed = transaction.rows(WITHOUT_TEXT)
        for row in failed:
            ended = {
                "item_id": row["id"],
                "status": ItemStatus.failed.value,
                "error": NO_TEXT,
                "error_code": TEXT_LOST,
                "now": now,
            }
            transaction.execute(statements.END_OPEN_ITEM, ended)
        for job_id, wave in {(row["job_id"], row["wave"]) for row in failed}:
            _update_wave(transaction, job_id, wave)
        for job_id in {row["job_id"] for row in failed}:
            _update_job(transaction, job_id, now)
        transaction.execute(DELETE_OBSOLETE_TEXTS)
        wake_all(transaction)


def _job_row(transaction: Transaction, job_id: int, settings: Settings, now: str) -> dict[str, Any]:
    plan = plan_to_json(plan_for(JobKind.ingest, settings))
    return {
        "job_id": job_id,
        "kind": JobKind.ingest.value,
        "plan": plan,
        "now": now,
        "moment": transaction.now(),
    }


def _restart_wave(transaction: Transaction, job_id: int, wave: int) -> None:
    """Restart the open items of a wave. Discovering a text twice changes nothing."""
    parameters, now = {"job_id": job_id, "wave": wave}, timestamp()
    plan = plan_from_json(transaction.value(statements.PLAN, parameters))
    items = transaction.rows(OPEN_OF_WAVE, parameters)
    for item in items:
        transaction.execute(RELEASE, {"item_id": item["id"], "status": ItemStatus.enqueued.value, "now": now})
        transaction.execute(statements.DELETE_CUTS, {"item_id": item["id"]})
    transaction.execute(INSERT_WAVE, {**parameters, "stage": plan[0].value})
    transaction.execute(SET_WAVE, {**parameters, "stage": plan[0].value, "pending": len(items)})


def _released_status(row: Row) -> str:
    """The status of an item after its release: the ready status of its stage if it was running, else
    unchanged."""
    status: str = row["status"]
    if status not in {running.value for running in RUNNING.values()}:
        return status
    plan = plan_from_json(row["plan"])
    # Without a wave, or after its end, the last stage is still due.
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
            f"waves wait for a wrong number of items: {_jobs([row['job_id'] for row in wrong])}",
            "their jobs make no progress, or continue before all items have completed the stage",
            "--repair counts the items again, and opens the next stage if all have completed this one",
            n=len(wrong),
            examples=examples(
                f"job {row['job_id']}, wave {row['n']}: {row['pending']} recorded, {row['counted']} open"
                for row in wrong
            ),
            can_repair=True,
        )
    ]


def _repair_waves(context: CheckContext) -> None:
    with context.database.write() as transaction:
        now = timestamp()
        wrong = transaction.rows(PENDING)
        for row in wrong:
            _update_wave(transaction, row["job_id"], row["n"])
        for job_id in {row["job_id"] for row in wrong}:
            _update_job(transaction, job_id, now)
        wake_all(transaction)


def _update_wave(transaction: Transaction, job_id: int, wave: int) -> None:
    """Count the items of a wave again. If all have completed the stage, open the next one."""
    parameters = {"job_id": job_id, "wave": wave}
    row = transaction.first(WAVE, parameters)
    plan = plan_from_json(row["plan"])
    states = [item["status"] for item in transaction.rows(OPEN_OF_WAVE, parameters)]
    if not states:
        transaction.execute(SET_WAVE, {**parameters, "stage": WAVE_DONE, "pending": 0})
        return
    if row["stage"] == WAVE_DONE:
        _restart_wave(transaction, job_id, wave)
        return
    stage = Stage(row["stage"])
    if stage in STATUS_AFTER:
        pending = sum(state != STATUS_AFTER[stage] for state in states)
        next_stage = stage_after(stage, plan)
        if not pending and next_stage is not None:
            stage, pending = next_stage, len(states)
    else:
        pending = len(states)
    transaction.execute(SET_WAVE, {**parameters, "stage": stage.value, "pending": pending})


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
            f"counts or states of jobs do not match their items: {_jobs(sorted(wrong))}",
            "their progress is wrong, they never end, or they ended too early",
            "--repair counts their items again; a job with open items continues",
            n=len(wrong),
            can_repair=True,
        )
    ]


def _repair_jobs(context: CheckContext) -> None:
    with context.database.write() as transaction:
        now = timestamp()
        wrong = {row[0] for statement in (WRONG_COUNTS, WRONG_ENDS) for row in transaction.tuples(statement)}
        for job_id in wrong:
            _update_job(transaction, job_id, now)
        wake_all(transaction)


def _update_job(transaction: Transaction, job_id: int, now: str) -> None:
    """Count the items of a job again, and end or reopen it according to its waves."""
    parameters = {"job_id": job_id, "now": now}
    transaction.execute(RECOUNT, parameters)
    if not close_if_done(transaction, job_id, now) and transaction.value(
        statements.OPEN_WAVES_OF_JOB, parameters
    ):
        transaction.execute(REOPEN, parameters)


def _leftovers(context: CheckContext) -> Sequence[Finding]:
    with context.database.snapshot() as snapshot:
        moment = snapshot.now() - context.settings.upload_timeout
        n_silent = snapshot.value(statements.COUNT_STALE_UPLOADS, {"moment": moment})
        local_jobs = snapshot.rows(statements.LOCAL_JOBS)
    n = n_silent + sum(claims.is_dead(row["local_owner"]) for row in local_jobs)
    spool_files = _old_spool_files(context.settings)
    findings = []
    if n:
        findings.append(
            Finding(
                "leftovers",
                f"{n:,} interrupted uploads or commands take up space",
                "they were not accepted, so nothing is lost",
                "the next command or worker removes them; --repair removes them now",
                n=n,
                severity=Severity.note,
                can_repair=True,
            )
        )
    if spool_files:
        findings.append(
            Finding(
                "leftovers",
                f"{len(spool_files):,} files of interrupted uploads are in the spool",
                "a killed service has left them; they were not accepted, so nothing is lost",
                "--repair removes them",
                n=len(spool_files),
                examples=examples(path.name for path in spool_files),
                severity=Severity.note,
                can_repair=True,
            )
        )
    return findings


def _old_spool_files(settings: Settings) -> list[Path]:
    """Files in the spool whose last write is longer ago than the upload timeout."""
    folder = settings.data_path / "spool"
    if not folder.is_dir():
        return []
    before = time.time() - settings.upload_timeout
    return sorted(path for path in folder.iterdir() if path.is_file() and path.stat().st_mtime < before)


def _remove_leftovers(context: CheckContext) -> None:
    database, settings = context.database, context.settings
    in_process.drop_abandoned_jobs(database, settings)
    with database.write() as transaction:
        moment = transaction.now() - settings.upload_timeout
        transaction.execute(statements.DROP_STALE_UPLOADS, {"moment": moment})
    remove_dropped(database, in_process.ALL_SLICES)
    for path in _old_spool_files(settings):
        path.unlink(missing_ok=True)


def _jobs(job_ids: Sequence[int]) -> str:
    distinct = sorted(set(job_ids))
    shown = ", ".join(str(job_id) for job_id in distinct[:10])
    more = f" and {len(distinct) - 10:,} more" if len(distinct) > 10 else ""
    return f"job {shown}{more}" if len(distinct) == 1 else f"jobs {shown}{more}"


CHECKS = (
    Check("items", "items that workers cannot claim", _items, _repair_items),
    Check("leases", "claims of dead workers", _leases, _reclaim_leases),
    Check("waves", "item counts of waves", _waves, _repair_waves),
    Check("jobs", "counts and states of jobs", _job_counts, _repair_jobs),
    Check("leftovers", "leftovers of interrupted uploads and commands", _leftovers, _remove_leftovers),
)
