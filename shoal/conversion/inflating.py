"""What gzip or deflate compressed, read forward in bounded memory and time.

The module `gzip` of the standard library is unsafe for untrusted input: it reads the names in its headers
byte by byte.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

from shoal.support.byte_units import KIB, MIB

READ_BYTES = 64 * KIB


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


GZIP, DEFLATE = "gzip", "deflate"
"""Names of the codings, as in `Content-Encoding`."""
WINDOW_BITS = {GZIP: 16 + zlib.MAX_WBITS, DEFLATE: zlib.MAX_WBITS}

MAX_MEMBERS = 200_000
"""Most members of a gzip file. Tools that write many put 64 KiB into each, so 2 GiB have 32,768."""
PACKED_BYTES = 8 * KIB
"""Bytes inflated at a time. The remainder is copied once for each gzip member in them."""
RATIO_FLOOR = MIB
"""Unpacked size from which the ratio to the packed size is checked: small texts may repeat themselves."""


class PackedDataError(ValueError):
    """The bytes are not compressed in the declared way, are cut off or damaged."""


class Inflated:
    """The content of compressed bytes, read forward."""

    def __init__(self, file: Readable, check_size: Callable[[int, int], None], coding: str = GZIP) -> None:
        """`check_size` gets the numbers of bytes unpacked and read so far, and may raise."""
        self._file = file
        self._check_size = check_size
        self._coding = coding
        self._inflater = zlib.decompressobj(WINDOW_BITS[coding])
        self._packed = b""
        self._n_bytes = self._n_packed = 0
        self._n_members = 1

    def read(self, size: int = READ_BYTES, /) -> bytes:
        """Return at least one and at most `size` bytes; empty at the end. Raises PackedDataError."""
        data = b""
        while not data and not self._is_at_end():
            packed = self._packed or self._read(PACKED_BYTES)
            if not packed:
                raise PackedDataError(f"the {self._coding} data is truncated")
            try:
                data = self._inflater.decompress(packed, size)
            except zlib.error:
                raise PackedDataError(f"the body is not {self._coding} data, or it is damaged") from None
            self._packed = self._inflater.unused_data or self._inflater.unconsumed_tail
        self._n_bytes += len(data)
        self._check_size(self._n_bytes, self._n_packed)
        return data

    def _read(self, size: int) -> bytes:
        packed = self._file.read(size)
        self._n_packed += len(packed)
        return packed

    def _is_at_end(self) -> bool:
        """Whether no data follows. Starts the next member if the current one has ended."""
        if not self._inflater.eof:
            return False
        # Skip padding, as on tapes.
        self._packed = self._packed.lstrip(b"\0")
        while not self._packed and (packed := self._read(READ_BYTES)):
            self._packed = packed.lstrip(b"\0")
        if not self._packed:
            return True
        self._n_members += 1
        if self._n_members > MAX_MEMBERS:
            raise PackedDataError(
                f"the {self._coding} data has more than {MAX_MEMBERS:,} members, which is the limit"
            )
        self._inflater = zlib.decompressobj(WINDOW_BITS[self._coding])
        return False
