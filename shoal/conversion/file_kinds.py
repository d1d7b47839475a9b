"""The kinds of files that are converted, read as they are, or refused."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file.

    id            stable, for programs
    name          for people, as in "this PDF file"
    suffixes      in lower case, the usual one first
    media_types   the usual one first
    converter     'module:function', imported when a file is converted; None if the text is read as it is
    extra         the extra of the package that has the converter's libraries; None if it needs none
    refusal       why it is not converted and what to do instead; None if it is
    refusal_code  the code of the ConversionError for a refused file
    """

    id: str
    name: str
    suffixes: tuple[str, ...]
    media_types: tuple[str, ...]
    converter: str | None = None
    extra: str | None = None
    refusal: str | None = None
    refusal_code: str = "unsupported"


_HERE = "shoal.conversion."
_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."
_SOURCE_SUFFIXES = (
    ".py .pyi .pyw .js .mjs .cjs .jsx .ts .mts .cts .tsx .java .kt .kts .scala .groovy .c .h .cc .cpp "
    ".cxx .hh .hpp .hxx .m .mm .cs .go .rs .rb .php .swift .dart .lua .pl .pm .r .jl .hs .ml .mli .ex "
    ".exs .erl .clj .cljs .el .lisp .scm .sh .bash .zsh .fish .ps1 .sql .proto .thrift .graphql .f90 "
    ".f95 .pas .vb .zig .nim .v .sv .vhd .css .scss .less .vue .svelte .tf .cmake .gradle .toml .ini "
    ".cfg .yaml .yml .xml .log"
)


def _refused(id: str, name: str, suffixes: str, media_types: str, advice: str) -> FileKind:  # noqa: A002
    return FileKind(
        id, name, tuple(suffixes.split()), tuple(media_types.split()), refusal=f"this is {name}; {advice}"
    )


_SUPPORTED = (
    FileKind("markdown", "Markdown", (".md", ".markdown"), ("text/markdown",)),
    FileKind("text", "plain text", (".txt", ".text"), ("text/plain",)),
    FileKind("pdf", "PDF", (".pdf",), ("application/pdf",), _HERE + "pdf:convert_pdf", "pdf"),
    FileKind(
        "docx",
        "Word",
        (".docx", ".docm", ".dotx"),
        (_OFFICE + "wordprocessingml.document",),
        _HERE + "docx:convert_docx",
    ),
    FileKind(
        "pptx",
        "PowerPoint",
        (".pptx", ".pptm", ".ppsx"),
        (_OFFICE + "presentationml.presentation",),
        _HERE + "pptx:convert_pptx",
    ),
    FileKind(
        "xlsx",
        "Excel",
        (".xlsx", ".xlsm"),
        (_OFFICE + "spreadsheetml.sheet",),
        _HERE + "spreadsheets:convert_xlsx",
    ),
    FileKind(
        "xls",
        "old or binary Excel",
        (".xls", ".xlsb", ".xlt"),
        ("application/vnd.ms-excel", "application/vnd.ms-excel.sheet.binary.macroenabled.12"),
        _HERE + "old_office:convert_workbook",
        "office",
    ),
    FileKind(
        "doc",
        "old Word",
        (".doc", ".dot"),
        ("application/msword",),
        _HERE + "old_office:convert_doc",
    ),
    FileKind(
        "ppt",
        "old PowerPoint",
        (".ppt", ".pps", ".pot"),
        ("application/vnd.ms-powerpoint",),
        _HERE + "old_office:convert_ppt",
    ),
    FileKind(
        "csv",
        "CSV",
        (".csv", ".tsv"),
        ("text/csv", "text/tab-separated-values"),
        _HERE + "delimited:convert_csv",
    ),
    FileKind(
        "opendocument",
        "OpenDocument",
        (".odt", ".ods", ".odp", ".ott"),
        (_OPEN + "text", _OPEN + "spreadsheet", _OPEN + "presentation"),
        _HERE + "opendocument:convert_opendocument",
    ),
    FileKind("rtf", "RTF", (".rtf",), ("application/rtf", "text/rtf"), _HERE + "rtf:convert_rtf"),
    FileKind(
        "html",
        "HTML",
        (".html", ".htm", ".xhtml"),
        ("text/html", "application/xhtml+xml"),
        _HERE + "web_pages:convert_html",
    ),
    FileKind(
        "mhtml",
        "MHTML",
        (".mhtml", ".mht"),
        ("multipart/related", "application/x-mimearchive"),
        _HERE + "web_pages:convert_mhtml",
    ),
    FileKind("epub", "EPUB", (".epub",), ("application/epub+zip",), _HERE + "epub:convert_epub"),
    FileKind("eml", "e-mail", (".eml",), ("message/rfc822",), _HERE + "mail:convert_eml"),
    FileKind(
        "msg",
        "Outlook",
        (".msg",),
        ("application/vnd.ms-outlook",),
        _HERE + "outlook:convert_msg",
        "office",
    ),
    FileKind("mbox", "mailbox", (".mbox",), ("application/mbox",), _HERE + "mail:convert_mbox"),
    FileKind(
        "notebook",
        "Jupyter notebook",
        (".ipynb",),
        ("application/x-ipynb+json",),
        _HERE + "source_code:convert_notebook",
    ),
    FileKind(
        "rst",
        "reStructuredText",
        (".rst", ".rest"),
        ("text/x-rst",),
        _HERE + "restructured_text:convert_rst",
    ),
    FileKind(
        "source",
        "source code",
        tuple(_SOURCE_SUFFIXES.split()),
        ("text/x-source",),
        _HERE + "source_code:convert_source",
    ),
    FileKind(
        "subtitles",
        "subtitles",
        (".vtt", ".srt"),
        ("text/vtt", "application/x-subrip"),
        _HERE + "transcripts:convert_subtitles",
    ),
    FileKind("transcript", "transcript", (), (), _HERE + "transcripts:convert_transcript"),
)

