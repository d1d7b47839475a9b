"""Files found in a file: which of them can be read, archives among them unpacked, and why others are not."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from shoal.conversion.archives import (
    ARCHIVE,
    GZIP,
    ZIP,
    Archive,
    ArchiveTooLargeError,
    BrokenArchiveError,
)
from shoal.conversion.converted import MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS, Attachment
from shoal.conversion.recognition import recognise
from shoal.settings import Settings

MAX_NAME_CHARS = 255
MAX_LISTED_NAMES = 20
_PACKED = ((b"PK", ZIP[0]), (b"\x1f\x8b", GZIP[0]))


class ReadableFile(NamedTuple):
    """A file to convert. `name`: in the outer file, such as `plans.zip/house.pdf`; `kind`: id of its kind."""

    name: str
    kind: str
    data: bytes


class Found(NamedTuple):
    """The files of a file, and the names of those that are not read, each with the reason in brackets."""

    files: list[ReadableFile]
    unread: list[str]


def find_files(attachments: Iterable[Attachment], settings: Settings) -> Found:
    """Return what can be read of the files in a file, within the limits of one file and of archives."""
    found = Found([], [])
    left = MAX_ATTACHMENT_BYTES
    for full_name, data, refusal in _unpacked(attachments, settings):
        name = full_name[:MAX_NAME_CHARS]
        if refusal is not None:
            found.unread.append(f"{name} ({refusal})")
            continue
        if not data:
            continue
        kind = recognise(data, name)
        if kind.refusal:
            found.unread.append(f"{name} ({kind.name})")
        elif len(found.files) >= MAX_ATTACHMENTS or len(data) > left:
            found.unread.append(f"{name} (too many or too large)")
        else:
            left -= len(data)
            found.files.append(ReadableFile(name, kind.id, data))
    return found


def _unpacked(
    attachments: Iterable[Attachment], settings: Settings
) -> Iterator[tuple[str, bytes, str | None]]:
    """Yield names and bytes of files, members in place of archives, each with why it is refused, if it is."""
    for attachment in attachments:
        name, data = attachment.name, attachment.data
        media_type = next((each for mark, each in _PACKED if data.startswith(mark)), None)
        if media_type is None or recognise(data, name).id != ARCHIVE:
            yield name, data, None
            continue
        try:
            for member in Archive(io.BytesIO(data), media_type, settings):
                yield f"{name}/{member.name}", member.data, member.refusal
        except (BrokenArchiveError, ArchiveTooLargeError) as error:
            yield name, b"", str(error).removesuffix("; nothing of it was stored")


def unread_warning(names: Sequence[str]) -> str:
    """Return the warning that names files that are not read."""
    more = len(names) - MAX_LISTED_NAMES
    rest = f" and {more:,} more" if more > 0 else ""
    return f"attachments that are not read: {', '.join(names[:MAX_LISTED_NAMES])}{rest}"
