"""Damaged office files and PDF end as text or as one error with a code, in bounded time."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator

import pytest
from converters import (
    convert_csv,
    convert_docx,
    convert_opendocument,
    convert_pdf,
    convert_pptx,
    convert_rtf,
    convert_xlsx,
)
from office_files import (
    docx,
    heading,
    number_cell,
    opendocument,
    package,
    paragraph,
    pptx,
    row,
    shape,
    slide_table,
    text_cell,
    xlsx,
)
from pdf_files import Text, pdf, prose
from sample_files import assert_says_what_to_do

from shoal.conversion.converted import ConversionError, Converted, Converter
from shoal.conversion.package import Package

CODES = frozenset(["encrypted", "broken", "no_text", "too_large", "unsupported"])
N_DAMAGED = 100
MAX_SECONDS = 5.0
"""Processor time of one file; the slowest take a hundredth of it."""

_TABLE = (
    '<table:table table:name="S"><table:table-row table:number-rows-repeated="2"><table:table-cell table:number-columns-repeated="2" '
    'table:number-rows-spanned="2" office:value-type="float" office:value="1.5"><text:p>1.5</text:p></table:table-cell>'
    "<table:covered-table-cell/></table:table-row></table:table>"
)
SAMPLES: dict[str, tuple[Converter, bytes]] = {
    "a.pdf": (
        convert_pdf,
        pdf(
            [
                [
                    Text(72, 750, "Harbours", 20),
                    *prose(["Ships arrive at dawn and leave at", "dusk, if the wind al-", "lows it."]),
                ],
                [Text(x, 700 - 14 * y, f"cell {x} {y}") for y in range(4) for x in (72, 200, 320)],
            ],
            outline=[("Harbours", 0), ("Tables", 1)],
            title="Of Harbours",
        ),
    ),
    "a.docx": (
        convert_docx,
        docx(
            heading(1, "Arrivals")
            + paragraph("one", '<w:numPr><w:ilvl w:val="1"/><w:numId w:val="2"/></w:numPr>')
            + f'<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{paragraph("a")}</w:tc><w:tc>{paragraph("b")}</w:tc></w:tr></w:tbl>'
            + '<w:p><w:r><w:t>Text.</w:t><w:footnoteReference w:id="5"/></w:r></w:p>'
        ),
    ),
    "a.pptx": (
        convert_pptx,
        pptx(
            [
                shape("title", "Arrivals") + shape("body", "one", "two", level=1),
                slide_table([["a", "b"], ["1", "2"]]),
            ],
            notes=shape("body", "Slowly."),
        ),
    ),
    "a.xlsx": (
        convert_xlsx,
        xlsx(
            {
                "Port": row(1, text_cell("A1", "Ship"), text_cell("B1", "Load"))
                + row(2, '<c r="A2" t="s"><v>0</v></c>', number_cell("B2", "45292.5", 3))
                + row(3, number_cell("B3", "0.25", 2))
            },
            shared=["Anna"],
            merged='<mergeCells><mergeCell ref="A2:A3"/></mergeCells>',
        ),
    ),
    "a.odt": (
        convert_opendocument,
        opendocument(
            "text", f'<text:h text:outline-level="1">A</text:h><text:p>b<text:s text:c="2"/></text:p>{_TABLE}'
        ),
    ),
    "a.ods": (convert_opendocument, opendocument("spreadsheet", _TABLE)),
    "a.odp": (
        convert_opendocument,
        opendocument(
            "presentation",
            '<draw:page><draw:frame presentation:class="title"><text:p>A</text:p></draw:frame></draw:page>',
        ),
    ),
    "a.rtf": (
        convert_rtf,
        (
            rb"{\rtf1\ansi{\fonttbl{\f1\fcharset204 A;}}{\stylesheet{\s1 heading 1;}}\pard\s1 Arrivals\par\pard{\f1\'cf\'f0} \u1488?"
            rb"{\footnote x}\par\trowd\intbl a\cell b\cell\row\pard{\pict\bin4 abcd}\ls1{\listtext 3.\tab}three\par}"
        ),
    ),
    "a.csv": (convert_csv, 'Ship;Load\n"Anna ""B""";12\nÄgir;7\n'.encode()),
}


def convert(name: str, data: bytes) -> Converted | ConversionError:
    """Convert a file, and check what every result must have."""
    converter, _ = SAMPLES[name]
    started = time.process_time()
    try:
        converted = converter(data, name)
    except ConversionError as error:
        refused = error
    else:
        refused = None
    finally:
        assert time.process_time() - started < MAX_SECONDS
    if refused is not None:
        assert refused.code in CODES
        assert_says_what_to_do(refused)
        return refused
    assert converted.content.strip()
    assert converted.content.encode()
    at = 0
    for place in converted.locators:
        assert at <= place.start_char < place.end_char <= len(converted.content)
        assert place.first <= place.last
        at = place.end_char
    assert all(len(removed.text) <= 200 and removed.times > 0 for removed in converted.removed)
    return converted


@pytest.mark.parametrize("name", SAMPLES)
def test_a_whole_file_converts_without_warnings(name: str) -> None:
    converted = convert(name, SAMPLES[name][1])
    assert isinstance(converted, Converted)
    assert not converted.warnings


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_that_is_cut_is_text_or_an_error(name: str) -> None:
    data = SAMPLES[name][1]
    for tenth in range(10):
        convert(name, data[: len(data) * tenth // 10])


@pytest.mark.parametrize("name", SAMPLES)
def test_flipped_bits_are_text_or_an_error(name: str) -> None:
    data = SAMPLES[name][1]
    for seed in range(N_DAMAGED):
        chance = random.Random(f"{name} {seed}")
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 3, 30))):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        convert(name, bytes(damaged))


