"""What a check is made of, and what it says."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.settings import Settings
from shoal.storage.database import Database

MOST_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    `n` says how many times, `examples` names the first few. `is_harm` is False where nothing is wrong yet, but worth
    knowing. `can_repair`: `--repair` mends it without losing a document. `is_unseen`: the check could not be made.
    """

    check: str
    problem: str
    meaning: str
    advice: str
    n: int = 1
    examples: tuple[str, ...] = ()
    is_harm: bool = True
    can_repair: bool = False
    is_unseen: bool = False


class CheckContext:
    """The library that is looked at. Opens nothing until it is asked to."""

    def __init__(self, settings: Settings, scorer: Any = None) -> None:
        self.settings = settings
        self._scorer = scorer

    @functools.cached_property
    def database(self) -> Database:
        return Database(self.settings.database_url)

    def close(self) -> None:
        """Close the database, where it was opened."""
        if "database" in self.__dict__:
            self.database.close()

    @property
    def scorer(self) -> Any:
        """lagoon's packaged data, unless another scorer was given."""
        if self._scorer is None:
            import lagoon

            self._scorer = lagoon.load()
        return self._scorer


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look at. `repair` repairs what `look` has found, as far as a finding says that it can; it may be
    stopped anywhere and begun again. `reads_all`: takes as long as the library is large. `is_vital`: where it finds
    harm that stays, the others can't be relied upon and are left out."""

    name: str
    what: str
    look: Callable[[CheckContext], Sequence[Finding]]
    repair: Callable[[CheckContext], None] | None = None
    reads_all: bool = False
    is_vital: bool = False


def examples(things: Iterable[object]) -> tuple[str, ...]:
    """The first few of many."""
    return tuple(str(thing) for thing in itertools.islice(things, MOST_EXAMPLES))
