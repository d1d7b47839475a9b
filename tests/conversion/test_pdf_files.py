"""PDF files become paragraphs under headings, without what their pages repeat."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from converters import convert_pdf
from pdf_files import ENCRYPTED, Text, pdf, prose

from shoal.conversion.converted import ConversionError, Converted
from shoal.conversion.pdf_lines import Cell, Word, cells_of_words, logical_order, symbol

PROSE = [
    "The harbour lies behind two islands, and no wind reaches it from the west or",
    "from the north. Pilots board the ships near the outer buoy, where the water is",
    "deep enough for every ship that trades along the coast of the country.",
]


def convert(pages: list[list[Text]], **options: str) -> Converted:
    return convert_pdf(pdf(pages, **options), "a.pdf")  # type: ignore[arg-type]


def content(*lines: Text) -> str:
    return convert([list(lines)]).content


def test_lines_are_joined_to_paragraphs_and_gaps_divide_them() -> None:
    page = prose(PROSE, y=700) + prose(PROSE, y=640)
    assert convert([page]).content == f"{' '.join(PROSE)}\n\n{' '.join(PROSE)}\n"


def test_indents_divide_paragraphs() -> None:
    page = [
        *prose(PROSE, y=700),
        Text(84, 664, "A second one begins with an indent, and goes on and on and"),
        *prose(PROSE[1:], y=652),
    ]
    paragraphs = convert([page]).content.split("\n\n")
    assert len(paragraphs) == 2
    assert paragraphs[1].startswith("A second one")


def test_a_short_line_ends_a_paragraph() -> None:
    page = prose([PROSE[0], PROSE[1], "A short end.", PROSE[0], PROSE[2]])
    assert [text[:9] for text in convert([page]).content.split("\n\n")] == ["The harbo", "The harbo"]


def test_words_are_joined_at_hyphens_unless_the_document_writes_them_with_one() -> None:
    lines = [
        "A well-known pilot knows the depths of the harbour, the currents, the naviga-",
        "tion lights and the weather of every season. All of it is known to the well-",
        "known pilot, who learned it on board of the ships of the Anglo-",
        "Norwegian company and from the charts of the office in the old town.",
    ]
    text = content(*prose(lines))
    assert "navigation lights" in text
    assert "the well-known pilot" in text
    assert "Anglo-Norwegian" in text


def test_larger_letters_are_headings_by_size() -> None:
    page = [
        Text(72, 750, "Harbours", 24),
        Text(72, 720, "Arrivals", 16),
        *prose(PROSE, y=700),
        Text(72, 640, "Departures", 16),
        *prose(PROSE, y=620),
        Text(72, 560, "At night", 10, bold=True),
        *prose(PROSE, y=540),
    ]
    headings = [line for line in convert([page]).content.split("\n") if line.startswith("#")]
    assert headings == ["# Harbours", "## Arrivals", "## Departures", "### At night"]


def headings(*pages: list[Text]) -> list[str]:
    return [line for line in convert([*pages]).content.split("\n") if line.startswith("#")]


def section(y: float, *titles: str, x: float = 72) -> list[Text]:
    """Titles in bold letters of the body's size, and a paragraph below them."""
    lines = [Text(x, y - 16 * i, title, bold=True) for i, title in enumerate(titles)]
    return [*lines, *prose([line[:40] for line in PROSE], x=x, y=y - 16 * len(titles))]


def test_bold_numbers_in_order_are_headings_whatever_their_size() -> None:
    left = [
        Text(72, 760, "On Harbours", 16),
        *section(720, "Abstract"),
        *section(660, "1 Introduction"),
        *section(600, "2 Background", "2.1 Pilots"),
        *section(520, "2.2 Boats."),
    ]
    right = [
        *section(720, "3 Overview", "3.1 Overview of harbours", x=320),
        *section(620, "References", x=320),
    ]
    assert headings([*left, *right]) == [
        "# On Harbours",
        "## Abstract",
        "## 1 Introduction",
        "## 2 Background",
        "### 2.1 Pilots",
        "### 2.2 Boats.",
        "## 3 Overview",
        "### 3.1 Overview of harbours",
        "## References",
    ]


