"""Shared parts of the API tests: texts, a worker in this process, and checks of problem responses."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from werkzeug.test import TestResponse

from shoal.engine import Engine
from shoal.jobs.queue.claims import claim, new_owner
from shoal.jobs.stages.runner import handlers_for, process
from shoal.settings import Settings

API = "/api/v1"
COLLECTIONS = f"{API}/collections"

VOLCANO = (
    "Magma rises through the crust. Lava and ash pour from the crater of the volcano. The rock is basalt."
)
FLOWER = (
    "A flower grows from a seed. The root and the leaf feed the plant. Pollen travels from petal to petal."
)
LAW = "The judge asked the jury for a verdict. A witness gave evidence in court. The crime went to trial."

Store = Callable[..., int]


def prepare(settings: Settings, migrated: Path) -> None:
    """Make the library of the settings a copy of an empty one; on PostgreSQL it is one already."""
    if settings.is_sqlite:
        shutil.copy(migrated, settings.database_path)


class Worker:
    """A worker in this process that uses the real queue protocol without Celery."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._handlers = handlers_for(engine.database, engine.scorer, engine.settings)
        self._stop = threading.Event()

    def work(self) -> None:
        """Process all waiting items."""
        while self.work_once():
            pass

    def work_once(self) -> bool:
        """Process one batch; False if there is none."""
        batch = claim(self._engine.database, new_owner(), self._engine.settings)
        if batch is None:
            return False
        process(batch, self._engine.database, self._handlers, self._engine.settings)
        return True

    def keep_working(self) -> None:
        while not self._stop.wait(0.02):
            self.work()

    def stop(self) -> None:
        self._stop.set()


class _Unread:
    def read(self, *_: object) -> bytes:
        raise AssertionError("the body was read")


CODE = re.compile(r"[a-z]+(_[a-z]+)*")

UNREAD = {"wsgi.input": _Unread(), "CONTENT_LENGTH": "1000000000"}
"""Part of a WSGI environment with a body that must not be read."""


def assert_problem(response: Any, status: int, field: str | None = None) -> dict[str, Any]:
    """Assert that the response is a problem with this status and field, and return its body."""
    assert response.status_code == status, response.get_data(as_text=True)
    assert response.content_type == "application/problem+json"
    problem: dict[str, Any] = response.get_json(force=True)
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert CODE.fullmatch(problem["code"])
    assert problem["trace_id"] == response.headers["X-Trace-Id"]
    text = response.get_data(as_text=True)
    assert "Traceback" not in text
    assert "sqlite" not in text.lower()
    if field is not None:
        assert field in problem["errors"], problem
        assert all(isinstance(message, str) and message for message in problem["errors"][field])
    return problem


def titles(response: TestResponse) -> list[str]:
    assert response.status_code == 200, response.get_data(as_text=True)
    return [result["document_title"] for result in response.get_json()["results"]]
