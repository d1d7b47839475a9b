"""Clients of the trial: one uploads batch after batch, one searches."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
from cluster_machines import Plan
from generated_documents import Text, notes

NOTES_IN_A_BATCH = 30
REQUEST_SECONDS = 30.0
"""Timeout of a request. A client then repeats it at the other API."""
JOB_SECONDS = 900.0
"""How long a job may take, with all the trouble."""
QUERIES = ("rain on the forest", "verdict of a jury", "bees and flowers", "glass and sand", "trade winds")
RETRIED = {408, 429}
"""Besides 5xx: an upload that was cut off, and a full queue."""
ENDED = {"succeeded", "partial", "failed", "canceled"}


def batches(plan: Plan) -> Iterator[list[Text]]:
    """Batches of documents without end: a text of the folder with some notes, later notes alone."""
    files = sorted(plan.texts.rglob("*.md")) if plan.texts else []
    number = 0
    while True:
        few = notes(NOTES_IN_A_BATCH, plan.seed * 1_000_003 + number)
        batch = [{**note, "title": f"batch {number}, {note['title']}"} for note in few]
        if number < len(files):
            content = files[number].read_text(encoding="utf-8", errors="replace")
            batch.append({"title": files[number].stem, "content": content, "format": "markdown"})
        yield batch
        number += 1


class Uploader(threading.Thread):
    """Uploads batch after batch until it is ended. Each job ends before the next begins."""

    def __init__(self, plan: Plan, urls: list[str], least: int) -> None:
        super().__init__(name="uploader", daemon=True)
        self._plan, self._urls, self._least = plan, urls, least
        self._ending = threading.Event()
        self.accepted: list[list[Text]] = []
        self.answers: Counter[str] = Counter()
        self.job_seconds: list[float] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        try:
            for number, batch in enumerate(batches(self._plan)):
                if self._ending.is_set() and number >= self._least:
                    return
                started = time.monotonic()
                job = self._upload(f"trial-{self._plan.seed}-{number}", batch)
                self.accepted.append(batch)
                self._wait_for(job, len(batch))
                self.job_seconds.append(time.monotonic() - started)
        except Exception as error:
            self.wrong.append(f"the uploader ended: {type(error).__name__}: {error}")

    def end(self) -> None:
        self._ending.set()

    def _upload(self, key: str, batch: list[Text]) -> int:
        body = b"".join(json.dumps(text).encode() + b"\n" for text in batch)
        headers = {"Idempotency-Key": key, "Content-Type": "application/x-ndjson"}
        answer = self._persist("POST", "/api/v1/documents/bulk", content=body, headers=headers)
        return int(answer["job"]["id"])

    def _wait_for(self, job: int, n: int) -> None:
        deadline = time.monotonic() + JOB_SECONDS
        while time.monotonic() < deadline:
            answer = self._persist("GET", f"/api/v1/jobs/{job}")
            if answer["status"] in ENDED:
                progress = answer["progress"]
                if (answer["status"], progress["done"], progress["total"]) != ("succeeded", n, n):
                    self.wrong.append(f"job {job} of {n} documents: {answer['status']}, {progress}")
                return
            time.sleep(0.1)
        raise TimeoutError(f"job {job} has not ended after {JOB_SECONDS:.0f} s")

    def _persist(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        """Send a request to one API after the other until one accepts it."""
        deadline = time.monotonic() + JOB_SECONDS
        while time.monotonic() < deadline:
            url = self._urls[0]
            try:
                response = httpx.request(method, url + path, timeout=REQUEST_SECONDS, **request)
                self.answers[str(response.status_code)] += 1
                if response.is_success:
                    return dict(response.json())
                if response.status_code < 500 and response.status_code not in RETRIED:
                    raise RuntimeError(f"{method} {path}: {response.status_code} {response.text[:500]}")
            except httpx.TransportError as error:
                self.answers[type(error).__name__] += 1
            self._urls = [*self._urls[1:], url]
            time.sleep(0.2)
        raise TimeoutError(f"{method} {path} was not accepted for {JOB_SECONDS:.0f} s")


class Searcher(threading.Thread):
    """Searches at both APIs in turn, four times a second, and keeps what they answer."""

    def __init__(self, urls: list[str]) -> None:
        super().__init__(name="searcher", daemon=True)
        self._urls = urls
        self._ending = threading.Event()
        self.answers: Counter[str] = Counter()
        self.seconds: list[float] = []

    def run(self) -> None:
        number = 0
        while not self._ending.wait(0.25):
            number += 1
            body = {"query": QUERIES[number % len(QUERIES)], "top_k": 5}
            started = time.monotonic()
            try:
                url = f"{self._urls[number % len(self._urls)]}/api/v1/search"
                response = httpx.post(url, json=body, timeout=REQUEST_SECONDS)
                self.answers[str(response.status_code)] += 1
                if response.is_success:
                    self.seconds.append(time.monotonic() - started)
            except httpx.TransportError as error:
                self.answers[type(error).__name__] += 1

    def end(self) -> None:
        self._ending.set()
        self.join(REQUEST_SECONDS + 5)
