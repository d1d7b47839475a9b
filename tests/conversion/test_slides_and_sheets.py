"""Slides and spreadsheets become sections whose places are slides and rows."""

from __future__ import annotations

import pytest
from converters import convert_csv, convert_html, convert_opendocument, convert_pptx, convert_xlsx
from office_files import (
    CHART_TEXT,
    chart,
    diagram,
    number_cell,
    opendocument,
    pptx,
    relations,
    row,
    shape,
    slide_table,
    text_cell,
    xlsx,
)

from shoal.conversion import spreadsheets
from shoal.conversion.converted import ConversionError, Converted
from shoal.conversion.spreadsheets import MAX_CELLS, MAX_ROWS_OF_PLACE
from shoal.models.files import LocatorKind


def places(converted: Converted) -> list[tuple[str, str, float, float, str]]:
    return [
        (
            place.kind.value,
            place.name,
            place.first,
            place.last,
            converted.content[place.start_char : place.end_char],
        )
        for place in converted.locators
    ]


# Slides


def test_slides_come_in_the_order_of_the_show_with_titles_lists_tables_and_notes() -> None:
    slides = [
        shape("title", "Arrivals") + shape("body", "one", "two") + shape("sldNum", "1"),
        shape(None, "A box of text") + slide_table([["Ship", "Load"], ["Anna", "12"]]),
    ]
    notes = shape("body", "Speak") + shape(None, "slowly.") + shape("sldNum", "1") + shape("hdr", "Ships")
    converted = convert_pptx(pptx(slides, notes=notes), "a.pptx")
    assert places(converted) == [
        ("slide", "Arrivals", 1, 1, "# Arrivals\n\n- one\n- two\n\nNotes: Speak\n\nslowly."),
        ("slide", "", 2, 2, "# Slide 2\n\nA box of text\n\n| Ship | Load |\n| --- | --- |\n| Anna | 12 |"),
    ]
    assert [tuple(removed) for removed in converted.removed] == [
        ("page number", "1", 2),
        ("repeated header", "Ships", 1),
    ]


def test_groups_are_opened_and_empty_slides_have_no_place() -> None:
    slides = ["<p:grpSp>" + shape(None, "Inside") + "</p:grpSp>", "", shape("ctrTitle", "שלום")]
    converted = convert_pptx(pptx(slides), "a.pptx")
    assert converted.content == "# Slide 1\n\nInside\n\n# שלום\n"
    assert [place.first for place in converted.locators] == [1, 3]


def test_a_slide_has_its_charts_diagrams_comments_and_merged_cells() -> None:
    frame = "<p:graphicFrame><a:graphic><a:graphicData>{}</a:graphicData></a:graphic></p:graphicFrame>"
    cell = "<a:tc {}><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>"
    rows = [["Ship", "Load"], ["Anna", "1"], ["", "2"]]
    table = "".join(
        "<a:tr>" + "".join(cell.format("" if text else 'vMerge="1"', text) for text in texts) + "</a:tr>"
        for texts in rows
    )
    slide = (
        frame.format('<c:chart xmlns:c="c" r:id="x1"/>')
        + frame.format('<d:relIds xmlns:d="d" r:dm="x2"/>')
        + frame.format(f"<a:tbl>{table}</a:tbl>")
    )
    parts = {
        "x1": ("chart", chart()),
        "x2": ("diagramData", diagram("One")),
        "x3": ("comments", '<p:cmLst xmlns:p="p"><p:cm><p:text>Really?</p:text></p:cm></p:cmLst>'),
    }
    content = convert_pptx(pptx([slide, shape("title", "B")], parts_of_first=parts), "a.pptx").content
    merged = "| Ship | Load |\n| --- | --- |\n| Anna | 1 |\n| Anna | 2 |"
    assert content == f"# Slide 1\n\n{merged}\n\n{CHART_TEXT}\n\n- One\n\nComment: Really?\n\n# B\n"


