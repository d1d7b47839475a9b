"""Small office files, written part by part."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
)
_RELATION = '<Relationship Id="{}" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/{}" Target="{}"/>'
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_A = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
_S = (
    'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
_O = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in {
        "office": "office",
        "text": "text",
        "table": "table",
        "draw": "drawing",
        "style": "style",
        "presentation": "presentation",
    }.items()
)


def package(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def relations(*rows: tuple[str, str, str]) -> str:
    return _RELATIONS.format("".join(_RELATION.format(*row) for row in rows))


def chart() -> str:
    """A chart of ships by port: two series of three values, one of them missing."""

    def series(name: str, *values: str) -> str:
        ports = "".join(
            f'<c:pt idx="{i}"><c:v>{port}</c:v></c:pt>' for i, port in enumerate(("Oslo", "Bergen"))
        )
        points = "".join(f'<c:pt idx="{i}"><c:v>{v}</c:v></c:pt>' for i, v in enumerate(values) if v)
        return (
            f"<c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>{name}</c:v></c:pt></c:strCache></c:strRef></c:tx>"
            f"<c:cat><c:strRef><c:strCache>{ports}</c:strCache></c:strRef></c:cat>"
            f"<c:val><c:numRef><c:numCache>{points}</c:numCache></c:numRef></c:val></c:ser>"
        )

    title = "<c:title><c:tx><c:rich><a:p><a:r><a:t>Ships by port</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    plot = series("In", "5", "0.30000000000000004") + series("Out", "", "7")
    return f'<c:chartSpace xmlns:c="c" {_A}><c:chart>{title}<c:plotArea>{plot}</c:plotArea></c:chart></c:chartSpace>'


CHART_TEXT = "Ships by port\n\n|  | In | Out |\n| --- | --- | --- |\n| Oslo | 5 |  |\n| Bergen | 0.3 | 7 |"


def diagram(*terms: str) -> str:
    points = "".join(f"<d:pt><d:t><a:p><a:r><a:t>{term}</a:t></a:r></a:p></d:t></d:pt>" for term in terms)
    return f'<d:dataModel xmlns:d="d" {_A}><d:ptLst>{points}</d:ptLst></d:dataModel>'


# Word


def paragraph(text: str, properties: str = "") -> str:
    return f'<w:p><w:pPr>{properties}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def heading(level: int, text: str) -> str:
    return paragraph(text, f'<w:pStyle w:val="H{level}"/>')


def docx(body: str, parts: Mapping[str, str | bytes] | None = None) -> bytes:
    """A Word file with the styles H1, H2 (based on H1) and Contents, list 1 of bullets and list 2 of numbers,
    a footer, footnote 5, and the title "Of Harbours"."""
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{id_}"><w:name w:val="{name}"/>{more}</w:style>'
        for id_, name, more in (
            ("H1", "heading 1", ""),
            ("H2", "heading 2", '<w:basedOn w:val="H1"/>'),
            ("Mine", "My own", '<w:basedOn w:val="H2"/>'),
            ("Contents", "toc 1", ""),
        )
    )
    numbering = (
        '<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl>'
        '<w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>'
        '<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
        '<w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num>'
    )
    return package(
        {
            "_rels/.rels": relations(("r1", "officeDocument", "word/document.xml")),
            "word/_rels/document.xml.rels": relations(
                ("r1", "styles", "styles.xml"),
                ("r2", "numbering", "numbering.xml"),
                ("r3", "footnotes", "footnotes.xml"),
                ("r4", "footer", "footer1.xml"),
            ),
            "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
            "word/styles.xml": f"<w:styles {_W}>{styles}</w:styles>",
            "word/numbering.xml": f"<w:numbering {_W}>{numbering}</w:numbering>",
            "word/footnotes.xml": f'<w:footnotes {_W}><w:footnote w:id="5">{paragraph("Except in winter.")}</w:footnote></w:footnotes>',
            "word/footer1.xml": f"<w:ftr {_W}>{paragraph('Harbour office')}</w:ftr>",
            "docProps/core.xml": '<p:coreProperties xmlns:p="p" xmlns:dc="d"><dc:title>Of Harbours</dc:title></p:coreProperties>',
            **(parts or {}),
        }
    )


# PowerPoint


def shape(kind: str | None, *lines: str, level: int = 0) -> str:
    place = "" if kind is None else f'<p:ph type="{kind}"/>' if kind else "<p:ph/>"
    texts = "".join(f'<a:p><a:pPr lvl="{level}"/><a:r><a:t>{line}</a:t></a:r></a:p>' for line in lines)
    return f"<p:sp><p:nvSpPr><p:nvPr>{place}</p:nvPr></p:nvSpPr><p:txBody>{texts}</p:txBody></p:sp>"


def slide_table(rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(
        "<a:tr>"
        + "".join(f"<a:tc><a:txBody><a:p><a:r><a:t>{c}</a:t></a:r></a:p></a:txBody></a:tc>" for c in row)
        + "</a:tr>"
        for row in rows
    )
    return f"<p:graphicFrame><a:graphic><a:graphicData><a:tbl>{cells}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"


def pptx(
    slides: Sequence[str],
    notes: str = "",
    properties: str = "<p/>",
    parts_of_first: Mapping[str, tuple[str, str]] | None = None,
) -> bytes:
    """A presentation; `notes` belong to the first slide. The order of the show is that of `slides`.

    `parts_of_first`: kind and content of further parts of the first slide, by the ids of their relations.
    """
    n_slides = len(slides)
    ids = "".join(f'<p:sldId id="{256 + i}" r:id="s{i}"/>' for i in range(n_slides))
    parts: dict[str, str | bytes] = {
        "_rels/.rels": relations(("r1", "officeDocument", "ppt/presentation.xml")),
        "docProps/core.xml": properties,
        "ppt/presentation.xml": f"<p:presentation {_A}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
        # The names of the parts are in the opposite order.
        "ppt/_rels/presentation.xml.rels": relations(
            *((f"s{i}", "slide", f"slides/slide{n_slides - i}.xml") for i in range(n_slides))
        ),
        f"ppt/slides/_rels/slide{n_slides}.xml.rels": relations(
            ("n1", "notesSlide", "../notesSlides/n1.xml"),
            *((id_, kind, f"../{id_}.xml") for id_, (kind, _) in (parts_of_first or {}).items()),
        ),
        **{f"ppt/{id_}.xml": content for id_, (_, content) in (parts_of_first or {}).items()},
        "ppt/notesSlides/n1.xml": f"<p:notes {_A}><p:cSld><p:spTree>{notes}</p:spTree></p:cSld></p:notes>",
    }
    for i, slide in enumerate(slides):
        parts[f"ppt/slides/slide{n_slides - i}.xml"] = (
            f"<p:sld {_A}><p:cSld><p:spTree>{slide}</p:spTree></p:cSld></p:sld>"
        )
    return package(parts)


# Excel


def xlsx(
    sheets: Mapping[str, str],
    shared: Sequence[str] = (),
    merged: str = "",
    more: Mapping[str, str | bytes] | None = None,
) -> bytes:
    """A workbook of sheets given as rows in XML. Style 1 is a date, 2 a percentage, 3 a date and time."""
    names = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="s{i}"/>' for i, name in enumerate(sheets))
    parts: dict[str, str | bytes] = {
        "_rels/.rels": relations(("r1", "officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f"<workbook {_S}><sheets>{names}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": relations(
            ("x1", "styles", "styles.xml"),
            ("x2", "sharedStrings", "sharedStrings.xml"),
            *((f"s{i}", "worksheet", f"worksheets/sheet{i}.xml") for i in range(len(sheets))),
        ),
        "xl/styles.xml": f'<styleSheet {_S}><numFmts><numFmt numFmtId="170" formatCode="yyyy\\-mm\\-dd\\ hh:mm"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="9"/><xf numFmtId="170"/></cellXfs></styleSheet>',
        "xl/sharedStrings.xml": f"<sst {_S}>{''.join(f'<si><t>{text}</t></si>' for text in shared)}</sst>",
    }
    for i, rows in enumerate(sheets.values()):
        parts[f"xl/worksheets/sheet{i}.xml"] = (
            f"<worksheet {_S}><sheetData>{rows}</sheetData>{merged}</worksheet>"
        )
    return package({**parts, **(more or {})})


def row(number: int, *cells: str) -> str:
    return f'<row r="{number}">{"".join(cells)}</row>'


def text_cell(reference: str, text: str) -> str:
    return f'<c r="{reference}" t="inlineStr"><is><t>{text}</t></is></c>'


def number_cell(reference: str, value: str, style: int = 0) -> str:
    return f'<c r="{reference}" s="{style}"><v>{value}</v></c>'


# OpenDocument


def opendocument(
    kind: str, body: str, styles: str = "", parts: Mapping[str, str | bytes] | None = None
) -> bytes:
    """A file of `kind` text, presentation or spreadsheet."""
    return package(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {_O}><office:automatic-styles>{styles}</office:automatic-styles>"
            f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>",
            **(parts or {}),
        }
    )
