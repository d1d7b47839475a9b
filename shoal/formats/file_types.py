"""The format of a file, told from its name."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

from shoal.models import DocFormat

FORMAT_OF_SUFFIX = {
    ".md": DocFormat.markdown,
    ".markdown": DocFormat.markdown,
    ".txt": DocFormat.plaintext,
}
"""Extensions that make a file a text where only its folder was named, in lower case."""


def format_of(source_path: str | None) -> DocFormat:
    """The format that a path tells; plain text where it tells none."""
    # Both flavours of path: an upload's file name may come from either.
    suffix = PurePosixPath(PureWindowsPath(source_path or "").name).suffix.lower()
    return FORMAT_OF_SUFFIX.get(suffix, DocFormat.plaintext)