@pytest.mark.parametrize("declared", ["PowerPoint Presentation", "Slide 1", "Präsentation2", "Binder1.pdf"])
def test_a_title_that_programs_give_by_themselves_is_none(declared: str) -> None:
    def title(declared: str, *slides: str) -> str:
        core = (
            f'<p:coreProperties xmlns:p="p" xmlns:dc="d"><dc:title>{declared}</dc:title></p:coreProperties>'
        )
        return convert_pptx(pptx(slides, properties=core), "a.pptx").title

    assert title(declared, shape(None, "Arrivals in May", "one"), shape("title", "Two")) == "Arrivals in May"
    assert title(declared, shape(None, "one") + shape("title", "Arrivals")) == "Arrivals"
    assert title("1984", shape("title", "Arrivals")) == "1984"
    page = f"<title>{declared}</title><h1>Arrivals</h1><p>Text.</p>"
    assert convert_html(page.encode(), "a.html").title == "Arrivals"


def test_odp_slides() -> None:
    page = (
        '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Arrivals</text:p></draw:text-box></draw:frame>'
        "<draw:frame><draw:text-box><text:list><text:list-item><text:p>one</text:p></text:list-item></text:list></draw:text-box></draw:frame>"
        '<presentation:notes><draw:frame presentation:class="notes"><draw:text-box><text:p>Slowly.</text:p></draw:text-box></draw:frame>'
        "</presentation:notes></draw:page>"
    )
    converted = convert_opendocument(opendocument("presentation", page), "a.odp")
    assert places(converted) == [("slide", "Arrivals", 1, 1, "# Arrivals\n\n- one\n\nNotes: Slowly.")]


# Workbooks


def test_rows_are_lines_with_their_headers_dates_and_percentages() -> None:
    rows = (
        row(1, text_cell("A1", "Ships in port"))
        + row(
            3,
            '<c r="A3" t="s"><v>0</v></c>',
            text_cell("B3", "Arrival"),
            text_cell("C3", "Load"),
            text_cell("D3", "Left"),
        )
        + row(
            4,
            text_cell("A4", "Anna"),
            number_cell("B4", "45292", 1),
            number_cell("C4", "0.25", 2),
            number_cell("D4", "45292.5", 3),
        )
        + row(
            5,
            text_cell("A5", "Bella"),
            number_cell("C5", "0.30000000000000004"),
            '<c r="D5" t="b"><v>1</v></c>',
        )
        + row(6, '<c r="A6" t="e"><v>#N/A</v></c>', number_cell("C6", "1200"))
    )
    converted = convert_xlsx(xlsx({"Port": rows}, shared=["Ship"]), "a.xlsx")
    assert converted.content == (
        "# Port\n\nShips in port\n\nShip: Anna; Arrival: 2024-01-01; Load: 25 %; Left: 2024-01-01 12:00\n\n"
        "Ship: Bella; Load: 0.3; Left: TRUE\n\nLoad: 1200\n"
    )
    assert [place[:4] for place in places(converted)] == [("sheet", "Port", n, n) for n in (1, 4, 5, 6)]


def test_a_merged_cell_counts_for_each_of_its_rows() -> None:
    rows = row(1, text_cell("A1", "Port"), text_cell("B1", "Ship")) + "".join(
        row(n, *([text_cell("A2", "Oslo")] if n == 2 else []), text_cell(f"B{n}", f"Ship {n}"))
        for n in (2, 3, 4)
    )
    merged = '<mergeCells count="1"><mergeCell ref="A2:A3"/></mergeCells>'
    content = convert_xlsx(xlsx({"S": rows}, merged=merged), "a.xlsx").content
    assert content == "# S\n\nPort: Oslo; Ship: Ship 2\n\nPort: Oslo; Ship: Ship 3\n\nShip: Ship 4\n"


def lines(csv: str) -> list[str]:
    return convert_csv(csv.encode(), "a.csv").content.strip().split("\n\n")