_REFUSED = (
    _refused(
        "image",
        "an image",
        ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .heic .avif .ico .psd .svg",
        "image/png image/jpeg image/gif image/bmp image/tiff image/webp image/heic image/svg+xml",
        "convert it to text by OCR, or to a PDF with text",
    ),
    _refused(
        "audio",
        "an audio file",
        ".mp3 .wav .flac .ogg .oga .opus .m4a .aac .wma .aiff .mid",
        "audio/mpeg audio/wav audio/flac audio/ogg audio/mp4 audio/aac",
        "convert it to a transcript with times, such as VTT or SRT",
    ),
    _refused(
        "video",
        "a video",
        ".mp4 .mkv .webm .avi .mov .wmv .flv .m4v .mpg .mpeg .ogv",
        "video/mp4 video/x-matroska video/webm video/x-msvideo video/quicktime",
        "convert it to a transcript with times, such as VTT or SRT",
    ),
    _refused(
        "old_office",
        "a file of another program of old Office",
        ".pub .vsd .mpp",
        "application/vnd.visio application/vnd.ms-project",
        "convert it to PDF",
    ),
    FileKind(
        "encrypted_office",
        "an Office file with a password",
        (),
        (),
        refusal="this is an Office file with a password; save it without one",
        refusal_code="encrypted",
    ),
    _refused(
        "apple_office",
        "a file of Pages, Numbers or Keynote",
        ".pages .numbers .key",
        "application/x-iwork-pages-sffpages",
        "convert it to DOCX, XLSX, PPTX or PDF",
    ),
    _refused(
        "e_book",
        "an e-book of another format",
        ".mobi .azw .azw3 .djvu .chm .lit",
        "application/x-mobipocket-ebook image/vnd.djvu",
        "convert it to EPUB or PDF",
    ),
    _refused(
        "program",
        "a program or a compiled file",
        ".exe .dll .so .dylib .o .a .class .pyc .wasm .msi .bin .apk .deb .rpm",
        "application/x-executable application/x-msdownload application/wasm",
        "it has no text to convert it to",
    ),
    _refused(
        "archive",
        "an archive",
        ".zip .tar .gz .tgz .bz2 .xz .zst .7z .rar .jar .war .iso .dmg .cab",
        "application/zip application/x-tar application/gzip application/x-7z-compressed application/vnd.rar",
        "unpack it, or convert it to a zip of texts for a bulk upload",
    ),
    _refused(
        "database",
        "a database",
        ".sqlite .sqlite3 .db .mdb .accdb .parquet",
        "application/vnd.sqlite3",
        "convert its tables to CSV",
    ),
    _refused(
        "font", "a font", ".ttf .otf .woff .woff2", "font/ttf font/woff2", "it has no text to convert it to"
    ),
    _refused(
        "binary",
        "a file of unknown type that is not text",
        "",
        "application/octet-stream",
        "convert it to plain text, Markdown or PDF",
    ),
)

FILE_KINDS = MappingProxyType({kind.id: kind for kind in (*_SUPPORTED, *_REFUSED)})
"""All kinds by id."""

KIND_OF_SUFFIX = MappingProxyType({suffix: kind for kind in FILE_KINDS.values() for suffix in kind.suffixes})
"""Kind by extension, in lower case."""

READ_SUFFIXES = tuple(sorted(suffix for suffix, kind in KIND_OF_SUFFIX.items() if kind.refusal is None))
"""Extensions of the kinds that are read or converted."""
