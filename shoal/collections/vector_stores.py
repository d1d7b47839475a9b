"""What the interfaces of other programs keep in the catalog: uploaded files, and what is said of collections.

An uploaded file is in no collection until it is added to one, and then stays for others. A collection that is
a vector store may have a name that no collection can have, and metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shoal.collections.catalog import Catalog
from shoal.storage.database import listed

LABELS = "SELECT collection_id, label FROM vector_stores WHERE collection_id IN ({ids})"
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

    def put(self, collection_id: str, label: Label) -> None:
        """Store the label of a collection in place of the one before."""
        values = {"name": label.name, "description": label.description, "metadata": dict(label.metadata)}
        with self._catalog.database().write() as transaction:
            transaction.execute(SET_LABEL, {"id": collection_id, "label": json.dumps(values)})