def test_labels_captions_and_bold_prose_are_no_headings() -> None:
    figure = [
        Text(80 + 150 * i, 420 - 60 * i, label, 14) for i, label in enumerate(("Pilot", "Boat", "Crew"))
    ]
    page = [
        *section(720, "1 Introduction"),
        *section(660, "2 Harbours"),
        *[Text(72, 600 - 12 * i, line, bold=True) for i, line in enumerate(PROSE)],
        Text(72, 540, "Figure 1: Pilots and boats", bold=True),
        Text(72, 510, "4 u + v = x", bold=True),
        *prose(PROSE, y=490),
        *figure,
    ]
    assert headings(page, prose(PROSE)) == ["# 1 Introduction", "# 2 Harbours"]


def test_titles_of_slides_are_headings_though_most_letters_are_large() -> None:
    points = ["come on board", "bring them there", "pull the ship in"]
    slides = [
        [
            Text(72, 500, f"{name} of the harbour", 32),
            *prose([f"{name.lower()} {point}" for point in points], y=400, leading=30, size=22),
        ]
        for name in ("Pilots", "Boats", "Tides", "Tugs")
    ]
    notes = prose(PROSE * 2)
    assert len(headings(*slides, notes)) == 4


def test_a_numbered_title_that_runs_into_its_paragraph_is_a_heading() -> None:
    lines: list[Text] = []
    for i, title in enumerate(("Pilots.", "Boats and crews.", "Tides.")):
        y = 700 - 60 * i
        lines += [Text(72, y, f"3.{i + 1} {title}", bold=True), Text(190, y, PROSE[0][:60])]
        lines += prose(PROSE[1:], y=y - 12)
    assert headings(lines) == ["# 3.1 Pilots.", "# 3.2 Boats and crews.", "# 3.3 Tides."]
    assert f"# 3.1 Pilots.\n\n{PROSE[0][:60]}" in content(*lines)


def test_the_outline_gives_headings_in_letters_of_the_body() -> None:
    first = [
        Text(72, 730, "1.2 Arrivals of ships and of", 10),
        Text(72, 718, "all other boats", 10),
        *prose(PROSE, y=690),
    ]
    second = [*prose(PROSE, y=700), Text(72, 640, "Departures"), *prose(PROSE, y=620)]
    outline = [("Arrivals of ships and of all other boats", 0), ("Departures", 1)]
    text = convert_pdf(pdf([first, second], outline=outline), "a.pdf").content
    headings = [line for line in text.split("\n") if line.startswith("#")]
    assert headings == ["# 1.2 Arrivals of ships and of all other boats", "# Departures"]


def test_paragraphs_go_on_over_pages_and_places_follow() -> None:
    pages = [
        [*prose(PROSE, y=100), Text(72, 64, "and the tide runs through the sound, which is so narrow that")],
        prose(["ships wait for it.", *PROSE[:1]]),
    ]
    converted = convert(pages, labels="/PageLabels << /Nums [0 << /S /r >>] >>")
    assert [(place.name, place.first, place.last) for place in converted.locators] == [
        ("i", 1, 1),
        ("ii", 2, 2),
    ]
    assert "so narrow that ships wait for it." in converted.content
    second = converted.locators[1]
    assert converted.content[second.start_char : second.end_char].startswith("ships wait for it.")


def test_headers_footers_and_page_numbers_are_removed_and_listed() -> None:
    pages = [
        [
            Text(72, 760, "The Harbour Handbook"),
            *prose([f"Page {n} tells of ship {n}, which came from a port in the south with", *PROSE[1:]]),
            Text(72, 40, f"Draft of May, page {n + 4} of 9"),
            Text(300, 20, str(n + 1)),
        ]
        for n in range(5)
    ]
    converted = convert(pages)
    for removed in ("Handbook", "Draft"):
        assert removed not in converted.content
    assert all(f"tells of ship {n}," in converted.content for n in range(5))
    assert ("repeated header", "The Harbour Handbook", 5) in converted.removed
    assert {("page number", str(n + 1), 1) for n in range(5)} < set(map(tuple, converted.removed))


def test_headers_of_every_second_page_are_removed() -> None:
    names = ("The Harbour Handbook", "Arrivals and Departures")
    pages = [[Text(72, 760, names[n % 2]), *prose([f"{n * n} {line}" for line in PROSE])] for n in range(6)]
    converted = convert(pages)
    assert [removed.text for removed in converted.removed] == [names[0], names[1]]
    assert all(removed.times == 3 for removed in converted.removed)


