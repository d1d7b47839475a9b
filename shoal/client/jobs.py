"""Operations on jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import httpx

from shoal.client.errors import JobFailedError, JobTimeoutError
from shoal.client.flows import Batch, Flow, Pause, Repeat, Request, Stream, listing, operation
from shoal.client.requests import Requester, accepted_job, comma_separated, job_id_of, new_key, pages, parse
from shoal.declared.operations.operation import API
from shoal.models.jobs import Item, ItemStatus
from shoal.models.responses import ItemPage, Job, JobPage

LONG_POLL_SECONDS = 10.0
"""How long the server may hold a request for the state of a job until it changes."""
MIN_POLL_SECONDS = 0.1
"""Shortest time between two requests for a job that keeps changing; enough for a smooth progress bar."""
SHOWN_FAILURES = 5
"""Failed items that the message of an error names."""

Seen = Callable[[Job], None]


class JobOperations(Requester):
    """Operations on accepted jobs."""

    @operation
    def job(self, job_id: int) -> Flow[Job]:
        """The current state of a job. Raises NotFoundError."""
        return (yield from self._get(Job, f"/jobs/{job_id_of(job_id)}"))

    @operation
    def jobs(
        self,
        *,
        status: str | Iterable[str] | None = None,
        kind: str | Iterable[str] | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> Flow[JobPage]:
        """A page of the jobs with any of the given states and kinds, newest first."""
        filters = {"status": comma_separated(status), "kind": comma_separated(kind)}
        return (yield from self._page(JobPage, "/jobs", limit, offset, **filters))

    @listing
    def each_job(
        self, *, status: str | Iterable[str] | None = None, kind: str | Iterable[str] | None = None
    ) -> Stream[Job]:
        """All jobs, newest first, read page by page."""
        filters = {"status": comma_separated(status), "kind": comma_separated(kind)}
        yield from pages(
            lambda limit, offset: self._page(JobPage, "/jobs", limit, offset, **filters),
            lambda page: page.jobs,
        )

    @operation
    def items(
        self, job: Job | int, *, status: str | None = None, limit: int = 100, offset: int = 0
    ) -> Flow[ItemPage]:
        """A page of a job's items, in the order of the upload. Raises NotFoundError."""
        return (
            yield from self._page(ItemPage, f"/jobs/{job_id_of(job)}/items", limit, offset, status=status)
        )

    @listing
    def each_item(self, job: Job | int, *, status: str | None = None) -> Stream[Item]:
        """All items of a job, read page by page; with `status="failed"` those that failed."""
        path = f"/jobs/{job_id_of(job)}/items"
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
        """Wait until a job ends, without limit or for `timeout` seconds, and return it.

        `seen` is called with every state, including the last. With `check`, a job that did not succeed raises
        JobFailedError. Requests are retried while the service restarts. Raises JobTimeoutError,
        NotFoundError.
        """
        ended = yield from self._follow(job_id_of(job), seen, timeout)
        if check and not ended.succeeded:
            raise (yield from self._job_failure(ended))
        return ended

    @listing
    def watch_job(self, job: Job | int) -> Stream[Job]:
        """Every state of a job as it changes; the last state has `ended`."""
        job_id, etag = job_id_of(job), ""
        while True:
            began = time.monotonic()
            state, etag = yield from self._poll(job_id, etag, LONG_POLL_SECONDS)
            if state is not None:
                yield Batch((state,))
                if state.ended:
                    return
            yield _pause_since(began)

    @operation
    def cancel_job(self, job: Job | int) -> Flow[Job]:
        """Cancel the open items of a job; stored documents stay.

        Raises ConflictError if the job has ended otherwise.
        """
        return accepted_job(
            (yield from self._send(Request("POST", f"{API}/jobs/{job_id_of(job)}/cancel", json={})))
        )

    @operation
    def retry_job(self, job: Job | int) -> Flow[Job]:
        """Retry the failed and canceled items of a job and return it.

        Raises ConflictError if no item can be retried.
        """
        # A second request would be refused although the first succeeded.
        request = Request("POST", f"{API}/jobs/{job_id_of(job)}/retry", json={}, repeat=Repeat.unsent)
        return accepted_job((yield from self._send(request)))

    @operation
    def rescore(self, *, idempotency_key: str | None = None) -> Flow[Job]:
        """Start a job that learns all words again and updates every chunk."""
        headers = {"Idempotency-Key": idempotency_key or new_key()}
        request = Request("POST", f"{API}/jobs", json={"kind": "rescore"}, headers=headers)
        return accepted_job((yield from self._send(request)))

    @operation
    def embed(self) -> Flow[Job]:
        """Let the workers make the vectors of all chunks that lack one; an open job is continued."""
        request = Request(
            "POST", f"{API}/jobs", json={"kind": "embed"}, headers={"Idempotency-Key": new_key()}
        )
        return accepted_job((yield from self._send(request)))

    def _poll(self, job_id: int, etag: str, wait: float) -> Flow[tuple[Job | None, str]]:
        """A job and its ETag; None instead of the job if it is unchanged since `etag` after `wait` seconds.

        The first request, without an ETag, does not wait.
        """
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
        response = yield from self._send(request)
        if response.status_code == unchanged:
            return None, etag
        return parse(Job, response), response.headers.get("ETag", "")

    def _follow(self, job_id: int, seen: Seen | None, timeout: float | None) -> Flow[Job]:
        deadline = None if timeout is None else time.monotonic() + timeout
        job, etag = None, ""
        while True:
            began = time.monotonic()
            remaining = LONG_POLL_SECONDS if deadline is None else max(0.0, deadline - began)
            state, etag = yield from self._poll(job_id, etag, round(min(LONG_POLL_SECONDS, remaining), 2))
            if state is not None:
                job = state
                if seen:
                    seen(job)
            assert job is not None
            if job.ended:
                return job
            if deadline is not None and time.monotonic() >= deadline:
                raise JobTimeoutError(f"job {job_id} has not ended within {timeout:g} seconds", job)
            yield _pause_since(began)

    def _job_failure(self, job: Job) -> Flow[JobFailedError]:
        items: tuple[Item, ...] = ()
        if job.progress.failed:
            path = f"/jobs/{job.id}/items"
            items = (yield from self._page(ItemPage, path, SHOWN_FAILURES, 0, status=ItemStatus.failed)).items
        reasons = [f"{item.source_path or item.title}: {item.error}" for item in items]
        if (more := job.progress.failed - len(items)) > 0:
            reasons.append(f"and {more:,} more")
        details = "; ".join([*([job.error] if job.error else []), *reasons])
        return JobFailedError(
            f"job {job.id} ended as {job.status}" + (f": {details}" if details else ""), job, items
        )


def _pause_since(began: float) -> Pause:
    """The rest of MIN_POLL_SECONDS: a service without a free thread answers a long poll at once."""
    return Pause(max(0.0, MIN_POLL_SECONDS - (time.monotonic() - began)))
