"""Small PDF files, written object by object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Text(NamedTuple):
    """A line of text; `x` and `y` are in points from the lower left corner of the page."""

    x: float
    y: float
    text: str
    size: float = 10
    bold: bool = False
    turned: bool = False  # reads upwards
    unmapped: bool = False  # in a font that only numbers its glyphs


def prose(
    lines: Sequence[str], x: float = 72, y: float = 700, leading: float = 12, size: float = 10
) -> list[Text]:
    return [Text(x, y - leading * i, line, size) for i, line in enumerate(lines)]


def pdf(
    pages: Sequence[Sequence[Text]],
    *,
    outline: Sequence[tuple[str, int]] = (),
    title: str = "",
    info: str = "",
    xmp: str = "",
    trailer: str = "",
    labels: str = "",
    annotations: Sequence[tuple[int, str]] = (),
) -> bytes:
    """A PDF file; `outline` has titles and indices of pages, `annotations` indices of pages and dictionaries.

    `info`, `labels`: further entries of the document information, and of the catalog; `xmp`: inside the packet.
    """
    n_pages = len(pages)
    objects: dict[int, str] = {
        1: f"<< /Type /Catalog /Pages 2 0 R {labels} {'/Metadata 9 0 R' if xmp else ''} {'/Outlines 6 0 R' if outline else ''} "
        f"/AcroForm << /Fields [{_references(annotations)}] >> >>",
        3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        4: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
        5: f"<< /Title ({title}) {info} >>",
        7: "<< /Type /Font /Subtype /Type0 /BaseFont /ABCDEF+Own /Encoding /Identity-H /DescendantFonts [8 0 R] >>",
        8: "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /ABCDEF+Own /DW 600 "
        "/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
    }
    first = 10
    kids = " ".join(f"{first + 2 * i} 0 R" for i in range(n_pages))
    objects[2] = f"<< /Type /Pages /Kids [{kids}] /Count {n_pages} >>"
    for i, page in enumerate(pages):
        stream = "\n".join(map(_drawn, page))
        objects[first + 2 * i] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {first + 2 * i + 1} 0 R "
            f"/Resources << /Font << /F 3 0 R /B 4 0 R /G 7 0 R >> >> /Annots [{_references(annotations, i)}] >>"
        )
        objects[first + 2 * i + 1] = (
            f"<< /Length {len(stream.encode('cp1252'))} >>\nstream\n{stream}\nendstream"
        )
    if xmp:
        packet = f"<?xpacket begin='' id='W5M0MpCehiHzreSzNTczkc9d'?>{xmp}<?xpacket end='w'?>"
        objects[9] = f"<< /Type /Metadata /Subtype /XML /Length {len(packet)} >>\nstream\n{packet}\nendstream"
    if outline:
        at = first + 2 * n_pages
        last = at + len(outline) - 1
        objects[6] = f"<< /Type /Outlines /First {at} 0 R /Last {last} 0 R /Count {len(outline)} >>"
        for i, (name, page_index) in enumerate(outline):
            following = f"/Next {at + i + 1} 0 R" if at + i < last else ""
            before = f"/Prev {at + i - 1} 0 R" if i else ""
            objects[at + i] = (
                f"<< /Title ({_escaped(name)}) /Parent 6 0 R {following} {before} "
                f"/Dest [{first + 2 * page_index} 0 R /Fit] >>"
            )
    for i, (_, dictionary) in enumerate(annotations):
        objects[_FIRST_ANNOTATION + i] = f"<< /Type /Annot {dictionary} >>"
    out = bytearray(b"%PDF-1.7\n")
    offsets: dict[int, int] = {}
    for number in sorted(objects):
        offsets[number] = len(out)
        out += f"{number} 0 obj\n{objects[number]}\nendobj\n".encode("cp1252")
    start = len(out)
    size = max(objects) + 1
    out += f"xref\n0 {size}\n0000000000 65535 f \n".encode()
    for number in range(1, size):
        entry = f"{offsets[number]:010} 00000 n \n" if number in offsets else "0000000000 00000 f \n"
        out += entry.encode()
    out += (
        f"trailer\n<< /Size {size} /Root 1 0 R /Info 5 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n".encode()
    )
    return bytes(out)


def _drawn(text: Text) -> str:
    """The operators that draw a line."""
    font = "G" if text.unmapped else "B" if text.bold else "F"
    matrix = "0 1 -1 0" if text.turned else "1 0 0 1"
    glyphs = "".join(f"{ord(char) - 29:04x}" for char in text.text)
    string = f"<{glyphs}>" if text.unmapped else f"({_escaped(text.text)})"
    return f"BT /{font} {text.size} Tf {matrix} {text.x} {text.y} Tm {string} Tj ET"


_FIRST_ANNOTATION = 100_000


def _references(annotations: Sequence[tuple[int, str]], page: int | None = None) -> str:
    """Those of a page, or those of all pages that are fields of a form."""
    return " ".join(
        f"{_FIRST_ANNOTATION + i} 0 R"
        for i, (at, dictionary) in enumerate(annotations)
        if (at == page if page is not None else "/FT" in dictionary)
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


ENCRYPTED = (
    f"/ID [<{'00' * 16}> <{'00' * 16}>] "
    f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'11' * 32}> /U <{'22' * 32}> >>"
)
"""A trailer that asks for a password."""
