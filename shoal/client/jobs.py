"""Operations on jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import httpx

from shoal.client.errors import JobFailedError, JobTimeoutError
from shoal.client.exchange import Flow, Found, Pause, Repeat, Request, Stream, listing, operation
from shoal.client.reading import API, Reading, id_of, job_of, listed, new_key, pages, read
from shoal.client.replies import Item, ItemPage, Job, JobPage

LONG_POLL_SECONDS = 10.0
"""How long a request for a job's state may wait at the server for a change."""
MIN_POLL_SECONDS = 0.1
"""Shortest time between two looks at a job that keeps changing; fast enough for a smooth progress bar."""
FAILED_TOLD = 5
"""Failed items that an error looks at."""

Seen = Callable[[Job], None]


class JobOperations(Reading):
    """What can be asked of accepted work, and done with it."""

    @operation
    def job(self, job_id: int) -> Flow[Job]:
        """Raises NotFoundError."""
        return (yield from self._get(Job, f"/jobs/{id_of(job_id)}"))

    @operation
    def jobs(
        self,
        *,
        status: str | Iterable[str] | None = None,
        kind: str | Iterable[str] | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> Flow[JobPage]:
        """A page of the jobs, the newest first: in any of these states, of any of these kinds."""
        chosen = {"status": listed(status), "kind": listed(kind)}
        return (yield from self._page(JobPage, "/jobs", limit, offset, **chosen))

    @listing
    def each_job(
        self, *, status: str | Iterable[str] | None = None, kind: str | Iterable[str] | None = None
    ) -> Stream[Job]:
        """All of them, the newest first, read page by page."""
        chosen = {"status": listed(status), "kind": listed(kind)}
        yield from pages(
            lambda limit, offset: self._page(JobPage, "/jobs", limit, offset, **chosen),
            lambda page: page.jobs,
        )

    @operation
    def items(
        self, job: Job | int, *, status: str | None = None, limit: int = 100, offset: int = 0
    ) -> Flow[ItemPage]:
        """A page of a job's items, in the order of the upload. Raises NotFoundError."""
        return (yield from self._page(ItemPage, f"/jobs/{id_of(job)}/items", limit, offset, status=status))

    @listing
    def each_item(self, job: Job | int, *, status: str | None = None) -> Stream[Item]:
        """All items of a job, read page by page; with `status="failed"` those that failed, each with its
        `error`."""
        path = f"/jobs/{id_of(job)}/items"
        yield from pages(
            lambda limit, offset: self._page(ItemPage, path, limit, offset, status=status),
            lambda page: page.items,
        )

    @operation
    def wait_for_job(
        self,
        job: Job | int,
        *,
        seen: Seen | None = None,
        timeout: float | None = None,
        check: bool = False,
    ) -> Flow[Job]:
        """Follow a job to its end, for ever or `timeout` seconds; the job then. `seen` is told every state on
        the way and the last one. With `check` a job that did not succeed raises JobFailedError.

        A service that is away (it restarts, say) is waited for. Raises JobTimeoutError, NotFoundError.
        """
        ended = yield from self._follow(id_of(job), seen, timeout)
        if check and not ended.succeeded:
            raise (yield from self._job_failure(ended))
        return ended

    @listing
    def watch_job(self, job: Job | int) -> Stream[Job]:
        """Every state of a job as it changes; the last one has `ended`."""
        job_id, etag = id_of(job), ""
        while True:
            began = time.monotonic()
            look, etag = yield from self._look(job_id, etag, LONG_POLL_SECONDS)
            if look is not None:
                yield Found((look,))
                if look.ended:
                    return
            yield _rest_of(began)

    @operation
    def cancel_job(self, job: Job | int) -> Flow[Job]:
        """End what has not ended of a job; what is stored stays. Raises ConflictError where it has ended
        otherwise."""
        return job_of((yield from self._ask(Request("POST", f"{API}/jobs/{id_of(job)}/cancel", json={}))))

    @operation
    def retry_job(self, job: Job | int) -> Flow[Job]:
        """Try the failed items of a job again; the job. Raises ConflictError where there is nothing to try
        again."""
        # Asked twice, it would be refused the second time, as if the first had not been done.
        request = Request("POST", f"{API}/jobs/{id_of(job)}/retry", json={}, repeat=Repeat.unsent)
        return job_of((yield from self._ask(request)))

    @operation
    def rescore(self, *, idempotency_key: str | None = None) -> Flow[Job]:
        """Have the service learn its words afresh and bring every chunk up to date; the job."""
        headers = {"Idempotency-Key": idempotency_key or new_key()}
        request = Request("POST", f"{API}/jobs", json={"kind": "rescore"}, headers=headers)
        return job_of((yield from self._ask(request)))

    def _look(self, job_id: int, etag: str, wait: float) -> Flow[tuple[Job | None, str]]:
        """A job and its ETag; None where it is as it was under `etag` after `wait` seconds. The first look,
        without an ETag, does not wait."""
        unchanged = httpx.codes.NOT_MODIFIED
        request = Request(
            "GET",
            f"{API}/jobs/{job_id}",
            query={"wait": wait} if etag else {},
            headers={"If-None-Match": etag} if etag else {},
            slow=wait,
            repeats_silence=True,
            passed=frozenset({int(unchanged)}),
        )
        answer = yield from self._ask(request)
        if answer.status_code == unchanged:
            return None, etag
        return read(Job, answer), answer.headers.get("ETag", "")

    def _follow(self, job_id: int, seen: Seen | None, timeout: float | None) -> Flow[Job]:
        deadline = None if timeout is None else time.monotonic() + timeout
        job, etag = None, ""
        while True:
            began = time.monotonic()
            left = LONG_POLL_SECONDS if deadline is None else max(0.0, deadline - began)
            look, etag = yield from self._look(job_id, etag, round(min(LONG_POLL_SECONDS, left), 2))
            if look is not None:
                job = look
                if seen:
                    seen(job)
            assert job is not None
            if job.ended:
                return job
            if deadline is not None and time.monotonic() >= deadline:
                raise JobTimeoutError(f"job {job_id} has not ended within {timeout:g} seconds", job)
            yield _rest_of(began)

    def _job_failure(self, job: Job) -> Flow[JobFailedError]:
        items: tuple[Item, ...] = ()
        if job.progress.failed:
            path = f"/jobs/{job.id}/items"
            items = (yield from self._page(ItemPage, path, FAILED_TOLD, 0, status="failed")).items
        reasons = [f"{item.source_path or item.title}: {item.error}" for item in items]
        if (more := job.progress.failed - len(items)) > 0:
            reasons.append(f"and {more:,} more")
        told = "; ".join([*([job.error] if job.error else []), *reasons])
        return JobFailedError(
            f"job {job.id} ended as {job.status}" + (f": {told}" if told else ""), job, items
        )


def _rest_of(began: float) -> Pause:
    """A service that has no thread to spare for waiting answers at once."""
    return Pause(max(0.0, MIN_POLL_SECONDS - (time.monotonic() - began)))
