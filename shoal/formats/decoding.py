"""Decoding of bytes to text, and replacement of characters that stored text must not contain."""

from __future__ import annotations

import codecs
import logging
import re
from collections import Counter
from typing import NamedTuple

from shoal.errors import DocumentTooLargeError, UndecodableDocumentError

UTF8 = "utf-8"
CERTAIN_ENCODINGS = frozenset({UTF8, "utf-16", "utf-32", "utf-16-le", "utf-16-be"})
"""Encodings that the bytes determine; any other encoding is a guess."""

# Longer marks first: the mark of UTF-32-LE begins with that of UTF-16-LE.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SIGNATURES = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old office document"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"{\\rtf", "an RTF document"),
)
# Control characters are common in binary files and rare in text, where a stray NUL may occur.
_MAX_CONTROL_SHARE = 0.02
_STRAY_CONTROLS = 8
_CONTROL_BYTES = bytes(range(9)) + bytes(range(14, 27)) + bytes(range(28, 32))
# In UTF-16 of Western text nearly every second byte is NUL, always at the same parity.
_UTF16_NUL_SHARE = 0.7
_PROBE_BYTES = 64 * 1024

# English text that is not UTF-8 is nearly always Windows-1252. With few accented letters, other code pages
# look as good or a little better. So Windows-1252 is chosen if accented letters are at most this rare and
# plausible in it: English has under 1 %, French and German up to 5 %, Polish 7 %, Czech 13 %.
_USUAL_ENCODING = "cp1252"
_RARE_SHARE = 0.06
_ACCENTED = re.compile("[À-ÖØ-öø-ÿŠšŒœŽžŸ]")
# Other code pages read as Windows-1252 show accented capitals and signs inside words; its own text hardly
# does.
_IMPLAUSIBLE = re.compile(r"[a-zß-ÿ][À-ÖØ-ÞŠŒŽŸ]|[^\W\d_][\x80-\x9f‚„†‡•‹›ˆ˜¡-©«-´¶-¹»-¿](?=[^\W\d_]|[ ,.;])")
_MAX_IMPLAUSIBLE_SHARE = 0.1
# Otherwise Windows-1252 is chosen unless the best encoding is better by more than this.
_CHAOS_ALLOWANCE = 0.1
_COHERENCE_ALLOWANCE = 0.05

_HIGH_BYTES = bytes(range(128, 256))
_ASCII_LETTERS = bytes([*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1)])

_UNWANTED = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# The same in UTF-8, for a fast check that a text has none of them.
_UNWANTED_BYTES = bytes([*range(9), 0x0B, *range(14, 32), 0x7F])
_UNWANTED_PAIR = re.compile(rb"\xc2[\x80-\x9f]")


class Decoded(NamedTuple):
    text: str
    encoding: str


def decode(data: bytes, *, max_bytes: int, min_confidence: float) -> Decoded:
    """Decode a file as UTF-8, or as an encoding recognised with at least `min_confidence` (0..1).

    A byte order mark is dropped; newlines are unchanged. Raises DocumentTooLargeError, and
    UndecodableDocumentError if the data is not text or the encoding is uncertain.
    """
    if len(data) > max_bytes:
        raise DocumentTooLargeError(f"the file has {len(data):,} bytes; the limit is {max_bytes:,}")
    _refuse_signatures(data)
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return Decoded(_strict(data[len(mark) :] if encoding == UTF8 else data, encoding), encoding)
    wide = _wide_encoding(data)
    if wide:
        return Decoded(_strict(data, wide), wide)
    if _has_many_controls(data):
        raise UndecodableDocumentError("this is not a text file: it is full of control characters")
    try:
        return Decoded(data.decode(UTF8), UTF8)
    except UnicodeDecodeError as error:
        encoding = (
            _USUAL_ENCODING
            if _is_usual_encoding(data)
            else _recognise_encoding(data, min_confidence, error.start)
        )
        return Decoded(data.decode(encoding), encoding)


