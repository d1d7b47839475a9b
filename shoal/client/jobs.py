"""Operations on jobs."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx

from shoal.client.errors import JobFailedError, JobTimeoutError
from shoal.client.flows import Batch, Flow, Pause, Stream, listing, operation
from shoal.client.requests import Requester, job_id_of, parse
from shoal.declared.operations.documents import JobOperations
from shoal.declared.operations.documents import OtherJobOperations as Jobs
from shoal.declared.operations.operation import IDEMPOTENCY_KEY
from shoal.models.jobs import Item, ItemStatus
from shoal.models.responses import Job

LONG_POLL_SECONDS = 10.0
"""How long the server may hold a request for the state of a job until it changes."""
MIN_POLL_SECONDS = 0.1
"""Shortest time between two requests for a job that keeps changing; enough for a smooth progress bar."""
SHOWN_FAILURES = 5
"""Failed items that the message of an error names."""

Seen = Callable[[Job], None]


class Following(Requester):
    """Operations that follow jobs, and start them."""

    @operation
    def job(self, job_id: int) -> Flow[Job]:
        """The current state of a job. Raises NotFoundError."""
        return (yield from self._operate(Jobs.job, {"job_id": job_id}))

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
    def rescore(self, *, idempotency_key: str | None = None) -> Flow[Job]:
        """Start a job that learns all words again and updates every chunk."""
        given = {"kind": "rescore", IDEMPOTENCY_KEY: idempotency_key}
        return (yield from self._operate(Jobs.add_job, given))

    @operation
    def embed(self) -> Flow[Job]:
        """Let the workers make the vectors of all chunks that lack one; an open job is continued."""
        return (yield from self._operate(Jobs.add_job, {"kind": "embed", IDEMPOTENCY_KEY: None}))

    def _poll(self, job_id: int, etag: str, wait: float) -> Flow[tuple[Job | None, str]]:
        """A job and its ETag; None instead of the job if it is unchanged since `etag` after `wait` seconds.

        The first request, without an ETag, does not wait.
        """
        unchanged = httpx.codes.NOT_MODIFIED
        response = yield from self._request(
            Jobs.job,
            {"job_id": job_id},
            query={"wait": wait} if etag else {},
            headers={"If-None-Match": etag} if etag else {},
            slow=wait,
            repeats_silence=True,
            passed=frozenset({int(unchanged)}),
        )
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
            given = {"job": job.id, "status": ItemStatus.failed, "limit": SHOWN_FAILURES}
            items = (yield from self._operate(JobOperations.items, given)).items
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