def test_text_that_only_looks_like_a_header_is_kept() -> None:
    pages = [[*prose([f"In the year {1700 + n * n} the harbour froze.", *PROSE])] for n in range(5)]
    converted = convert(pages)
    assert all(f"In the year {1700 + n * n}" in converted.content for n in range(5))
    # Two pages that begin alike are not yet a rule; three are.
    assert "Alike" in convert([[Text(72, 760, "Alike"), *prose(PROSE)]] * 2 + [prose(PROSE)] * 3).content


def test_columns_are_read_one_after_the_other() -> None:
    left = ["The left column tells of", "arrivals at dawn and", "of the pilots who board", "the ships."]
    right = [
        "The right column is about",
        "departures, of which there",
        "are as many as arrivals in",
        "most years.",
    ]
    page = prose(left, x=72) + prose(right, x=320)
    assert convert([page]).content == f"{' '.join(left)}\n\n{' '.join(right)}\n"


def test_columns_that_are_drawn_line_by_line_are_taken_apart() -> None:
    left = [
        "The left column tells of all",
        "arrivals at dawn and also",
        "of the pilots who board the",
        "ships near the outer buoy,",
        "where it is deep.",
    ]
    right = [
        "The right column is about",
        "departures, of which there",
        "are as many as arrivals in",
        "most years of the decade",
        "that has gone by.",
    ]
    page = [
        text
        for i, pair in enumerate(zip(left, right, strict=True))
        for text in (Text(72, 700 - 12 * i, pair[0]), Text(320, 700 - 12 * i, pair[1]))
    ]
    assert convert([page]).content == f"{' '.join(left)}\n\n{' '.join(right)}\n"


def test_aligned_gaps_are_tables_and_bullets_are_lists() -> None:
    rows = [
        ("Ship", "Load", "Port"),
        ("Anna", "1200", "Oslo"),
        ("Bella", "80", "Kiel"),
        ("Cora", "7", "Riga"),
    ]
    table = [
        Text(x, 700 - 14 * i, cell)
        for i, row in enumerate(rows)
        for x, cell in zip((72, 200, 300), row, strict=True)
    ]
    items = [
        Text(72, 600, "• first item"),
        Text(72, 588, "• second item"),
        Text(90, 576, "– inner"),
        Text(72, 564, "1. one"),
        Text(72, 552, "2. two"),
    ]
    items[2] = Text(90, 576, "• inner")
    assert convert([table + items]).content == (
        "| Ship | Load | Port |\n| --- | --- | --- |\n| Anna | 1200 | Oslo |\n| Bella | 80 | Kiel |\n| Cora | 7 | Riga |\n\n"
        "- first item\n- second item\n   - inner\n\n1. one\n2. two\n"
    )


def test_a_label_close_to_the_first_value_of_its_row_is_a_cell_of_its_own() -> None:
    rows = [
        ("Load", "1,200", "1,100", 150),
        ("Load of all of the ships", "80", "75", 170),  # four points behind the label
        ("Ships", "7", "9", 150),
        ("Crews", "21", "23", 150),
    ]
    table = [
        Text(x, 700 - 14 * i, cell)
        for i, (label, first, second, at) in enumerate(rows)
        for x, cell in ((72, label), (at + 6, first), (260, second))
    ]
    assert content(*table) == (
        "| Load | 1,200 | 1,100 |\n| --- | --- | --- |\n| Load of all of the ships | 80 | 75 |\n"
        "| Ships | 7 | 9 |\n| Crews | 21 | 23 |\n"
    )


def test_a_label_close_to_a_value_in_words_is_a_cell_of_its_own() -> None:
    rows = [("Alpha reactor units", "yes", "no"), ("Beta", "no", "no"), ("Gamma", "yes", "yes")]
    page = [
        Text(x, 684 - 14 * i, cell)
        for i, row in enumerate(rows)
        for x, cell in zip((72, 160, 220), row, strict=True)
    ]
    assert "| Alpha reactor units | yes | no |" in content(*page)
    # A heading over columns stays whole.
    heading = Text(72, 698, "The reactors and places")
    assert "| The reactors and places |" in content(heading, Text(220, 698, "new"), *page)


def test_three_narrow_columns_that_are_drawn_line_by_line_are_taken_apart() -> None:
    columns = [
        [
            "The first column is",
            "about all arrivals",
            "at dawn, and about",
            "pilots in boats",
            "that meet them.",
        ],
        [
            "The second one has",
            "departures, which",
            "are as many as the",
            "arrivals in years",
            "without a war.",
        ],
        [
            "The third tells of",
            "tides and currents",
            "in the sound, with",
            "their times and the",
            "depth they leave.",
        ],
    ]
    page = [
        Text(72 + 150 * column, 700 - 12 * i, columns[column][i]) for i in range(5) for column in range(3)
    ]
    assert content(*page) == "".join(f"{' '.join(lines)}\n\n" for lines in columns)[:-1]