def test_a_second_table_has_its_own_columns() -> None:
    assert lines("Ship,Load\nAnna,12\n\nCity,People\nOslo,700\n") == [
        "Ship: Anna; Load: 12",
        "City: Oslo; People: 700",
    ]
    # Below a title, with other columns, and without a number in the first.
    assert lines("Ship,Port\nAnna,Oslo\n\nPeople of cities\nCity,Land,People\nOslo,Norway,700\n") == [
        "Ship: Anna; Port: Oslo",
        "People of cities",
        "City: Oslo; Land: Norway; People: 700",
    ]
    assert lines("Ship,Port\nAnna,Oslo\n\n\nWord,Meaning\nbow,front\n")[1] == "Word: bow; Meaning: front"
    assert lines("Ship,Port\nAnna,Oslo\n\nCity,People\nOslo,700\n")[1] == "City: Oslo; People: 700"

    assert lines("Ship,Load\nAnna,12\nNote\n1,Oslo,5,6,7\n")[1:] == ["Ship: Note", "1; Oslo; 5; 6; 7"]


def test_rows_below_a_gap_that_go_on_keep_their_columns() -> None:
    assert lines("Ship,Port\nAnna,Oslo\n\nBella,Bergen\n")[1] == "Ship: Bella; Port: Bergen"
    assert lines("Ship,Load\nAnna,12\n\nBella,13\n\nTotal,25")[1:] == [
        "Ship: Bella; Load: 13",
        "Ship: Total; Load: 25",
    ]
    assert lines("Ship,Load\nAnna,12\n\nBella,n/a\nClara,5\n")[1:] == [
        "Ship: Bella; Load: n/a",
        "Ship: Clara; Load: 5",
    ]
    assert lines("Ship,Load\nAnna,12\n\nIn winter\nBella,13\n")[1:] == ["In winter", "Ship: Bella; Load: 13"]


def test_names_of_columns_may_be_signs_and_years() -> None:
    assert lines("#,Ship,%\n1,Anna,5\n") == ["#: 1; Ship: Anna; %: 5"]
    assert lines("Land,2019,2020\nNorway,5,6\n") == ["Land: Norway; 2019: 5; 2020: 6"]
    assert lines("1,2\n3,4\n") == ["1; 2", "3; 4"]


def test_two_rows_of_names_with_merged_cells_are_one() -> None:
    rows = (
        row(1, text_cell("A1", "Ship"), text_cell("B1", "Load"), text_cell("D1", "Crew"))
        + row(
            2,
            *(text_cell(f"{column}2", text) for column, text in zip("BCDE", ["in", "out"] * 2, strict=True)),
        )
        + row(3, text_cell("A3", "Anna"), *(number_cell(f"{column}3", "5") for column in "BCDE"))
    )
    merged = (
        '<mergeCells><mergeCell ref="A1:A2"/><mergeCell ref="B1:C1"/><mergeCell ref="D1:E1"/></mergeCells>'
    )
    content = convert_xlsx(xlsx({"S": rows}, merged=merged), "a.xlsx").content
    assert content == "# S\n\nShip: Anna; Load in: 5; Load out: 5; Crew in: 5; Crew out: 5\n"


def test_a_merged_name_above_texts_names_its_first_column() -> None:
    rows = row(1, text_cell("A1", "Name"), text_cell("C1", "City")) + row(
        2, text_cell("A2", "Ann"), text_cell("B2", "Lee"), text_cell("C2", "Oslo")
    )
    merged = '<mergeCells><mergeCell ref="A1:B1"/></mergeCells>'
    content = convert_xlsx(xlsx({"S": rows}, merged=merged), "a.xlsx").content
    assert content == "# S\n\nName: Ann; Lee; City: Oslo\n"


