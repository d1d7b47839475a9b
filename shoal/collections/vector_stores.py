"""What the interfaces of other programs keep in the catalog: uploaded files, and what is said of collections.

An uploaded file is in no collection until it is added to one, and then stays for others. A collection that is
a vector store may have a name that no collection can have, and metadata.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from shoal.collections.catalog import Catalog
from shoal.storage.database import listed

LABELS = "SELECT collection_id, label FROM vector_stores WHERE collection_id IN ({ids})"
LABEL = "SELECT label FROM vector_stores WHERE collection_id = :id"
SET_LABEL = """
    INSERT INTO vector_stores (collection_id, label) VALUES (:id, :label)
    ON CONFLICT (collection_id) DO UPDATE SET label = excluded.label
"""


@dataclass(frozen=True, slots=True)
class Label:
    """What a program said of a vector store. `name` is None if it gave none."""

    name: str | None = None
    description: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


class Labels:
    """The labels of collections, by their ids. Every method raises StorageError."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def of(self, collection_ids: Iterable[str]) -> dict[str, Label]:
        """Return the labels of those collections that have one."""
        database = self._catalog.existing_database()
        names, parameters = listed("id", collection_ids)
        if database is None or not parameters:
            return {}
        with database.snapshot() as snapshot:
            rows = snapshot.rows(LABELS.format(ids=names), parameters)
            return {str(row["collection_id"]): Label(**json.loads(row["label"])) for row in rows}

    def change(self, collection_id: str, changes: Mapping[str, Any]) -> Label:
        """Store new values of fields of the label of a collection, which it may not have yet, and return the
        label."""
        with self._catalog.database().write() as transaction:
            before = transaction.value(LABEL, {"id": collection_id})
            label = replace(Label(**json.loads(before or "{}")), **changes)
            transaction.execute(SET_LABEL, {"id": collection_id, "label": json.dumps(asdict(label))})
        return label


ADD = """
    INSERT INTO uploaded_files (id, owner, name, purpose, n_bytes, created_at, data)
    VALUES (:id, :owner, :name, :purpose, :n_bytes, :created_at, :data)
"""
_COLUMNS = "id, owner, name, purpose, n_bytes, created_at, collections"
GET = f"SELECT {_COLUMNS} FROM uploaded_files WHERE id = :id"
DATA = "SELECT data FROM uploaded_files WHERE id = :id"
PAGE = f"""
    SELECT {_COLUMNS} FROM uploaded_files
    WHERE (:owner IS NULL OR owner = :owner) AND (:purpose IS NULL OR purpose = :purpose)
      AND (created_at, id) {{beyond}} (:created_at, :id)
    ORDER BY created_at {{order}}, id {{order}} LIMIT :limit
"""
TOTAL = "SELECT COALESCE(SUM(n_bytes), 0) FROM uploaded_files"
SET_COLLECTIONS = "UPDATE uploaded_files SET collections = :collections WHERE id = :id"
DELETE = "DELETE FROM uploaded_files WHERE id = :id"
FAR = 1e18
"""Seconds that no time reaches."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that a program uploaded. `owner`: the key that sent it; `created_at`: seconds since 1970;
    `collections`: ids of those that it was added to and not deleted from; they may be deleted."""

    id: str
    owner: str
    name: str
    purpose: str
    n_bytes: int
    created_at: float
    collections: tuple[str, ...] = ()

    @property
    def source_path(self) -> str:
        """That of its documents."""
        return f"{self.id}/{self.name}"


class UploadedFiles:
    """The uploaded files of an installation. Every method raises StorageError."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def add(self, owner: str, name: str, purpose: str, data: bytes, most_bytes: int) -> UploadedFile | None:
        """Store a file; None if all files together would have more than `most_bytes`."""
        file = UploadedFile(f"file-{secrets.token_hex(12)}", owner, name, purpose, len(data), time.time())
        values = {each: getattr(file, each) for each in file.__slots__ if each != "collections"}
        with self._catalog.database().write() as transaction:
            if transaction.value(TOTAL) + len(data) > most_bytes:
                return None
            transaction.execute(ADD, {**values, "data": data})
        return file

    def get(self, file_id: str) -> UploadedFile | None:
        """Return a file."""
        rows = self._rows(GET, {"id": file_id})
        return _uploaded(rows[0]) if rows else None

    def data(self, file_id: str) -> bytes | None:
        """Return what a file holds."""
        rows = self._rows(DATA, {"id": file_id})
        return bytes(rows[0]["data"]) if rows else None

    def page(
        self, owner: str | None, purpose: str | None, after: UploadedFile | None, limit: int, *, newest: bool
    ) -> list[UploadedFile]:
        """List files in the order of their upload, or the newest first; of one owner, or of all."""
        start = -FAR if after is None and not newest else FAR
        place = (
            {"created_at": start, "id": ""}
            if after is None
            else {"created_at": after.created_at, "id": after.id}
        )
        statement = PAGE.format(beyond="<" if newest else ">", order="DESC" if newest else "ASC")
        rows = self._rows(statement, {"owner": owner, "purpose": purpose, "limit": limit, **place})
        return list(map(_uploaded, rows))

    def note_collection(
        self, file_ids: Iterable[str], collection_id: str, *, is_deletion: bool = False
    ) -> None:
        """Note that files are added to a collection, or deleted from it."""
        with self._catalog.database().write() as transaction:
            for file_id in file_ids:
                row = transaction.first(GET, {"id": file_id})
                if row is not None:
                    others = [each for each in json.loads(row["collections"]) if each != collection_id]
                    now = others if is_deletion else [*others, collection_id]
                    transaction.execute(SET_COLLECTIONS, {"id": file_id, "collections": json.dumps(now)})

    def delete(self, file_id: str) -> None:
        """Delete a file."""
        with self._catalog.database().write() as transaction:
            transaction.execute(DELETE, {"id": file_id})

    def _rows(self, statement: str, parameters: dict[str, Any]) -> list[Any]:
        database = self._catalog.existing_database()
        if database is None:
            return []
        with database.snapshot() as snapshot:
            return snapshot.rows(statement, parameters)


def _uploaded(row: Any) -> UploadedFile:
    values = dict(row)
    return UploadedFile(**{**values, "collections": tuple(json.loads(values["collections"]))})
