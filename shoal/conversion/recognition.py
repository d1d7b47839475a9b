"""Recognition of the kind of a file: by its content first, by the extension of its name second.

Transcripts are recognised by their times: `[00:01:05] text`, `01:05 - 01:18 text`, `Ann (01:05): text`,
headings of frames.
"""

from __future__ import annotations

import codecs
import re
from itertools import pairwise
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple

from shoal.conversion.file_kinds import FILE_KINDS, KIND_OF_SUFFIX, FileKind
from shoal.support.plain_text import words_of

HEAD_BYTES = 64 * 1024
"""Enough of a file's beginning to recognise it. Only Office files that were written in an unusual order need
the end as well."""

_TAIL_BYTES = 256 * 1024  # of the directory at the end of a zip
_PDF_WITHIN = 1024  # bytes before the header that readers of PDF accept

_SIGNATURES = (
    (b"{\\rtf", "rtf"),
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF87a", "image"),
    (b"GIF89a", "image"),
    (b"II*\x00", "image"),
    (b"MM\x00*", "image"),
    (b"8BPS", "image"),
    (b"\x00\x00\x01\x00", "image"),
    (b"ID3", "audio"),
    (b"fLaC", "audio"),
    (b"MThd", "audio"),
    (b"\xff\xfb", "audio"),
    (b"\xff\xf3", "audio"),
    (b"\xff\xf1", "audio"),
    (b"OggS", "audio"),
    (b"\x1aE\xdf\xa3", "video"),
    (b"\x00\x00\x01\xba", "video"),
    (b"FLV\x01", "video"),
    (b"\x7fELF", "program"),
    (b"\xca\xfe\xba\xbe", "program"),
    (b"\xcf\xfa\xed\xfe", "program"),
    (b"\x00asm", "program"),
    (b"\x1f\x8b", "archive"),
    (b"BZh", "archive"),
    (b"\xfd7zXZ\x00", "archive"),
    (b"\x28\xb5\x2f\xfd", "archive"),
    (b"7z\xbc\xaf\x27\x1c", "archive"),
    (b"Rar!\x1a\x07", "archive"),
    (b"MSCF", "archive"),
    (b"SQLite format 3\x00", "database"),
    (b"PAR1", "database"),
    (b"\x00\x01\x00\x00\x00", "font"),
    (b"OTTO\x00", "font"),
    (b"wOFF", "font"),
    (b"wOF2", "font"),
    (b"AT&TFORM", "e_book"),
    (b"ITSF", "e_book"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Streams of compound files, by which their programs are known; some write the names in capitals.
_OLE_STREAMS = tuple(
    (name.lower().encode("utf-16-le"), kind)
    for name, kind in (
        ("EncryptedPackage", "encrypted_office"),
        ("__nameid_version1.0", "msg"),
        ("__properties_version1.0", "msg"),
        ("WordDocument", "doc"),
        ("PowerPoint Document", "ppt"),
        ("Workbook", "xls"),
        ("Book\0", "xls"),
    )
)
_OLE_SECTOR_SHIFTS = range(7, 17)
_OLE_DIRECTORY_BYTES = 16 * 1024
_RIFF_KINDS = {b"WAVE": "audio", b"AVI ": "video", b"WEBP": "image"}
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_ZIP_END = b"PK\x05\x06"
_OFFICE_MEMBER = b"[Content_Types].xml"
_ZIP_MEMBERS = (
    (b"word/document.xml", "docx"),
    (b"ppt/presentation.xml", "pptx"),
    (b"xl/workbook.xml", "xlsx"),
    (b"META-INF/container.xml", "epub"),
    (b"Index/Document.iwa", "apple_office"),
    (b"xl/workbook.bin", "xls"),
)
_OPENDOCUMENT_MEMBERS = (b"content.xml", b"META-INF/manifest.xml")
_ZIP_CONTAINERS = frozenset({"docx", "pptx", "xlsx", "xls", "epub", "opendocument", "apple_office"})

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_CONTROL_BYTES = bytes([*range(7), *range(14, 27), *range(28, 32)])
_MAX_CONTROL_SHARE = 0.02
_STRAY_CONTROLS = 8

_XML_DECLARATION = re.compile(r"<\?xml[^>]{0,500}>\s*")
_HTML = re.compile(r"<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_HTML_PART = re.compile(r"<(?:head|body|title|meta|link)\b[^<]*+<", re.IGNORECASE)
_NOT_SPACE = re.compile(r"\S")
_MAIL_HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]{1,60}):[^\r\n]*+(?:\r?\n[ \t]++[^\r\n]*+)*(?:\r?\n|\Z)")
_MAIL_NAMES = words_of(
    "from to cc subject date message-id mime-version received return-path delivered-to content-type reply-to"
)
_MAIL_CERTAIN = frozenset({"message-id", "mime-version", "received", "return-path", "delivered-to"})
_MAX_MAIL_HEADERS = 200
_MBOX = re.compile(r"From [^\r\n]{1,200}\d{4}\r?\n(?=[A-Za-z-]{2,60}:)")
_SRT = re.compile(r"\s*+(?:\d+[ \t]*+\r?\n)?\d{1,3}:\d\d:\d\d[,.]\d{1,3}[ \t]*+-->[ \t]*+\d")
_NOTEBOOK_SIGNS = (b'"nbformat"', b'"cells"')
_SHEBANG = re.compile(r"#![^\r\n]*\b(?:python|node|ruby|perl|php|lua|sh|bash|zsh|fish|Rscript)")
_TEXT_IDS = frozenset({"markdown", "text"})
_BINARY_IDS = _ZIP_CONTAINERS | {"pdf", "rtf", "doc", "msg", "ppt"}


def suffix_of(name: str) -> str:
    """Return the extension of a path of any system, in lower case; empty if it has none."""
    return PurePosixPath(PureWindowsPath(name).name).suffix.lower()


def recognise(data: bytes, name: str) -> FileKind:
    """Return the kind of a file. `data`: the file, or at least its first HEAD_BYTES.

    Takes time for at most 400 KiB of the data, and for the name of one key in a JSON file.
    """
    by_suffix = KIND_OF_SUFFIX.get(suffix_of(name))
    kind_id = _binary_kind(data, by_suffix)
    if kind_id is None:
        text = _head_text(data[:HEAD_BYTES])
        kind_id = _unknown_kind(by_suffix) if text is None else _text_kind(data, text, by_suffix)
    return FILE_KINDS[kind_id]


def _binary_kind(data: bytes, by_suffix: FileKind | None) -> str | None:
    """Return the id of a kind with a signature; None for what may be text."""
    if b"%PDF-" in data[:_PDF_WITHIN]:
        return "pdf"
    if data.startswith(_ZIP):
        return _zip_kind(data, by_suffix)
    if data.startswith(_OLE):
        return _ole_kind(data, by_suffix)
    if data[:2] == b"MZ" and b"\x00" in data[:64]:
        return "program"
    if data[4:8] == b"ftyp":
        return {b"M4A ": "audio", b"heic": "image", b"avif": "image", b"mif1": "image"}.get(
            data[8:12], "video"
        )
    if data[:4] == b"RIFF" and data[8:12] in _RIFF_KINDS:
        return _RIFF_KINDS[data[8:12]]
    if data[60:68] == b"BOOKMOBI":
        return "e_book"
    if data[257:262] == b"ustar":
        return "archive"
    return next((kind for signature, kind in _SIGNATURES if data.startswith(signature)), None)


def _ole_kind(data: bytes, by_suffix: FileKind | None) -> str:
    """Return the id of a kind that is a compound file: streams of a document tell it, else the name."""
    shift = int.from_bytes(data[30:32], "little")
    first = (int.from_bytes(data[48:52], "little") + 1) << (shift if shift in _OLE_SECTOR_SHIFTS else 9)
    names = data[first : first + _OLE_DIRECTORY_BYTES] + data[:_TAIL_BYTES] + data[-_TAIL_BYTES:]
    names = names.lower()
    kinds = {kind: place for name, kind in reversed(_OLE_STREAMS) if (place := names.find(name)) >= 0}
    # A document may embed others, whose streams come later; those of a large file may be anywhere.
    if by_suffix is not None and by_suffix.id in (kinds or ("doc", "msg", "ppt", "xls")):
        return by_suffix.id
    return min(kinds, key=kinds.__getitem__, default="old_office")


def _unknown_kind(by_suffix: FileKind | None) -> str:
    """Return the id of what is no text and has no signature: what its name says, if that is no text."""
    if by_suffix is not None and (by_suffix.refusal or by_suffix.id in _BINARY_IDS):
        return by_suffix.id
    return "binary"


def _zip_kind(data: bytes, by_suffix: FileKind | None) -> str:
    """Return the id of a kind that is a zip with certain members."""
    # The first member of EPUB and OpenDocument should be stored and have the media type.
    if data[30:38] == b"mimetype":
        if data.startswith(b"application/epub+zip", 38):
            return "epub"
        if data.startswith(b"application/vnd.oasis.opendocument.", 38):
            return "opendocument"
    names = data[:HEAD_BYTES] + data[-_TAIL_BYTES:]
    if all(member in names for member in _OPENDOCUMENT_MEMBERS):
        return "opendocument"
    for member, kind in _ZIP_MEMBERS:
        if member in names:
            return kind
    # Without its end, or with a part of another name, the file is what its name says.
    may_be_office = _ZIP_END not in names or _OFFICE_MEMBER in names
    is_named = by_suffix is not None and by_suffix.id in _ZIP_CONTAINERS
    return by_suffix.id if by_suffix is not None and is_named and may_be_office else "archive"


def _head_text(head: bytes) -> str | None:
    """Return the beginning as text, any byte as a character unless it is Unicode; None if it is no text."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return head[len(mark) :].decode(encoding, "replace")
    half = len(head) // 2
    if half and head[1::2].count(0) > 0.7 * half and not head[::2].count(0):
        return head.decode("utf-16-le", "replace")
    if half and head[::2].count(0) > 0.7 * half and not head[1::2].count(0):
        return head.decode("utf-16-be", "replace")
    controls = len(head) - len(head.translate(None, _CONTROL_BYTES))
    if controls > _STRAY_CONTROLS and controls > _MAX_CONTROL_SHARE * len(head):
        return None
    return head.decode("utf-8", "replace")


def _text_kind(data: bytes, text: str, by_suffix: FileKind | None) -> str:
    """Return the id of a kind of text."""
    suffix_id = by_suffix.id if by_suffix is not None else None
    # Code may contain any other format, and does so in tests.
    if suffix_id in ("source", "rst", "csv"):
        return suffix_id
    certain = _certain_text_kind(data, text)
    if certain is not None:
        return certain
    if _has_mail_headers(text, certain=suffix_id != "eml" and suffix_id != "mhtml"):
        is_page = "multipart/related" in text and (
            "Snapshot-Content-Location:" in text or suffix_id == "mhtml"
        )
        return "mhtml" if is_page else "eml"
    if suffix_id is None or suffix_id in _TEXT_IDS:
        if looks_timed(text):
            return "transcript"
        if suffix_id is None and _SHEBANG.match(text):
            return "source"
        return suffix_id or "text"
    is_drawing = suffix_id == "image" and "<svg" in text
    if (suffix_id in _BINARY_IDS or FILE_KINDS[suffix_id].refusal) and text.strip() and not is_drawing:
        return "text"  # the name is wrong: these kinds are no text
    return suffix_id


def _certain_text_kind(data: bytes, text: str) -> str | None:
    """Return the id of a kind of text that begins in its own way."""
    if text.startswith("WEBVTT") and not text[6:7].strip():
        return "subtitles"
    if _SRT.match(text):
        return "subtitles"
    if text.lstrip()[:1] == "{" and all(sign in data for sign in _NOTEBOOK_SIGNS):
        return "notebook"
    if _MBOX.match(text):
        return "mbox"
    start = _without_comments(text)
    if _HTML.match(text, start) or _HTML_PART.match(text, start):
        return "html"
    return None


def _without_comments(text: str) -> int:
    """Return where a page begins behind white space, the declaration of XML and comments."""
    at = len(text) - len(text.lstrip())
    declaration = _XML_DECLARATION.match(text, at)
    at = declaration.end() if declaration else at
    while text.startswith("<!--", at):
        end = text.find("-->", at)
        if end < 0:
            break
        following = _NOT_SPACE.search(text, end + 3)
        at = following.start() if following else len(text)
    return at


def _has_mail_headers(text: str, *, certain: bool) -> bool:
    """Whether a text begins with the lines of a message; `certain`: with those that only programs write."""
    at = 0
    names: set[str] = set()
    for _ in range(_MAX_MAIL_HEADERS):
        match = _MAIL_HEADER.match(text, at)
        if match is None:
            break
        names.add(match.group(1).lower())
        at = match.end()
    is_ended = at >= len(text) or text[at : at + 2] == "\r\n" or text[at] == "\n"
    known = names & _MAIL_NAMES
    return is_ended and len(known) >= 2 and (not certain or bool(names & _MAIL_CERTAIN))


_TIME = r"(?:(\d{1,3}):)?([0-5]?\d):([0-5]\d)(?:[.,](\d{1,3}))?(?!\d|:\d)"
_DASH = r"[ \t]*+(?:-->|--|-|–|—|to)[ \t]*+"
_TIMES = rf"{_TIME}(?:{_DASH}{_TIME})?"
_AT_START = re.compile(
    rf"[ \t]*+(?:[-*][ \t]++)?(?:[\[(][ \t]*+)?{_TIMES}(?:[ \t]*+[\])])?"
    r"(?:[ \t]*+[:-](?=\s)|(?=\s|\Z|[^\w.,]))[ \t]*+"
)
_AFTER_NAME = re.compile(
    r"[ \t]*+([^\W\d_][^\r\n:\[\]()<>|]{0,60}?)"
    rf"(?:[ \t]*[\[(][ \t]*{_TIMES}[ \t]*[\])](?::|(?=\s|\Z))|:?[ \t]+{_TIME}(?=[ \t]*\Z))[ \t]*"
)
FRAME_HEADING = re.compile(
    rf"#{{1,6}}[ \t]+(?:Visual[ \t]+)?Frame[ \t]+at[ \t]+{_TIMES}[ \t:]*\Z", re.IGNORECASE
)
_RANGE = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}")

_MAX_LINE_CHARS = 400
"""A time is looked for in so many characters of a line."""
_PROBE_LINES = 400
_MIN_TIMED_LINES = 3
_MIN_TIMED_SHARE = 0.3
_MAX_STEPS_BACK = 0.1


class TimedLine(NamedTuple):
    """A line that begins with a time. `end` is None if the line has none; `speaker` may be empty."""

    start: float
    end: float | None
    speaker: str
    text: str


def read_timed_line(line: str) -> TimedLine | None:
    """Read a line of a transcript; None if it has no time at its start or after a name."""
    head = line[:_MAX_LINE_CHARS]
    if ":" not in head:
        return None
    match = _AT_START.match(head)
    if match:
        start, end = seconds(*match.group(1, 2, 3, 4)), _end(match.group(5, 6, 7, 8))
        return TimedLine(start, _after(start, end), "", line[match.end() :].strip())
    match = _AFTER_NAME.match(head)
    if match is None:
        return None
    groups = match.groups()
    in_brackets = groups[2] is not None
    start = seconds(*(groups[1:5] if in_brackets else groups[9:13]))
    end = _end(groups[5:9]) if in_brackets else None
    return TimedLine(start, _after(start, end), match.group(1).strip(), line[match.end() :].strip())


def read_range(line: str) -> tuple[float, float] | None:
    """Read a line such as `00:01:05.000 --> 00:01:18.000`, as subtitles have it."""
    match = _RANGE.match(line[:_MAX_LINE_CHARS])
    if match is None:
        return None
    start = seconds(*match.group(1, 2, 3, 4))
    return start, max(start, seconds(*match.group(5, 6, 7, 8)))


def read_frame_heading(line: str) -> tuple[float, float] | None:
    """Read `## Frame at 00:01:04` or `# Visual Frame at 00:01:04`; a frame without an end has none."""
    match = FRAME_HEADING.match(line[:_MAX_LINE_CHARS])
    if match is None:
        return None
    start = seconds(*match.group(1, 2, 3, 4))
    end = _end(match.group(5, 6, 7, 8))
    return start, start if end is None else max(start, end)


def looks_timed(text: str) -> bool:
    """Whether the beginning of a text is a transcript: times that grow, or headings of frames."""
    lines = [line for line in text.split("\n", _PROBE_LINES)[:_PROBE_LINES] if line.strip()]
    if any(read_frame_heading(line.rstrip()) for line in lines):
        return True
    starts = [timed.start for line in lines if (timed := read_timed_line(line.rstrip()))]
    if len(starts) < _MIN_TIMED_LINES or len(starts) < _MIN_TIMED_SHARE * len(lines):
        return False
    steps_back = sum(later < earlier for earlier, later in pairwise(starts))
    return steps_back <= _MAX_STEPS_BACK * len(starts)


def seconds(hours: str | None, minutes: str, secs: str, fraction: str | None) -> float:
    """Return the seconds of a time given by its digits."""
    thousandths = int(fraction.ljust(3, "0")) if fraction else 0
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(secs) + thousandths / 1000


def _end(groups: tuple[str | None, ...]) -> float | None:
    hours, minutes, secs, fraction = groups
    return seconds(hours, minutes, secs, fraction) if minutes and secs else None


def _after(start: float, end: float | None) -> float | None:
    return end if end is not None and end >= start else None