def drawn(anchors: str, sheet: str = "worksheets/sheet0") -> dict[str, str | bytes]:
    """The parts of a sheet with a comment on B2, and of its drawing."""
    folder, _, name = sheet.rpartition("/")
    comment = '<comment ref="B2"><text><r><t>In tons.</t></r></text></comment>'
    space = 'xmlns:a="a" xmlns:x="x" xmlns:r="r" xmlns:c="c"'
    return {
        f"xl/{folder}/_rels/{name}.xml.rels": relations(
            ("d1", "drawing", "../drawings/d.xml"), ("k1", "comments", "../comments.xml")
        ),
        "xl/comments.xml": f"<comments><commentList>{comment}</commentList></comments>",
        "xl/drawings/d.xml": f"<x:wsDr {space}>{anchors}</x:wsDr>",
        "xl/drawings/_rels/d.xml.rels": relations(("g1", "chart", "../charts/c.xml")),
        "xl/charts/c.xml": chart(),
    }


ANCHORS = (
    "<x:anchor><x:from><x:row>6</x:row></x:from><x:sp><x:txBody><a:p><a:r><a:t>A </a:t></a:r><a:r><a:t>box.</a:t></a:r>"
    "</a:p></x:txBody></x:sp></x:anchor><x:anchor><x:from><x:row>8</x:row></x:from><x:graphicFrame>"
    '<c:chart r:id="g1"/></x:graphicFrame></x:anchor>'
)


def test_comments_text_boxes_and_charts_of_a_sheet_have_its_rows() -> None:
    rows = row(1, text_cell("A1", "Ship"), text_cell("B1", "Load")) + row(
        2, text_cell("A2", "Anna"), number_cell("B2", "5")
    )
    converted = convert_xlsx(xlsx({"S": rows, "T": ""}, more=drawn(ANCHORS)), "a.xlsx")
    assert [place[1:] for place in places(converted)] == [
        ("S", 2, 2, "Ship: Anna; Load: 5"),
        ("S", 2, 2, "Comment on B2: In tons."),
        ("S", 7, 7, "A box."),
        ("S", 9, 9, CHART_TEXT),
    ]
    only_drawn = convert_xlsx(
        xlsx(
            {"S": rows, "T": ""},
            more=drawn(ANCHORS[ANCHORS.index("</x:anchor>") + 11 :], "worksheets/sheet1"),
        ),
        "a.xlsx",
    )
    assert only_drawn.content.endswith(f"Load: 5\n\n# T\n\nComment on B2: In tons.\n\n{CHART_TEXT}\n")


def test_a_comment_on_a_cell_of_ods_has_its_row() -> None:
    cells = "<table:table-cell><text:p>Anna</text:p><office:annotation><text:p>Really?</text:p></office:annotation></table:table-cell>"
    body = f'<table:table table:name="S"><table:table-row/><table:table-row>{cells}</table:table-row></table:table>'
    converted = convert_opendocument(opendocument("spreadsheet", body), "a.ods")
    assert [place[1:] for place in places(converted)] == [
        ("S", 2, 2, "Anna"),
        ("S", 2, 2, "Comment: Really?"),
    ]


def test_a_formula_without_a_value_is_shown() -> None:
    rows = row(1, '<c r="A1"><f>SUM(B1:C1)</f></c>', '<c r="B1"><f>1+1</f><v>2</v></c>')
    converted = convert_xlsx(xlsx({"S": rows}), "a.xlsx")
    assert converted.content == "# S\n\n=SUM(B1:C1); 2\n"
    assert converted.warnings == ("formulas without a value in the file are in the text: 1",)


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        ("General", 0.1 + 0.2, "0.3"),
        ("0.00", 1234.5678, "1234.57"),
        ('"$"#,##0.00', -1234.5, "-$1234.50"),
        ("#,##0.00\\ [$€-407]", 5.5, "5.50 €"),
        ("_($* #,##0.00_);_($* (#,##0.00)", 3, "$3.00"),
        ('0.0" kg"', 12.34, "12.3 kg"),
        ("0.0%", 0.256, "25.6 %"),
        ("0%", 0.025, "3 %"),
        ("0.##", 1.5, "1.5"),
        ('#,##0,"K"', 12345, "12K"),
        ("0000", 7, "0007"),
        ('"Q"0', 3, "Q3"),
        ("0.00E+00", 1234567, "1234567"),
        ("# ?/?", 0.5, "0.5"),
        ("dd.mm.yyyy", 45292, "2024-01-01"),
        ("mmm-yy", 45292, "2024-01"),
        ("h:mm AM/PM", 45292.75, "18:00"),
        ("[h]:mm", 1.5, "36:00"),
        ("mm:ss", 0.01, "00:14:24"),
        ("0.000000000000000000000000", 1e300, "1e+300"),
    ],
)
def test_numbers_are_as_people_see_them(code: str, number: float, text: str) -> None:
    assert spreadsheets._read_format(code).text(number, spreadsheets._EPOCH) == text