@pytest.mark.parametrize("name", [name for name, (_, data) in SAMPLES.items() if data.startswith(b"PK")])
def test_wrong_values_in_valid_xml_are_text_or_an_error(name: str) -> None:
    """Most flipped bits end at the checksum of the zip file; these come further."""
    data = SAMPLES[name][1]
    whole = Package(data)
    parts = {part: whole.read(part).decode() for part in whole.names()}
    n_converted = 0
    for seed in range(N_DAMAGED):
        chance = random.Random(f"{name} {seed}")
        changed = {part: changes(chance, text) for part, text in parts.items()}
        n_converted += isinstance(convert(name, package(changed)), Converted)
    assert n_converted > N_DAMAGED / 10


_VALUES = (
    "",
    "-1",
    "0",
    "99999999999999999999",
    "1e999",
    "nan",
    "x",
    "A1:ZZZ9999999",
    "../../x",
    "true",
    "\U0001f600",
)


def changes(chance: random.Random, text: str) -> str:
    """Return XML with a few other values of attributes, texts and elements in other places."""

    def other(match: re.Match[str]) -> str:
        return (
            f'="{chance.choice(_VALUES)}"'
            if chance.random() < 0.05 and "xmlns" not in match.group()
            else match.group()
        )

    text = re.sub(r'(?<!xmlns)="[^":/]*"', other, text)
    text = re.sub(
        r">[^<>]+<", lambda m: f">{chance.choice(_VALUES)}<" if chance.random() < 0.05 else m.group(), text
    )
    elements = re.findall(r"<([\w:]+)[^<>]*>[^<>]*</\1>", text)
    if elements and chance.random() < 0.3:
        # One element inside of itself, several times.
        name = chance.choice(elements)
        text = re.sub(rf"(<{name}\b[^<>/]*>)([^<>]*)(</{name}>)", r"\1\1\2\3\3", text)
    return text


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_of_another_format_is_an_error(name: str) -> None:
    for other, (_, data) in SAMPLES.items():
        if other.endswith(name[-3:]) or (other[:4] == "a.od" == name[:4]):
            continue
        result = convert(name, data)
        # A table may be any text.
        assert isinstance(result, ConversionError) or name == "a.csv"


def worst_cases(n: int) -> Iterator[tuple[str, bytes]]:
    """Files of about `n` characters that are slow for careless readers."""
    yield "a.rtf", b"{\\rtf1 " + b"{}" * (n // 2) + b"x}"
    yield "a.rtf", b"{\\rtf1 " + b"\\u1488 ?" * (n // 8) + b"}"
    yield "a.rtf", b"{\\rtf1 " + b"\\'" * (n // 2) + b"}"
    yield "a.rtf", b"{\\rtf1 " + b"a{\\footnote b}" * (n // 14) + b"}"
    yield "a.rtf", b"{\\rtf1 \\intbl " + b"\\cell\\row x" * (n // 11) + b"}"
    yield "a.csv", b'"' * n
    yield "a.csv", b'","' * (n // 3)
    yield "a.csv", b"a," * (n // 2)
    yield "a.csv", b"a\n" * (n // 2)
    yield "a.docx", docx(paragraph("- " * (n // 2)))
    yield "a.docx", docx("<w:p/>" * (n // 6) + paragraph("x"))
    yield "a.docx", docx('<w:p><w:r><w:footnoteReference w:id="5"/></w:r></w:p>' * (n // 60))
    yield "a.docx", docx(f"<w:tbl>{f'<w:tr><w:tc>{paragraph(chr(120))}</w:tc></w:tr>' * (n // 90)}</w:tbl>")
    yield "a.xlsx", xlsx({"S": row(1, *("<c><v>1</v></c>" for _ in range(n // 15)))})
    yield (
        "a.xlsx",
        xlsx({"S": row(1, text_cell("A1", "x"))}, merged='<mergeCell ref="A1:A999999"/>' * (n // 40)),
    )
    yield "a.pptx", pptx(["<p:grpSp>" + shape(None, "x") * (n // 150) + "</p:grpSp>"])
    yield "a.ods", opendocument("spreadsheet", _TABLE * (n // 300))
    yield (
        "a.odt",
        opendocument(
            "text",
            "<text:list><text:list-item>" * 300
            + "<text:p>x</text:p>"
            + "</text:list-item></text:list>" * 300,
        ),
    )
    yield "a.pdf", pdf([[Text(72, 700, "x " * (n // 2))]])
    yield "a.pdf", pdf([[Text(i % 600, i // 600, "x") for i in range(0, n, 40)]])
    yield (
        "a.pdf",
        pdf([prose([f"{i}. x" for i in range(n // 60)], leading=0.1)], outline=[("1. x", 0)] * (n // 100)),
    )
    yield "a.pdf", pdf([prose(["Contents", *["x 1"] * (n // 60)], leading=1)])


@pytest.mark.parametrize("case", list(worst_cases(300_000)), ids=lambda case: case[0])
def test_the_time_for_the_worst_characters_is_bounded(case: tuple[str, bytes]) -> None:
    convert(*case)
