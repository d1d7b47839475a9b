"""The warning about the fields of a duplicate that are not stored: everything except its tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def duplicate_warnings(
    document_id: int,
    stored: Mapping[str, Any],
    *,
    title: str | None,
    source_path: str | None,
    metadata: Mapping[str, Any] | None,
) -> tuple[str, ...]:
    """Return one warning if a field of the duplicate differs from the stored document, else nothing.

    `stored` has the `title`, `source_path` and `metadata` of the document. Fields that the client did not
    send for the duplicate are None.
    """
    ignored = []
    if title is not None and title != stored["title"]:
        ignored.append(f"its title ({title}; the document has {stored['title']})")
    if source_path and source_path != stored["source_path"]:
        stored_path = stored["source_path"] or "none"
        ignored.append(f"its source path ({source_path}; the document has {stored_path})")
    if metadata and metadata != stored["metadata"]:
        ignored.append("its metadata (the document has others)" if stored["metadata"] else "its metadata")
    if not ignored:
        return ()
    warning = (
        f"document {document_id} already has this content and received only the tags; "
        f"not stored: {'; '.join(ignored)}"
    )
    return (warning,)
