"""Bytes of a file to text: by the declared encoding if it fits, else by what the bytes look like."""

from __future__ import annotations

import codecs
import re

from shoal.conversion.converted import ConversionError
from shoal.errors import DocumentError
from shoal.formats.decoding import clean, decode

_MIN_CONFIDENCE = 0.5
# Encodings that browsers read as others, which contain them.
_WIDER = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
}
_NO_TEXT_CODECS = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7"}
)
_META = re.compile(rb"<meta[^>]{0,200}?charset[ \t\r\n]*+=[ \t\r\n]*+[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding[ \t\r\n]*=[ \t\r\n]*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_DECLARATION_BYTES = 4096
_HIGH_BYTES = bytes(range(128, 256))
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode_text(data: bytes, declared: str | None = None) -> str:
    """Return the text of bytes in the declared encoding, else UTF-8, else the likeliest one.

    Characters that text cannot have are blanks, line ends are newlines. Raises ConversionError.
    """
    encoding = known_encoding(declared)
    if encoding and encoding != "utf-8" and not data.startswith(_MARKS):
        text = data.decode(encoding, "replace")
    else:
        text = _nearly_utf8(data) or ""
        try:
            text = text or decode(data, max_bytes=len(data), min_confidence=_MIN_CONFIDENCE).text
        except DocumentError as error:
            if not encoding:
                raise ConversionError("broken", str(error)) from None
            text = data.decode(encoding, "replace")
    return clean(text).replace("\r\n", "\n").replace("\r", "\n")


def decode_markup(data: bytes, declared: str | None = None) -> str:
    """Return the text of HTML or XML. A byte order mark comes first, then `declared`, then what it says."""
    if declared is None:
        head = data[:_DECLARATION_BYTES]
        match = _META.search(head) or _XML.match(head.lstrip())
        declared = match.group(1).decode("ascii") if match else None
        # A declaration that can be read as ASCII is not in an encoding of two bytes.
        if declared and declared.lower().startswith(("utf-16", "utf-32", "ucs")):
            declared = "utf-8"
    return decode_text(data, declared)


def _nearly_utf8(data: bytes) -> str | None:
    """Return UTF-8 with a few damaged bytes, such as a last character that was cut; else None."""
    if b"\x00" in data[:1000]:
        return None
    text = data.decode("utf-8", "replace")
    n_damaged = text.count("\ufffd")
    if not n_damaged:
        return None
    n_ascii = len(data.translate(None, _HIGH_BYTES))
    return text if 10 * n_damaged <= len(text) - n_ascii - n_damaged else None


def known_encoding(name: str | None) -> str | None:
    """Return Python's name of an encoding of text, or None."""
    if not name or not name.isascii():
        return None
    try:
        codec = codecs.lookup(name.strip())
    except (LookupError, ValueError):
        return None
    if not codec._is_text_encoding or codec.name in _NO_TEXT_CODECS:
        return None
    return _WIDER.get(codec.name, codec.name)