@pytest.mark.parametrize(("n_single", "n_places"), [(100, 100), (30, 34), (0, 6)])
def test_a_row_has_its_own_place_and_later_ones_share_some(
    n_single: int, n_places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreadsheets, "MAX_SINGLE_ROWS", n_single)
    rows = row(1, text_cell("A1", "Name"), text_cell("B1", "Number")) + "".join(
        row(n, text_cell(f"A{n}", f"Ship {n}"), number_cell(f"B{n}", str(n))) for n in range(2, 52)
    )
    converted = convert_xlsx(xlsx({"One": rows, "שתיים": rows}), "a.xlsx")
    for _, name, first, last, text in places(converted):
        assert last - first < MAX_ROWS_OF_PLACE
        assert text.startswith(f"Name: Ship {first:.0f};")
        assert f"Number: {last:.0f}" in text
        assert name in ("One", "שתיים")
    assert len(converted.locators) == n_places


def test_a_table_of_more_than_a_million_cells_is_cut_with_a_warning() -> None:
    line = ",".join("x" * 100) + "\n"
    n_rows = MAX_CELLS // 100 + 5
    converted = convert_csv((line * n_rows).encode(), "big.csv")
    assert converted.locators[-1].last == MAX_CELLS // 100
    assert len(converted.warnings) == 1
    assert "left out" in converted.warnings[0]


def test_hostile_references_cost_nothing() -> None:
    rows = (
        row(
            1_048_576,
            number_cell("XFD1048576", "1"),
            number_cell("ZZZ9999999", "2"),
            number_cell("AAAA1", "3"),
        )
        + '<row r="99999999999999999999"><c r="A1"><v>4</v></c></row><row r="x"><c r="??"><v>1e999</v></c></row>'
    )
    merged = '<mergeCells><mergeCell ref="A1:XFD1048576"/><mergeCell ref="B2:A1"/></mergeCells>'
    converted = convert_xlsx(xlsx({"S": rows}, merged=merged), "a.xlsx")
    assert len(converted.content) < 100
    assert all(1 <= place.first <= place.last <= 1_048_576 for place in converted.locators)


def test_ods_values_repeats_and_merged_cells() -> None:
    def cell(text: str, more: str = "") -> str:
        return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"

    body = (
        '<table:table table:name="Port"><table:table-row>'
        + cell("Ship")
        + cell("Arrival")
        + cell("Load")
        + '</table:table-row><table:table-row table:number-rows-repeated="3"><table:table-cell/></table:table-row><table:table-row>'
        + cell("Anna", 'table:number-rows-spanned="2"')
        + cell("1 Jan", 'office:value-type="date" office:date-value="2024-01-01"')
        + cell("1.200,50", 'office:value-type="float" office:value="1200.5"')
        + "</table:table-row><table:table-row><table:covered-table-cell/>"
        + cell("2 Jan", 'office:value-type="date" office:date-value="2024-01-02T08:00:00"')
        + '<table:table-cell table:number-columns-repeated="16000"/></table:table-row></table:table>'
    )
    converted = convert_opendocument(opendocument("spreadsheet", body), "a.ods")
    assert converted.content == (
        "# Port\n\nShip: Anna; Arrival: 2024-01-01; Load: 1200.5\n\nShip: Anna; Arrival: 2024-01-02 08:00:00\n"
    )
    assert [place[:4] for place in places(converted)] == [("sheet", "Port", n, n) for n in (5, 6)]


