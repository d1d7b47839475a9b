"""The contract of the doctor: checks, and the findings that they return."""

from __future__ import annotations

import enum
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.storage.opening import open_database

MAX_EXAMPLES = 5


class Severity(enum.StrEnum):
    """`error`: the library is damaged. `note`: nothing is wrong, but the operator should know."""

    error = "error"
    note = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a library.

    `n` is the number of occurrences, `examples` names the first few. `can_repair`: `--repair` fixes it
    without losing a document. `is_unseen`: the check could not run.
    """

    check: str
    problem: str
    meaning: str
    advice: str
    n: int = 1
    examples: tuple[str, ...] = ()
    severity: Severity = Severity.error
    can_repair: bool = False
    is_unseen: bool = False

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.error


class CheckContext:
    """The library under examination. The database and the scorer are opened on first use."""

    def __init__(self, settings: Settings, scorer: Scorer | None = None) -> None:
        self.settings = settings
        self._scorer = scorer

    @functools.cached_property
    def database(self) -> Database:
        return open_database(self.settings.database_url, self.settings.data_path)

    def close(self) -> None:
        """Close the database if it was opened."""
        if "database" in self.__dict__:
            self.database.close()

    @property
    def scorer(self) -> Any:
        """The given scorer, or lagoon's packaged data."""
        if self._scorer is None:
            import lagoon

            self._scorer = lagoon.load()
        return self._scorer


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a library.

    `find` returns the problems, `repair` fixes those with `can_repair`; a repair may be interrupted and
    repeated. `reads_all`: the duration grows with the library. `is_vital`: an error that remains stops the
    examination, because later checks rely on this one. `is_for_sqlite`: PostgreSQL itself keeps what the
    check looks at.
    """

    name: str
    what: str
    find: Callable[[CheckContext], Sequence[Finding]]
    repair: Callable[[CheckContext], None] | None = None
    reads_all: bool = False
    is_vital: bool = False
    is_for_sqlite: bool = False


def examples(items: Iterable[object]) -> tuple[str, ...]:
    """The first few of `items` as text."""
    return tuple(str(item) for item in itertools.islice(items, MAX_EXAMPLES))
