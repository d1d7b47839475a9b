"""Claims and time of one upload of identical documents, and of as many uploads of one document.

    python -m benchmarks.identical_documents [--documents 50 200 400 1600] [--seconds 120] [--url URL]

One worker processes the jobs, in this process, as `shoal worker` does. `--url` of an empty PostgreSQL schema
replaces the SQLite file. A run ends after `--seconds`.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import lagoon
from shoal.formats.drafts import make_draft
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import claim, has_claimable_work
from shoal.jobs.queue.queries import get_job
from shoal.jobs.queue.submission import Upload, submit_document
from shoal.jobs.queue.transitions import cancel
from shoal.jobs.stages.contract import Handlers
from shoal.jobs.stages.runner import handlers_for, process
from shoal.settings import Settings
from shoal.storage import migrate
from shoal.storage.database import Database
from shoal.storage.opening import open_database

TEXT = "Bees carry pollen between the flowers of an orchard. Without them the trees bear little fruit. "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[50, 200, 400, 1600])
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--url")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=given.url or f"sqlite:///{folder}/shoal.db")
        database = open_database(settings.database_url)
        migrate.upgrade(database)
        handlers = handlers_for(database, lagoon.load(), settings)
        for title, is_one_upload in (("one upload", True), ("uploads of one document", False)):
            for n in given.documents:
                print(
                    f"{n:>6,} in {title}: {_measure(database, settings, handlers, n, is_one_upload, given)}"
                )
        database.close()


def _measure(
    database: Database,
    settings: Settings,
    handlers: Handlers,
    n: int,
    is_one_upload: bool,
    given: argparse.Namespace,
) -> str:
    # Each run has a text of its own.
    text = f"{TEXT * 2}There were {n} of them, {'all' if is_one_upload else 'one'} at once."
    drafts = [make_draft(settings=settings, title=f"Bees {i}", content=text) for i in range(n)]
    if is_one_upload:
        upload = Upload(database, settings).begin()
        for draft in drafts:
            upload.add(draft)
        jobs = [upload.finish()]
    else:
        jobs = [submit_document(database, settings, draft) for draft in drafts]
    n_claims, claiming, started = 0, 0.0, time.perf_counter()
    while time.perf_counter() - started < given.seconds:
        before = time.perf_counter()
        batch = claim(database, claims.new_owner(), settings)
        claiming += time.perf_counter() - before
        if batch is None:
            break
        n_claims += 1
        process(batch, database, handlers, settings)
        before = time.perf_counter()
        has_claimable_work(database)
        claiming += time.perf_counter() - before
    seconds = time.perf_counter() - started
    done = sum(get_job(database, job_id).progress.done for job_id in jobs)
    for job_id in jobs:
        cancel(database, job_id)
    return f"{done:,} done with {n_claims:,} claims in {seconds:.1f} s, {claiming:.1f} s of them claiming"


if __name__ == "__main__":
    main()