def test_a_table_of_contents_is_removed_and_listed() -> None:
    entries = ["Contents", "1 Arrivals 2", "2 Departures of all", "the ships 3", "3 Tides . . . . . . 5"]
    converted = convert([prose(entries), prose(PROSE)])
    assert converted.content == " ".join(PROSE) + "\n"
    assert [removed.text for removed in converted.removed] == entries
    years = prose(["Contents", "It has been so since 1900", "and the old law of 1850", "is of no use."])
    assert "the old law of 1850" in convert([years]).content


def test_footnotes_do_not_interrupt_a_paragraph() -> None:
    first = [
        *prose(PROSE, y=120),
        Text(72, 84, "and the tide runs through the sound, which is so narrow that"),
        Text(72, 50, "1 Except in winter.", 7),
    ]
    text = convert([first, prose(["ships wait for it.", "Then they go on."])]).content
    assert "so narrow that ships wait for it" in text
    assert text.endswith("\n\n1 Except in winter.\n")


def test_the_declared_title_is_used_unless_a_program_made_it_up() -> None:
    assert convert([prose(PROSE)], title="Of Harbours").title == "Of Harbours"
    assert convert([prose(PROSE)], title="Scan of harbours in 1900").title == "Scan of harbours in 1900"
    for made_up in (
        "Microsoft Word - letter.doc",
        "thesis.tex",
        "Untitled",
        "Binder1.pdf",
        "Slide 1",
        "Document2",
    ):
        assert convert([prose(PROSE)], title=made_up).title == ""


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "broken"),
        (b"no PDF at all", "broken"),
        (b"%PDF-1.7\n", "broken"),
        (pdf([prose(PROSE)], trailer=ENCRYPTED), "encrypted"),
        (pdf([[], []]), "no_text"),
        (pdf([]), "broken"),
    ],
)
def test_files_without_text_are_refused_with_a_reason(data: bytes, code: str) -> None:
    with pytest.raises(ConversionError) as refused:
        convert_pdf(data, "סריקה.pdf")
    assert refused.value.code == code
    if code == "no_text":
        assert "neither text nor pictures" in str(refused.value)


def test_empty_pages_among_others_are_named() -> None:
    converted = convert([prose(PROSE), [], [], prose(PROSE), []])
    assert converted.warnings == ("pages without text, which may be empty or pictures: 2-3, 5",)
    assert [place.first for place in converted.locators] == [1, 4]


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pypdfium2", None)
    with pytest.raises(ConversionError, match=r"shoal\[pdf\]") as refused:
        convert_pdf(pdf([prose(PROSE)]), "a.pdf")
    assert refused.value.code == "missing_extra"


def annotated(lines: list[Text], *annotations: str) -> str:
    return convert_pdf(pdf([lines], annotations=[(0, each) for each in annotations]), "a.pdf").content


def field(kind: str, x: float, y: float, more: str) -> str:
    return f"/Subtype /Widget /FT /{kind} /T (f{x}{y}) /Rect [{x} {y - 3} {x + 100} {y + 11}] {more}"


def test_values_of_fields_stand_beside_their_labels() -> None:
    form = [Text(72, 700, "Name of the ship:"), Text(72, 660, "Pilot on board"), *prose(PROSE, y=600)]
    fields = [
        field("Tx", 200, 700, "/V (Anna of Bergen)"),
        field("Btn", 40, 660, "/AS /Yes /V /Yes /AP << /N << /Yes 1 0 R /Off 1 0 R >> >>"),
        field("Tx", 72, 560, "/TU (Remarks) /V (Came late.)"),
        field("Tx", 300, 660, "/F 2 /V (hidden)"),
        field("Ch", 300, 700, "/Opt [(Oslo) (Kiel)] /V (Kiel)"),
    ]
    assert annotated(form, *fields) == (
        "Name of the ship: Anna of Bergen Kiel\n\n☒ Pilot on board\n\n"
        f"{' '.join(PROSE)}\n\nRemarks: Came late.\n"
    )
    assert annotated([], fields[2]) == "Remarks: Came late.\n"