def clean(text: str) -> str:
    """Replace every control character (except tab, newline, return, form feed) and lone surrogate by one
    space.

    Offsets stay valid.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return _UNWANTED.sub(" ", text)
    if len(data.translate(None, _UNWANTED_BYTES)) == len(data) and not _UNWANTED_PAIR.search(data):
        return text
    return _UNWANTED.sub(" ", text)


def _refuse_signatures(data: bytes) -> None:
    for signature, file_type in _SIGNATURES:
        if data.startswith(signature):
            raise UndecodableDocumentError(
                f"this is {file_type}, not a text file; convert it to plain text or Markdown first"
            )


def _strict(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UndecodableDocumentError(
            f"the file appears to be {encoding.upper()} but is not: byte {error.start:,} cannot be decoded"
        ) from None


def _wide_encoding(data: bytes) -> str | None:
    """Detect UTF-16 without a byte order mark by the positions of its NULs."""
    probe = data[: _PROBE_BYTES & ~1]
    if len(probe) < 2 or len(data) % 2:
        return None
    even, odd = probe[::2].count(0), probe[1::2].count(0)
    half = len(probe) // 2
    if odd > _UTF16_NUL_SHARE * half and not even:
        return "utf-16-le"
    if even > _UTF16_NUL_SHARE * half and not odd:
        return "utf-16-be"
    return None


def _has_many_controls(data: bytes) -> bool:
    probe = data[:_PROBE_BYTES]
    controls = len(probe) - len(probe.translate(None, _CONTROL_BYTES))
    return controls > _STRAY_CONTROLS and controls > _MAX_CONTROL_SHARE * len(probe)


def _is_usual_encoding(data: bytes) -> bool:
    """Whether this is Western text with few accents, for which Windows-1252 is the only likely encoding."""
    try:
        text = data.decode(_USUAL_ENCODING)
    except UnicodeDecodeError:
        return False
    n_high = len(data) - len(data.translate(None, _HIGH_BYTES))
    n_plain = len(data) - len(data.translate(None, _ASCII_LETTERS))
    n_accented = sum(1 for _ in _ACCENTED.finditer(text))
    if n_accented > _RARE_SHARE * (n_accented + n_plain):
        return False
    return sum(1 for _ in _IMPLAUSIBLE.finditer(text)) <= _MAX_IMPLAUSIBLE_SHARE * n_high


def _recognise_encoding(data: bytes, min_confidence: float, first_bad: int) -> str:
    # A late import: it is slow (it compiles its tables), and nearly every file is UTF-8.
    import charset_normalizer

    logging.getLogger("charset_normalizer").setLevel(logging.WARNING)
    matches = list(charset_normalizer.from_bytes(data, enable_fallback=False))
    if not matches:
        raise UndecodableDocumentError(
            f"this is neither UTF-8 (byte {first_bad:,} is not) nor text in a known encoding; save it as "
            "UTF-8"
        )
    best = matches[0]
    for match in matches:
        if (
            match.encoding == _USUAL_ENCODING
            and match.chaos <= best.chaos + _CHAOS_ALLOWANCE
            and match.coherence >= best.coherence - _COHERENCE_ALLOWANCE
        ):
            best = match
    confidence = 1.0 - best.chaos
    if confidence < min_confidence or _looks_scrambled(data):
        raise UndecodableDocumentError(
            f"this is not UTF-8 (byte {first_bad:,} is not), and no other encoding is certain "
            f"({best.encoding} at {confidence:.0%}); save it as UTF-8"
        )
    return _USUAL_ENCODING if _reads_alike(data, best.encoding) else best.encoding


def _reads_alike(data: bytes, encoding: str) -> bool:
    """Whether a text is the same in Windows-1252: code pages of related languages share most of their
    letters."""
    try:
        return data.decode(_USUAL_ENCODING) == data.decode(encoding)
    except UnicodeDecodeError:
        return False


def _looks_scrambled(data: bytes) -> bool:
    """Whether the bytes are so evenly distributed that the data must be compressed or encrypted."""
    probe = data[:_PROBE_BYTES]
    if len(probe) < 1024:
        return False
    most_common = Counter(probe).most_common(16)
    # The 16 most common bytes are 6 % of uniformly random data, but over 50 % of text in any encoding.
    return sum(count for _, count in most_common) < 0.25 * len(probe)
