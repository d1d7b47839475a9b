"""What an item writes beside its document: its fields, and the version of the page it was fetched from."""

from __future__ import annotations

from shoal.conversion.converted import CONVERTER_VERSION
from shoal.jobs.queue import statements
from shoal.jobs.queue.claims import WorkItem
from shoal.models.documents import Validators
from shoal.storage import document_writer, fetched_pages
from shoal.storage.database import Snapshot, Transaction
from shoal.support.clock import timestamp_at


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
        fetched_pages.write_page(
            transaction,
            url_of(item),
            document_id,
            validators,
            CONVERTER_VERSION,
            now=timestamp_at(transaction.now()),
        )