# Tables in text files


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter: str) -> None:
    lines = [["Ship", "Remark"], ["Anna", f'"a{delimiter} ""b"""'], ["Bella", "x, y; z"]]
    if delimiter in ",;":
        lines[2][1] = "x"
    data = "\r\n".join(delimiter.join(line) for line in lines).encode()
    content = convert_csv(data, "a.csv").content
    first = " ".join(f'Ship: Anna; Remark: a{delimiter} "b"'.split())
    assert content == f"{first}\n\nShip: Bella; Remark: {lines[2][1]}\n"


def test_a_tsv_file_is_divided_by_tabs_only() -> None:
    content = convert_csv(b"a,b\tc\n1,2\t3\n", "A.TSV").content
    assert content == "a,b: 1,2; c: 3\n"


def test_a_table_without_header_and_one_with_newlines_in_cells() -> None:
    assert convert_csv(b"1,2\n3,4\n", "a.csv").content == "1; 2\n\n3; 4\n"
    converted = convert_csv('Ship,Remark\nAnna,"two\nlines"\nBella,x\n'.encode("utf-16"), "a.csv")
    assert converted.content == "Ship: Anna; Remark: two lines\n\nShip: Bella; Remark: x\n"
    assert converted.locators[0].kind is LocatorKind.sheet
    assert [(place.first, place.last) for place in converted.locators] == [(2, 2), (3, 3)]


def test_an_open_quotation_mark_does_not_swallow_the_table() -> None:
    converted = convert_csv(b'Ship,Remark\nAnna,"open\nBella,x\n', "a.csv")
    assert "Ship: Bella; Remark: x" in converted.content
    assert "never closed" in converted.warnings[0]


def test_huge_cells_are_passed_over() -> None:
    converted = convert_csv(b"Ship,Remark\nAnna," + b"x" * 500_000 + b"\nBella,y\n", "a.csv")
    assert "Ship: Bella; Remark: y" in converted.content
    assert len(converted.content) < 100_000


def test_what_is_no_table_is_refused() -> None:
    for data, code in ((b"", "no_text"), (b"\n\n,,\n", "no_text"), (bytes(range(256)) * 20, "broken")):
        with pytest.raises(ConversionError) as refused:
            convert_csv(data, "a.csv")
        assert refused.value.code == code


def test_categories_of_several_levels_and_names_in_a_chart_itself_are_kept() -> None:
    def points(*texts: str) -> str:
        return "".join(f'<c:pt idx="{i}"><c:v>{text}</c:v></c:pt>' for i, text in enumerate(texts) if text)

    drawn = (
        '<c:chartSpace xmlns:c="c"><c:ser><c:tx><c:v>Own name</c:v></c:tx><c:cat><c:multiLvlStrRef><c:multiLvlStrCache>'
        f"<c:lvl>{points('Oslo', 'Bergen', 'Kiel')}</c:lvl><c:lvl>{points('Norway', '', 'Germany')}</c:lvl>"
        f"</c:multiLvlStrCache></c:multiLvlStrRef></c:cat><c:val>{points('1', '2', '3')}</c:val></c:ser></c:chartSpace>"
    )
    frame = '<p:graphicFrame><c:chart xmlns:c="c" r:id="c1"/></p:graphicFrame>'
    data = pptx([shape("title", "Loads") + frame], parts_of_first={"c1": ("chart", drawn)})
    content = convert_pptx(data, "a.pptx").content
    assert "|  | Own name |" in content
    assert "| Norway Oslo | 1 |\n| Norway Bergen | 2 |\n| Germany Kiel | 3 |" in content