def test_boxes_of_text_and_comments_follow_the_text_of_their_page() -> None:
    notes = [
        "/Subtype /FreeText /Rect [72 600 200 620] /Contents (Pay at the office.)",
        "/Subtype /Text /Rect [300 600 320 620] /T (Ann) /Contents (Is this still so?)",
        "/Subtype /Popup /Rect [300 500 320 520] /Contents (Is this still so?)",
        "/Subtype /Highlight /Rect [72 700 90 710] /T (Ann) /Contents (The harbour lies)",
        "/Subtype /Highlight /Rect [72 700 90 710] /T (Ann) /Contents (Which one?)",
    ]
    assert annotated(prose(PROSE), *notes) == (
        f"{' '.join(PROSE)}\n\nPay at the office.\n\nAnn: Is this still so?\n\nAnn: Which one?\n"
    )
    assert annotated([], notes[1]) == "Ann: Is this still so?\n"


def test_a_page_may_have_many_fields_and_lines() -> None:
    lines = [Text(72, 790 - i / 10, f"line {i}") for i in range(3000)]
    fields = [field("Tx", 200, 1 + i / 10, f"/V (value {i})") for i in range(3000)]
    assert annotated(lines, *fields).count("value") == 3000


def test_writing_at_an_angle_interrupts_nothing() -> None:
    stamp = Text(30, 300, "arXiv:2206.01062v1 [cs.CV] 2 Jun 2022", 20, turned=True)
    page = [*prose(PROSE[:2]), stamp, *prose(PROSE[2:], y=676)]
    assert content(*page) == f"{' '.join(PROSE)}\n\n{stamp.text}\n"
    converted = convert([page] * 3)
    assert stamp.text not in converted.content
    assert ("repeated margin", stamp.text, 3) in converted.removed


def test_a_page_that_is_turned_as_a_whole_is_read_as_one_that_is_not() -> None:
    page = [Text(100 + 12 * i, 72, line, turned=True) for i, line in enumerate(PROSE)]
    assert content(Text(70, 72, "Harbours", 20, turned=True), *page) == f"# Harbours\n\n{' '.join(PROSE)}\n"


def test_ten_thousand_pages_take_bounded_time() -> None:
    converted = convert(
        [[Text(72, 700, f"Ship {n} came."), Text(300, 20, str(n + 1))] for n in range(10_000)]
    )
    assert converted.content.count("came.") == 10_000
    assert converted.locators[-1].first == 10_000


# Letters


def words(text: str, gap: float, *, is_divided: bool = True) -> list[Word]:
    """Words of 10 points for a letter, with gaps of `gap` points between them."""
    found: list[Word] = []
    left = 0.0
    for word in text.split():
        found.append(Word(left, left + 10 * len(word), word, is_divided))
        left += 10 * len(word) + gap
    return found


def scanned(text: str) -> list[Word]:
    """Words with gaps of 6 points, and of 1.5 at `_`."""
    found: list[Word] = []
    left = 0.0
    for part in text.split():
        for letters in part.split("_"):
            found.append(Word(left, left + 10 * len(letters), letters, False))
            left += 10 * len(letters) + 1.5
        left += 4.5
    return found


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (scanned("Nort_h Buon_a Vist_a 13858_8"), "North Buona Vista 138588"),
        (scanned("Pt_e Ltd_."), "Pte Ltd."),
        (scanned("the end of_a sentence"), "the end of a sentence"),  # only one
        (scanned("a_note 1_of the_sea"), "a note 1 of the sea"),
        (scanned("note_1 on page_2"), "note 1 on page 2"),
        (words("Singapor e", 0.2), "Singapore"),
        (words("a b", 0.2, is_divided=False), "a b"),  # the file has this space
        (words("港口 位于 两岛 之后", 3), "港口位于两岛之后"),
        (words("港 口 位 于 两 岛", 9), "港口位于两岛"),
        (words("우리 항구 입니다", 3), "우리 항구 입니다"),
        (words("r e t u r n", 1.5), "return"),
        (words("a = b + c", 1.5), "a = b + c"),
        (words("A B C D E F", 3), "A B C D E F"),
    ],
)
def test_spaces_within_words_are_left_out(found: list[Word], text: str) -> None:
    assert [cell.text for cell in cells_of_words(found, 10)] == [text]


