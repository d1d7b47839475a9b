"""Reads a JSON text piece by piece, so that memory does not grow with its size."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from typing import IO, Any, NoReturn

READ_BYTES = 1 << 18
WHITE_SPACE = " \t\n\r"
BEFORE_DIGIT = "e-"
"""The longest part of a number that is none without the digit behind it."""
GZIP = b"\x1f\x8b"


class JsonStreamError(ValueError):
    """The text is not JSON, ends too early, or has a value over the limit."""


class JsonStream:
    """A cursor in a JSON text in UTF-8, plain or compressed by gzip, from its beginning.

    Members and elements are visited in order, and each has to be read by `value`, `members`, `elements` or
    `skip`. NaN and Infinity, which JSON does not have, are errors. All methods raise JsonStreamError.
    """

    def __init__(self, file: IO[bytes], max_chars: int) -> None:
        """`file` can be read again from its beginning; `max_chars`: longest text of a single value."""
        file.seek(0)
        is_compressed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        self._file: IO[bytes] = gzip.GzipFile(fileobj=file) if is_compressed else file  # type: ignore[assignment]
        self._max_chars = max_chars
        self._to_text = codecs.getincrementaldecoder("utf-8-sig")()
        self._parse = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
        self._text = ""
        self._at = 0
        self._is_end = False

    def members(self) -> Iterator[str]:
        """Yield the keys of the object at the cursor. A key that comes twice is an error."""
        keys = set[str]()
        for _ in self._separated("{", "}"):
            key = self.value()
            if not isinstance(key, str):
                raise JsonStreamError("a key of an object must be a text")
            if key in keys:
                raise JsonStreamError(f"`{key[:40]}` comes twice")
            keys.add(key)
            self._take(":")
            yield key

    def elements(self) -> Iterator[int]:
        """Yield the number of each element of the array at the cursor, from 0."""
        return self._separated("[", "]")

    def value(self) -> Any:
        """Return the value at the cursor."""
        self._peek()
        n_chars = READ_BYTES
        while True:
            try:
                value, end = self._parse(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_end:
                    raise JsonStreamError(
                        f"this is not JSON, or the file was cut off ({error.msg})"
                    ) from None
            except (ValueError, RecursionError) as error:
                reason = str(error) if isinstance(error, JsonStreamError) else type(error).__name__
                raise JsonStreamError(f"this is not a usable value: {reason}") from None
            else:
                # A number may go on behind what was read, such as 1 and 1e-7.
                if end + len(BEFORE_DIGIT) < len(self._text) or self._is_end:
                    if end - self._at > self._max_chars:
                        self._refuse_length()
                    self._at = end
                    return value
            if len(self._text) - self._at > self._max_chars:
                self._refuse_length()
            self._read(n_chars)
            n_chars *= 2

    def skip(self) -> None:
        """Leave out the value at the cursor; of an array, element by element."""
        if self._peek() != "[":
            self.value()
            return
        for _ in self.elements():
            self.value()

    def end(self) -> None:
        """Check that nothing follows."""
        if self._peek():
            raise JsonStreamError("something follows behind the end of the object")

    def _separated(self, first: str, last: str) -> Iterator[int]:
        self._take(first)
        number = 0
        while self._peek() != last or number:
            yield number
            number += 1
            if self._peek() == last:
                break
            self._take(",")
        self._take(last)

    def _take(self, char: str) -> None:
        found = self._peek()
        if found != char:
            place = f"`{found}`" if found else "the end of the file, which was cut off"
            raise JsonStreamError(f"expected `{char}`, found {place}")
        self._at += 1

    def _peek(self) -> str:
        """Return the next character that is no white space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in WHITE_SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._is_end:
                return ""
            self._read(READ_BYTES)

    def _read(self, n_bytes: int) -> None:
        try:
            data = self._file.read(n_bytes)
            text = self._to_text.decode(data, final=not data)
        except UnicodeDecodeError:
            raise JsonStreamError("this is not a text in UTF-8") from None
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise JsonStreamError(f"the compressed file was cut off or is damaged ({error})") from None
        self._is_end = not data
        self._text = self._text[self._at :] + text
        self._at = 0

    def _refuse_length(self) -> NoReturn:
        raise JsonStreamError(f"a value has over {self._max_chars:,} characters, which is the limit")


def _refuse_constant(name: str) -> NoReturn:
    raise JsonStreamError(f"{name} is no number of JSON")
