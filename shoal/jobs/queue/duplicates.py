"""What is not taken over from a document whose content is stored already: all but its tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def not_taken(
    document_id: int,
    stored: Mapping[str, Any],
    *,
    title: str | None,
    source_path: str | None,
    metadata: Mapping[str, Any] | None,
) -> tuple[str, ...]:
    """A warning, if there is something to warn of.

    `stored` has the `title`, `source_path` and `metadata` of the document; those of the duplicate are None where nothing
    was said of them.
    """
    lost = []
    if title is not None and title != stored["title"]:
        lost.append(f"its title ({title}), for the document has {stored['title']}")
    if source_path and source_path != stored["source_path"]:
        has = stored["source_path"] or "none"
        lost.append(f"its source path ({source_path}), for the document has {has}")
    if metadata and metadata != stored["metadata"]:
        lost.append("its metadata, for the document has others" if stored["metadata"] else "its metadata")
    if not lost:
        return ()
    return (
        f"document {document_id} has this content already and was given only the tags; not taken: {'; '.join(lost)}",
    )
