"""Reading members of a zip from memory within limits."""

from __future__ import annotations

import io
import zipfile
import zlib

from shoal.conversion.converted import ConversionError

MAX_MEMBERS = 20_000
MAX_MEMBER_BYTES = 32 * 1024**2
MAX_TOTAL_BYTES = 128 * 1024**2
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


class ArchiveMembers:
    """The members of a zip. `file_type`: what it is, for messages. Raises ConversionError everywhere."""

    def __init__(self, data: bytes, file_type: str) -> None:
        self._file_type = file_type
        self._n_bytes = 0
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError, EOFError):
            raise self._broken("its directory cannot be read") from None
        members = self._archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise ConversionError("too_large", f"this {file_type} has more than {MAX_MEMBERS:,} members")
        self._members = {member.filename: member for member in members}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """Return a member's bytes."""
        member = self._members.get(name)
        if member is None:
            raise self._broken(f"it has no {name[:200]!r}")
        if member.flag_bits & 1:
            raise ConversionError("encrypted", f"this {self._file_type} has a password; save it without one")
        if member.compress_type not in _METHODS:
            raise self._broken("it is compressed in an unusual way")
        try:
            with self._archive.open(member) as file:
                data = file.read(MAX_MEMBER_BYTES + 1)
        except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, NotImplementedError):
            raise self._broken(f"{name[:200]!r} cannot be read") from None
        self._n_bytes += len(data)
        if len(data) > MAX_MEMBER_BYTES or self._n_bytes > MAX_TOTAL_BYTES:
            raise ConversionError("too_large", f"this {self._file_type} is too large when unpacked; split it")
        return data

    def _broken(self, reason: str) -> ConversionError:
        return ConversionError("broken", f"this {self._file_type} is damaged ({reason}); save it again")
