"""The contract between the stages of a job and the module that runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.jobs.queue.claims import WaveRef, WorkItem
from shoal.jobs.queue.transitions import Outcome
from shoal.models.jobs import Stage
from shoal.storage.database import Transaction

Report = Callable[[float], None]
"""Takes the share of an item's stage that is done, 0 to 1."""


def no_report(_share: float) -> None:
    """Report nothing."""


class NotPreparedError(Exception):
    """The database has changed since `prepare`: the item must be prepared again."""


class ItemHandler(ABC):
    """A stage that works on single items."""

    def prepare_together(self, items: Sequence[WorkItem]) -> None:  # noqa: B027 - optional work
        """Do the work that is cheaper for several items at once. `prepare` of each item follows.

        Errors raised here are raised again by `prepare` for the item that caused them.
        """

    @abstractmethod
    def prepare(self, item: WorkItem) -> Any:
        """Do the long part, outside any transaction. May raise DocumentError, LeaseLostError,
        StorageError."""

    def prepare_reporting(self, item: WorkItem, report: Report) -> Any:
        """Like `prepare`; a stage that can take long for one item calls `report` now and then."""
        return self.prepare(item)

    @abstractmethod
    def store(self, transaction: Transaction, item: WorkItem, prepared: Any) -> Outcome:
        """Do the short part, inside the transaction that ends the item. May also raise NotPreparedError."""

    def store_many(self, transaction: Transaction, group: Sequence[tuple[WorkItem, Any]]) -> list[Outcome]:
        """Store several items in one transaction; outcomes in their order.

        After an error, the items are stored one by one, each in a transaction of its own.
        """
        return [self.store(transaction, item, prepared) for item, prepared in group]


class WaveHandler(ABC):
    """A stage that works on a wave as a whole."""

    @abstractmethod
    def prepare_wave(self, wave: WaveRef, owner: str) -> Any:
        """Do the long part, outside transactions or in short ones. May raise LeaseLostError, StorageError."""

    @abstractmethod
    def store_wave(self, transaction: Transaction, wave: WaveRef, prepared: Any) -> int | None:
        """Do the short part, inside the transaction that ends the stage. May also raise NotPreparedError.

        Returns the vocabulary version that scores the items of the wave.
        """

    def cleanup(self, prepared: Any) -> None:  # noqa: B027 - optional work
        """Remove what is no longer needed, after the commit. Nothing depends on it."""


Handlers = Mapping[Stage, ItemHandler | WaveHandler]
