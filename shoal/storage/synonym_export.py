"""Records of synonyms and of decided acronyms in an export, in an order that depends on the words alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from shoal.storage.acronyms import DECIDED
from shoal.storage.database import Snapshot

ALL = "SELECT root, words FROM synonyms ORDER BY root IS NOT NULL, root, words"


def synonym_records(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield the records of an export: each `synonym`, then each `acronym` that a person decided on."""
    for row in snapshot.rows(ALL):
        yield {"type": "synonym", "root": row["root"], "synonyms": json.loads(row["words"])}
    for row in snapshot.rows(DECIDED):
        yield {
            "type": "acronym",
            "acronym": row["acronym"],
            "expansion": row["expansion"],
            "status": row["status"],
        }
