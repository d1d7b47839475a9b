"""File extensions and their formats."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

from shoal.models.documents import DocFormat

FORMAT_OF_SUFFIX = {
    ".md": DocFormat.markdown,
    ".markdown": DocFormat.markdown,
    ".txt": DocFormat.plaintext,
}
"""Format of a text by extension, in lower case. `shoal.conversion.file_kinds` has all files that are read."""


def format_of(source_path: str | None) -> DocFormat:
    """Return the format of a path by its extension; plain text if the extension is unknown."""
    # Both path flavours: an upload may come from a Windows or a POSIX client.
    suffix = PurePosixPath(PureWindowsPath(source_path or "").name).suffix.lower()
    return FORMAT_OF_SUFFIX.get(suffix, DocFormat.plaintext)