def test_a_letter_that_is_drawn_on_its_own_belongs_to_its_word() -> None:
    word = Text(72, 700, "Singapor")
    assert content(word, word._replace(x=112.02, text="e")) == "Singapore\n"


def test_text_that_is_drawn_again_at_its_place_is_read_once() -> None:
    page = prose(PROSE, size=12)
    shadow = [text._replace(x=text.x + 0.5, y=text.y - 0.5) for text in page]
    assert content(*page, *shadow) == f"{' '.join(PROSE)}\n"
    again = content(*page, *prose(PROSE, y=600, size=12))
    assert again.count(PROSE[0]) == 2


def test_glyphs_that_stand_for_no_known_character_are_left_out_with_a_warning() -> None:
    hidden = Text(72, 500, "the words of the pilot", unmapped=True)
    converted = convert([prose(PROSE), [*prose(PROSE), hidden]])
    assert converted.content == f"{' '.join(PROSE)}\n\n{' '.join(PROSE)}\n"
    assert any("glyphs" in warning and warning.endswith(": 2") for warning in converted.warnings)
    with pytest.raises(ConversionError, match=r"fonts of the file.*OCR") as refused:
        convert([[hidden]])
    assert refused.value.code == "no_text"


def test_letters_of_fonts_of_symbols_are_those_that_people_see() -> None:
    data = pdf([[Text(72, 700, "a+b=c", bold=True)]]).replace(
        b"/Helvetica-Bold /Encoding /WinAnsiEncoding",
        b"/ABCDEF+SymbolMT /Encoding << /Differences [43 /uniF0B1 61 /uniF0A3 97 /uniF061 /uniF062 /uniE321] >>",
    )
    assert convert_pdf(data, "a.pdf").content == "α±β≤\ue321\n"
    assert symbol("\uf0fc", b"ABCDEF+Wingdings-Regular") == "✓"
    assert symbol("\uf761", b"Times") == "a"
    assert symbol("\uf0fc", b"Times") == "\uf0fc"


# Writing from the right


def glyphs(visual: str) -> list[Cell]:
    """Glyphs of equal width for a line as it looks, from the left."""
    return [Cell(10.0 * i, 10.0 * i + 9.5, char) for i, char in enumerate(visual) if char != " "]


def test_right_to_left_lines_are_put_into_reading_order() -> None:
    assert logical_order(glyphs("םלוע םולש"), 10) == "שלום עולם"
    assert logical_order(glyphs(".XYZ הלימו 123 רפסמ"), 10) == "מספר 123 ומילה XYZ."
    # A line from the left that quotes words from the right keeps its order.
    assert logical_order(glyphs("The word םולש means peace"), 10) == "The word שלום means peace"


# Text recognition


def scan(text: str) -> bytes:
    """A PDF with a picture of a page and no text."""
    import pypdfium2 as pdfium

    page = pdfium.PdfDocument(pdf([[Text(72, 700, text, 24)]]))[0]
    bitmap = page.render(scale=2, grayscale=True)
    document = pdfium.PdfDocument.new()
    image = pdfium.PdfImage.new(document)
    image.set_bitmap(bitmap)
    image.set_matrix(pdfium.PdfMatrix().scale(612, 792))
    new_page = document.new_page(612, 792)
    new_page.insert_obj(image)
    new_page.gen_content()
    out = __import__("io").BytesIO()
    document.save(out)
    return out.getvalue()


def test_a_scan_is_refused_and_says_how_to_read_it() -> None:
    with pytest.raises(ConversionError, match="SHOAL_OCR=1") as refused:
        convert_pdf(scan("Arrivals at dawn"), "a.pdf")
    assert refused.value.code == "no_text"


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
def test_a_scan_is_read_by_tesseract_if_asked() -> None:
    converted = convert_pdf(scan("Arrivals at dawn"), "a.pdf", ocr=True)
    assert converted.content == "Arrivals at dawn\n"
    assert [(place.first, place.last) for place in converted.locators] == [(1, 1)]
    assert "OCR" in converted.warnings[0]


def test_recognition_that_fails_is_a_warning_or_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/false")
    with pytest.raises(ConversionError) as refused:
        convert_pdf(scan("Arrivals"), "a.pdf", ocr=True)
    assert refused.value.code == "no_text"

    def too_slow(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("tesseract", 1)

    monkeypatch.setattr(subprocess, "run", too_slow)
    with pytest.raises(ConversionError, match="none"):
        convert_pdf(scan("Arrivals"), "a.pdf", ocr=True)
