"""The contract between the stages of a job and the module that runs them, and what items always write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shoal.conversion.converted import CONVERTER_VERSION
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WaveRef, WorkItem
from shoal.jobs.queue.transitions import Outcome
from shoal.models.documents import Validators
from shoal.models.jobs import Stage
from shoal.storage import document_writer, source_stamps
from shoal.storage.database import Snapshot, Transaction
from shoal.support.clock import timestamp_at

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


def url_of(item: WorkItem) -> str:
    """Return the URL of an item to fetch."""
    assert item.head.source_path, "an item to fetch has its URL as source path"
    return item.head.source_path


def is_path_awaited(snapshot: Snapshot, item: WorkItem) -> bool:
    """Whether an earlier item of the service may still change or delete the document at an item's path."""
    key = {"item_id": item.id, "is_local": 0}
    return snapshot.value(statements.IS_PATH_AWAITED, key) is not None


def take_fields(
    transaction: Transaction, item: WorkItem, document_id: int, *, is_at_path: bool, now: str
) -> None:
    """Give a document whose content stays the fields of an item: all of them if the item has its path, else
    the tags."""
    head = item.head
    if is_at_path:
        head = document_writer.with_stored_fields(transaction, document_id, head)
        document_writer.update_head(transaction, document_id, head, now=now)
    else:
        document_writer.merge_tags(transaction, document_id, head.tags, now=now)


def keep_response(transaction: Transaction, item: WorkItem, document_id: int | None) -> None:
    """Write the version of the page that an item was fetched from, once its document is stored."""
    # Only items that replace by their path can have a URL.
    if document_id is None or not item.by_path:
        return
    row = transaction.first(statements.ITEM_RESPONSE, {"item_id": item.id})
    if row is not None:
        validators = Validators(*row)
        source_stamps.write_page(
            transaction,
            url_of(item),
            document_id,
            validators,
            CONVERTER_VERSION,
            now=timestamp_at(transaction.now()),
        )
