"""Rights of the files of a folder: `.shoal-access` in it, or in the nearest folder above that has one.

Each line is `allow` or `deny` with a principal; `#` begins a comment. A file without a line of `allow` lets
nobody see what is below it.
"""

from __future__ import annotations

from pathlib import Path

from shoal.errors import InvalidFieldError, UndecodableDocumentError, UnreadableFileError
from shoal.formats.drafts import checked_rights
from shoal.models.rights import Rights
from shoal.support.regular_files import IrregularFileError, read_file

NAME = ".shoal-access"
MAX_BYTES = 1 << 20


def rights_of_file(path: Path, folder: Path) -> Rights | None:
    """Return the rights of a file below a folder; None if no folder up to this one names any.

    Raises DocumentError if they cannot be read: then nobody knows who may see the file.
    """
    for above in path.parents:
        if above != folder and folder not in above.parents:
            break
        rights = _rights_in(above, folder)
        if rights is not None:
            return rights
    return None


def _rights_in(above: Path, folder: Path) -> Rights | None:
    try:
        lines = read_file(above / NAME, MAX_BYTES, folder).decode().splitlines()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise UndecodableDocumentError(f"{NAME} above it is not UTF-8") from None
    except IrregularFileError as error:
        raise UndecodableDocumentError(f"{NAME} above it: {error.strerror}") from None
    except OSError as error:
        raise UnreadableFileError(f"{NAME} above it cannot be read: {error.strerror}") from None
    lists: dict[str, list[str]] = {"allow": [], "deny": []}
    for number, line in enumerate(lines, 1):
        words = line.split("#", 1)[0].split()
        if words and (len(words) != 2 or words[0] not in lists):
            raise InvalidFieldError(NAME, f"line {number} is not `allow` or `deny` with a principal")
        if words:
            lists[words[0]].append(words[1])
    return checked_rights(lists["allow"], lists["deny"])
