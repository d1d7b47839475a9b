"""The lines of a PDF page as PDFium reads them: text, position, size and font of the letters.

PDFium gives characters in the order in which the file draws them, which is the reading order in files of word
processors, LaTeX and browsers, columns included.

Characters of the private use area are those that fonts of symbols use by custom: codes U+F020 to U+F0FF are
the codes 32 to 255 of the font itself. Others have names in Adobe's glyph list.
"""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

MAX_PAGE_CHARS = 500_000
"""More are not read: no page that a person can read has a hundredth of it."""
# A gap between words that is wider than this many times the size of the letters may divide cells or columns.
_WIDE_GAP = 0.7
_HYPHEN = 0xFFFE  # PDFium's mark for a hyphen at the end of a line, in place of the line break
_LINE_ENDS = re.compile("\r\n?|\n|\ufffe")
_SPACE = re.compile(r" +")
_RTL = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_WORD_GAP = 0.15
SECTION_NUMBER = re.compile(
    r"((?:\d{1,3}(?:\.\d{1,3}){0,5}|[A-Z](?:\.\d{1,3}){1,5})\.?|(?:[IVXL]{1,6}|[A-Z])\.)(?=( +)\S)"
)
_CJK = re.compile(
    "[\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff0f\uff1a-\uff20\uff5b-\uffef]"
)
# A space that is narrow, where another of the line is wide, does not end a word before its last letter.
_NARROW, _WIDE_BESIDE, _TIMES_NARROW, _MIN_LAST_LETTERS = 0.2, 0.5, 3, 2
_FIRST_CJK = "\u2e80"
# Gaps between letters that spaces divide, as multiples of their size.
_CJK_GAP = 0.55
_NO_GAP = (-0.15, 0.05)
_LETTERS_APART, _CJK_APART = 0.22, 1.2
_EVEN = 0.12
_MIN_APART = 4
_SINGLE_LETTERS = re.compile(r"(?<!\S)\S(?: +\S(?!\S)){3}")
_CONTROL = re.compile("[\x01\x03-\x08\x0e-\x1f]")
_MAX_CONTROL_SHARE = 0.05
_SAME_PLACE = 0.3  # of the size of the letters
_RUN_IN_STOPS = (".", ":")
_RUN_IN_LETTERS = 3
_SLANT = 5  # degrees; less is as good as straight
_SENTENCE_END = re.compile(r"[.!?:;…。！？][\"”’»')\]]*\Z")
_NUMBER = re.compile(r"\d(?:[\d.,:/-]*\d)?")
_STOPS = ".!?:؟"
_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\x00": None, "\x02": "-"}
)
_UNUSUAL = re.compile("[\x00\x02\ud800-\udfff\ufb00-\ufdff\ufe70-\ufefc]")
_PRESENTATION_FORMS = re.compile("[\ufb50-\ufdff\ufe70-\ufefc]+")
_BOLD_NAME = re.compile(rb"bold|black|heavy|semibd|demi|medi|cm(?:ss)?bx|sfbx|(?<![a-z])bd\b", re.IGNORECASE)
_SUBSET = re.compile(r"\A[A-Z]{6}\+")
_FORCE_BOLD = 1 << 18
_FONT_NAME_BYTES = 100
PRIVATE_USE: Final = re.compile("[\ue000-\uf8ff]")
_FIRST = 0xF000
_SYMBOL_BEGINS = 0x20, 0xA0
_SYMBOL = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\ufffd〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭",
)
_OF_SYMBOL = {
    begin + i: char
    for begin, chars in zip(_SYMBOL_BEGINS, _SYMBOL, strict=True)
    for i, char in enumerate(chars)
    if char != "\ufffd"
}
_OF_WINGDINGS = {
    0x6C: "●",
    0x6E: "■",
    0x6F: "□",
    0x71: "□",
    0x76: "❖",
    0x9F: "•",
    0xA7: "▪",
    0xA8: "□",
    0xD8: "➢",
    0xDF: "←",
    0xE0: "→",
    0xFB: "✗",
    0xFC: "✓",
    0xFD: "☒",
    0xFE: "☑",
}
_FONTS = {b"symbol": _OF_SYMBOL, b"wingdings": _OF_WINGDINGS}
_SMALL_CAPITALS = {0xF700 + ord(char): char for char in "abcdefghijklmnopqrstuvwxyz"}
_PIECES = {0xF8EB + i: char for i, char in enumerate("⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪⎮⎞⎟⎠⎤⎥⎦⎫⎬⎭")}
_BY_NAME = {**_SMALL_CAPITALS, **_PIECES, 0xF8E8: "®", 0xF8E9: "©", 0xF8EA: "™"}


class Break(NamedTuple):
    """A space within a cell: where it is in the text, where the next word begins, and how wide it is."""

    at: int
    begins: float
    gap: float


class Cell(NamedTuple):
    """A part of a line between wide gaps. `breaks`: its spaces, if the line has several parts."""

    left: float
    right: float
    text: str
    breaks: tuple[Break, ...] = ()


class Word(NamedTuple):
    """Text between spaces; `is_divided`: the space after it is a guess of PDFium, where there is no gap."""

    left: float
    right: float
    text: str
    is_divided: bool


class Line(NamedTuple):
    """A line of a page. Lengths are in points; `bottom` grows upwards, from the lower edge of the page.

    `size`: of the letters, in half points. `font`: its name; empty for a line of several fonts. `hyphenated`:
    PDFium removed a hyphen from the end.
    """

    page: int  # from 0
    text: str
    left: float
    right: float
    bottom: float
    size: float
    bold: bool
    hyphenated: bool
    cells: tuple[Cell, ...]
    font: str = ""


class View(NamedTuple):
    """How a page is read: turned by `rotation` degrees clockwise. `width`, `height`: before that."""

    rotation: int
    width: float
    height: float

    def seen(self, left: float, bottom: float, right: float, top: float) -> tuple[float, float, float, float]:
        """Return the left, bottom, right and top of a box on the page as it is read."""
        if self.rotation == 90:
            return bottom, self.width - right, top, self.width - left
        if self.rotation == 180:
            return self.width - right, self.height - top, self.width - left, self.height - bottom
        if self.rotation == 270:
            return self.height - top, left, self.height - bottom, right
        return left, bottom, right, top


class PageText(NamedTuple):
    """`turned`: texts that stand at an angle to most of the page, such as a stamp in the margin.

    `n_unmapped`: glyphs that are left out because their font does not say which characters they are.
    """

    lines: list[Line]
    turned: list[str]
    view: View
    n_unmapped: int


class _Span(NamedTuple):
    """A part of a page's text in PDFium's indices; `middle`: of a character that is no space.

    `angle`, `scale`: of the letters there: degrees, and what their size is multiplied by.
    """

    start: int
    stop: int
    middle: int
    hyphenated: bool
    angle: int
    scale: float


def ends_sentence(text: str) -> bool:
    return _SENTENCE_END.search(text) is not None


class PageReader:
    """Reads the lines of pages; it holds the buffers of the calls to PDFium."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._box = raw.FS_RECTF()
        self._matrix = raw.FS_MATRIX()
        self._font_name = ctypes.create_string_buffer(_FONT_NAME_BYTES)
        self._flags = ctypes.c_int()
        self._fonts: dict[tuple[bytes, bool], tuple[str, bool]] = {}

    def read(self, textpage: Any, page: int, rotation: int, width: float, height: float) -> PageText:
        """Return the text of a page.

        `rotation`: degrees by which the page is turned clockwise, with its `width` and `height` after it.
        """
        if rotation % 180:
            width, height = height, width
        n_chars = min(self._raw.FPDFText_CountChars(textpage), MAX_PAGE_CHARS)
        if n_chars <= 0:
            return PageText([], [], View(rotation, width, height), 0)
        units = self._with_symbols(textpage, self._units(textpage, n_chars))
        whole, n_unmapped = self._without_unmapped(textpage, units)
        spans = list(self._spans(textpage, whole))
        angles: Counter[int] = Counter()
        for span in spans:
            angles[span.angle] += span.stop - span.start
        upright = (angle for angle, _ in angles.most_common() if angle % 90 == 0)
        view = View(next(upright, rotation), width, height)
        lines: list[Line] = []
        turned: dict[int, list[str]] = defaultdict(list)
        for span in spans:
            if span.angle != view.rotation:
                turned[span.angle].append(_joined(whole[span.start : span.stop]))
                continue
            heading, rest = self._divided(textpage, whole, span)
            line = self._line(textpage, page, whole, heading, view)
            if lines and line.text and _continues(lines[-1], line):
                lines[-1] = _merged(lines[-1], line)
            elif line.text:
                lines.append(line)
            if rest is not None:
                lines.append(self._line(textpage, page, whole, rest, view))
        texts = [" ".join(texts) for texts in turned.values()]
        return PageText(list(_drawn_once(lines)), texts, view, n_unmapped)

    def _with_symbols(self, textpage: Any, whole: str) -> str:
        """Return the text with the characters that fonts of symbols mean by codes of their own."""
        return PRIVATE_USE.sub(lambda at: symbol(at.group(), self._font_name_of(textpage, at.start())), whole)

    def _without_unmapped(self, textpage: Any, whole: str) -> tuple[str, int]:
        """Return the text with NUL for glyphs that no character is known of, and their number.

        PDFium gives the code of a glyph where the font maps it to no character. Most fonts have codes that
        are characters all the same. One whose codes are often control characters numbers its glyphs.
        """
        is_unmapped = self._raw.FPDFText_HasUnicodeMapError
        if not any(is_unmapped(textpage, control.start()) == 1 for control in _CONTROL.finditer(whole)):
            return whole, 0
        unmapped: dict[bytes, list[int]] = defaultdict(list)
        for i, char in enumerate(whole):
            if not char.isspace() and is_unmapped(textpage, i) == 1:
                unmapped[self._font_name_of(textpage, i)].append(i)
        chars = list(whole)
        n_unmapped = 0
        for indices in unmapped.values():
            n_control = sum(_CONTROL.match(whole[i]) is not None for i in indices)
            if n_control > _MAX_CONTROL_SHARE * len(indices):
                n_unmapped += len(indices)
                for i in indices:
                    chars[i] = "\0"
        return "".join(chars), n_unmapped

    def _spans(self, textpage: Any, whole: str) -> Iterator[_Span]:
        """Yield the parts of a page's text between line ends that have text."""
        start = 0
        for end in [*_LINE_ENDS.finditer(whole), None]:
            stop = len(whole) if end is None else end.start()
            part = whole[start:stop]
            text = part.strip()
            if text.strip("\x00 "):
                first = start + len(part) - len(part.lstrip())
                last = first + len(text)
                middle = (first + last) // 2
                while whole[middle].isspace():
                    middle += 1
                hyphenated = end is not None and end.group() == "\ufffe"
                yield _Span(first, last, middle, hyphenated, *self._angle_and_scale(textpage, middle))
            if end is not None:
                start = end.end()

    def _angle_and_scale(self, textpage: Any, index: int) -> tuple[int, float]:
        """Return the degrees by which the writing at a character is turned against the clock, 0 to 359, and
        what the size of its letters is multiplied by."""
        matrix = self._matrix
        if not self._raw.FPDFText_GetMatrix(textpage, index, matrix):
            return 0, 1.0
        a, b, c, d = matrix.a, matrix.b, matrix.c, matrix.d
        if a > 0 and b == c == 0:
            return 0, abs(d)
        angle = math.degrees(math.atan2(b, a))
        quarter = round(angle / 90) * 90
        return (quarter if abs(angle - quarter) < _SLANT else round(angle)) % 360, math.hypot(c, d)

    def _units(self, textpage: Any, n_chars: int) -> str:
        """Return one code unit for each index of PDFium: halves of surrogate pairs stay apart until they are
        cut."""
        buffer = (ctypes.c_ushort * (n_chars + 1))()
        written = self._raw.FPDFText_GetText(textpage, 0, n_chars, buffer)
        if written == n_chars + 1:
            text = bytes(buffer)[: 2 * n_chars].decode("utf-16-le", "surrogatepass")
            return text if len(text) == n_chars else "".join(map(chr, buffer[:n_chars]))
        # Some characters have no Unicode, and GetText passes over them: the indices would be wrong.
        units = (self._raw.FPDFText_GetUnicode(textpage, i) for i in range(n_chars))
        return "".join(chr(unit if unit <= 0xFFFF else _HYPHEN - 1) for unit in units)

    def _divided(self, textpage: Any, whole: str, span: _Span) -> tuple[_Span, _Span | None]:
        """Divide a line behind the heading of a section that runs into its paragraph.

        It has a number of several parts, a font of its own, and a stop at its end.
        """
        number = SECTION_NUMBER.match(whole, span.start, span.stop)
        if number is None or "." not in number.group(1).rstrip("."):
            return span, None  # list items run in as well
        first = number.end() + len(number.group(2))
        font = self._font(textpage, first)
        if font == self._font(textpage, span.stop - 1):
            return span, None
        rest = first
        while rest < span.stop and (whole[rest].isspace() or self._font(textpage, rest) == font):
            rest += 1
        title = whole[first:rest].rstrip()
        if title[-1:] not in _RUN_IN_STOPS or sum(map(str.isalpha, title)) < _RUN_IN_LETTERS:
            return span, None
        stop = first + len(title)
        return (
            span._replace(stop=stop, middle=stop - 2, hyphenated=False),
            span._replace(start=rest, middle=max(rest, span.middle)),
        )

    def _line(self, textpage: Any, page: int, whole: str, span: _Span, view: View) -> Line:
        start, stop, middle, hyphenated, _, scale = span
        text = whole[start:stop]
        first, last = self._position(textpage, start, view), self._position(textpage, stop - 1, view)
        size = self._size(textpage, middle, scale)
        if text.isupper():
            size = max(
                size, self._size(textpage, start, self._angle_and_scale(textpage, start)[1])
            )  # small capitals
        font, bold = of_middle = self._font(textpage, middle)
        if self._font(textpage, stop - 1) != of_middle and (
            self._font(textpage, start) != of_middle or self._runs_in(textpage, whole, span)
        ):
            font = ""
        bottom = self._position(textpage, middle, view)[1]  # the first letter may be raised
        if not text.isascii() and _RTL.search(text):
            in_order = self._right_to_left(textpage, text, start, size, view)
            left, right = min(first[0], last[0]), max(first[2], last[2])
            return Line(page, in_order, left, right, bottom, size, bold, False, (), font)
        cells = self._cells(textpage, text, start, size, first[0], last[2], view)
        text = " ".join(cell.text for cell in cells)
        parts = tuple(cells) if len(cells) > 1 else ()
        return Line(page, text, first[0], last[2], bottom, size, bold, hyphenated, parts, font)

    def _runs_in(self, textpage: Any, whole: str, span: _Span) -> bool:
        """Whether the first font of a line ends with a stop, as the title of a paragraph does."""
        font, at = self._font(textpage, span.middle), span.middle
        while at < span.stop and (whole[at].isspace() or self._font(textpage, at) == font):
            at += 1
        return whole[span.start : at].rstrip()[-1:] in _RUN_IN_STOPS

    def _cells(
        self, textpage: Any, text: str, start: int, size: float, left: float, right: float, view: View
    ) -> list[Cell]:
        """Return the parts of a line between wide gaps; one if it has none."""
        spaces: list[tuple[re.Match[str], float, float]] = []
        narrowest, widest = size, 0.0
        read, box = self._raw.FPDFText_GetLooseCharBox, self._box
        for space in _SPACE.finditer(text):
            before, after = space.span()
            if view.rotation:
                ends = self._position(textpage, start + before - 1, view)[2]
                begins = self._position(textpage, start + after, view)[0]
            else:
                read(textpage, start + before - 1, box)
                ends = box.right
                read(textpage, start + after, box)
                begins = box.left
            spaces.append((space, ends, begins))
            gap = begins - ends
            narrowest, widest = min(narrowest, gap), max(widest, gap)
        least = _NO_GAP[1] * size
        is_even = narrowest >= _NARROW * size or widest <= _WIDE_BESIDE * size
        is_plain = narrowest >= least and widest <= _WIDE_GAP * size and is_even
        if is_plain and not _SINGLE_LETTERS.search(text) and (text.isascii() or not _CJK.search(text)):
            return [Cell(left, right, _joined(text))]
        words: list[Word] = []
        at = 0
        for space, ends, begins in spaces:
            is_generated = (
                begins - ends < least and self._raw.FPDFText_IsGenerated(textpage, start + space.start()) == 1
            )
            words.append(Word(left, ends, text[at : space.start()], is_generated))
            left, at = begins, space.end()
        words.append(Word(left, right, text[at:], False))
        return [
            cell if (joined := _joined(cell.text)) == cell.text else Cell(cell.left, cell.right, joined)
            for cell in cells_of_words(words, size)
        ]

    def _position(self, textpage: Any, index: int, view: View) -> tuple[float, float, float]:
        """Return left, bottom and right of a character on the page as it is shown."""
        box = self._box
        if not self._raw.FPDFText_GetLooseCharBox(textpage, index, box):
            return 0.0, 0.0, 0.0
        if not view.rotation:
            return box.left, box.bottom, box.right
        left, bottom, right, _ = view.seen(box.left, box.bottom, box.right, box.top)
        return left, bottom, right

    def _size(self, textpage: Any, index: int, scale: float) -> float:
        """Return the size of a character in points, in steps of a half."""
        size = scale * self._raw.FPDFText_GetFontSize(textpage, index)
        return round(2 * abs(size)) / 2 or 0.5 if math.isfinite(size) else 0.5

    def _font(self, textpage: Any, index: int) -> tuple[str, bool]:
        """Return the name of a character's font, without the mark of a subset, and whether it is bold."""
        name = self._font_name_of(textpage, index)
        key = name, bool(self._flags.value & _FORCE_BOLD)
        if key not in self._fonts:
            # The weight that PDFium reports is a guess from the width of stems, and wrong for many fonts.
            is_bold = bool(name) and (key[1] or _BOLD_NAME.search(name) is not None)
            self._fonts[key] = _SUBSET.sub("", name.decode("utf-8", "replace")), is_bold
        return self._fonts[key]

    def _font_name_of(self, textpage: Any, index: int) -> bytes:
        buffer = self._font_name
        length = self._raw.FPDFText_GetFontInfo(textpage, index, buffer, _FONT_NAME_BYTES, self._flags)
        return buffer.value if 0 < length <= _FONT_NAME_BYTES else b""

    def _right_to_left(self, textpage: Any, text: str, start: int, size: float, view: View) -> str:
        """Return the text of a line with right-to-left writing in its logical order, from the places of
        its characters."""
        glyphs = []
        for i, char in enumerate(text):
            if not char.isspace():
                left, _, right = self._position(textpage, start + i, view)
                glyphs.append(Cell(left, right, char))
        return _joined(logical_order(glyphs, size))


def _drawn_once(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield lines without those that are drawn again at their place, as for bold letters or a shadow."""
    places: dict[str, set[tuple[int, int]]] = {}
    for line in lines:
        step = _SAME_PLACE * line.size
        x, y = int(line.left // step), int(line.bottom // step)
        of_text = places.setdefault(line.text, set())
        if not of_text or not any((x + dx, y + dy) in of_text for dx in (-1, 0, 1) for dy in (-1, 0, 1)):
            of_text.add((x, y))
            yield line


def cells_of_words(words: Sequence[Word], size: float) -> list[Cell]:
    """Return the parts of a line between wide gaps, without the spaces that are within words.

    A space is within a word if it is a guess from no gap, if it stands between characters of Chinese or
    Japanese, if the letters of the word are spaced apart evenly, or if it is narrow before the last letter.
    """
    gaps = [word.left - before.right for before, word in pairwise(words)]
    last_letters = _last_letters(words, gaps, size)
    n_single = [len(word.text) for word in words].count(1)
    apart = _spaced_apart(words, size) if n_single >= _MIN_APART else frozenset()
    cells: list[Cell] = []
    left, text, breaks = words[0].left, words[0].text, list[Break]()
    for i, (before, word) in enumerate(pairwise(words), 1):
        gap = gaps[i - 1]
        a, b = before.text[-1:], word.text[:1]
        is_guess = before.is_divided and a.isalnum() and b.isalnum()
        if gap > _WIDE_GAP * size and i not in apart:
            cells.append(Cell(left, before.right, text, tuple(breaks)))
            left, text, breaks = word.left, "", []
        elif not (
            i in apart
            or (gap < _CJK_GAP * size and is_cjk(a) and is_cjk(b))
            or (is_guess and _NO_GAP[0] < gap / size < _NO_GAP[1])
            or i in last_letters
        ):
            breaks.append(Break(len(text), word.left, gap))
            text += " "
        text += word.text
    return [*cells, Cell(left, words[-1].right, text, tuple(breaks))]


def _last_letters(words: Sequence[Word], gaps: Sequence[float], size: float) -> Set[int]:
    """Return the indices of letters that a narrow space divides from their words, as in some scans.

    `gaps`: before each word but the first. Another gap of the line is wide, and all narrow ones are before
    such a letter or digit; there are at least two.
    """
    widest = max(gaps, default=0.0)
    narrow = min(_NARROW * size, widest / _TIMES_NARROW)
    if widest <= _WIDE_BESIDE * size or min(gaps) >= narrow:
        return frozenset()
    found = [i for i, gap in enumerate(gaps, 1) if _NO_GAP[1] * size <= gap < narrow]
    if len(found) < _MIN_LAST_LETTERS:
        return frozenset()
    pairs = [(words[i - 1].text[-1], words[i].text) for i in found]
    return frozenset(found if all(_is_last(a, text) for a, text in pairs) else ())


def _is_last(before: str, text: str) -> bool:
    """Whether a text may be the last letter, digit or mark of a word that another one precedes."""
    return len(text) == 1 and (
        (before.isalpha() and text.isalpha()) or (before.isdecimal() and text.isdecimal()) or text in ",.)"
    )


def _spaced_apart(words: Sequence[Word], size: float) -> Set[int]:
    """Return the indices of letters that belong to the letter before them though a space is between.

    They are at least `_MIN_APART` single letters in a row, whose gaps or distances are equal.
    """
    apart: set[int] = set()
    start = 0
    for i in range(1, len(words) + 1):
        if i < len(words):
            before, word = words[i - 1], words[i]
            limit = (_CJK_APART if is_cjk(word.text) else _LETTERS_APART) * size
            goes_on = (
                len(before.text) == len(word.text) == 1
                and (word.text.isalnum() or is_cjk(word.text))
                and word.left - before.right < limit
            )
            if goes_on and i - start >= 2:
                first, second = words[start], words[start + 1]
                gap, distance = (
                    second.left - first.right,
                    second.left + second.right - first.left - first.right,
                )
                now = word.left + word.right - before.left - before.right
                goes_on = (
                    abs(word.left - before.right - gap) < _EVEN * size
                    or abs(now - distance) / 2 < _EVEN * size
                )
            if goes_on:
                continue
        if i - start >= _MIN_APART and any(word.text.isalpha() for word in words[start:i]):
            apart.update(range(start + 1, i))
        start = i
    return apart


def is_cjk(char: str) -> bool:
    """Whether a character is one of Chinese or Japanese, which puts no spaces between words."""
    return char >= _FIRST_CJK and _CJK.match(char) is not None


def _continues(before: Line, line: Line) -> bool:
    """Whether PDFium divided a line: after a raised mark, such as that of a footnote, or at a wide gap."""
    size = max(before.size, line.size)
    gap = line.left - before.right
    height = abs(before.bottom - line.bottom)
    if before.hyphenated or gap < -0.1 * size:
        return False
    return height < (0.5 if gap < _WIDE_GAP * size else 0.1) * size


def _merged(before: Line, line: Line) -> Line:
    gap = line.left - before.right
    larger = max(before, line, key=lambda part: len(part.text))
    text = before.text + (" " if gap > _WORD_GAP * line.size else "") + line.text
    cells = [*(before.cells or [Cell(before.left, before.right, before.text)])]
    following = [*(line.cells or [Cell(line.left, line.right, line.text)])]
    if gap < _WIDE_GAP * larger.size:
        first = following.pop(0)
        cells[-1] = Cell(cells[-1].left, first.right, f"{cells[-1].text} {first.text}")
    cells += following
    return larger._replace(
        text=text,
        left=before.left,
        right=line.right,
        hyphenated=line.hyphenated,
        cells=tuple(cells) if len(cells) > 1 else (),
    )


def _joined(text: str) -> str:
    """Return code units as text: surrogate pairs joined, ligatures as letters, single spaces."""
    if not _UNUSUAL.search(text):
        return " ".join(text.split())
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore").translate(_LIGATURES)
    text = _PRESENTATION_FORMS.sub(lambda forms: unicodedata.normalize("NFKC", forms.group()), text)
    return " ".join(text.split())


def logical_order(glyphs: Sequence[Cell], size: float) -> str:
    """Return the characters of a line in the order in which a person reads them.

    `glyphs`: characters without spaces. Runs of letters written from the right are reversed, and so is the
    order of the runs, unless the line ends at the right like one written from the left.
    """
    text = _spaced(sorted(glyphs, key=lambda glyph: glyph.left + glyph.right), size)
    from_right = [_RTL.match(char) is not None and not char.isdecimal() for char in text]
    letters = [i for i, char in enumerate(text) if from_right[i] or char.isalpha()]
    ends_at_right = text[-1:] in _STOPS and text[:1] not in _STOPS
    base_is_right = 2 * sum(from_right) >= len(letters) and not ends_at_right
    # What is between letters of one direction has it too; the rest has that of the line.
    for before, after in zip([None, *letters], [*letters, None], strict=True):
        direction = base_is_right
        if before is not None and after is not None and from_right[before] == from_right[after]:
            direction = from_right[before]
        for i in range(0 if before is None else before + 1, len(text) if after is None else after):
            from_right[i] = direction
    runs = []
    for direction, indices in groupby(range(len(text)), key=from_right.__getitem__):
        run = "".join(map(text.__getitem__, indices))
        # Numbers are written from the left everywhere.
        runs.append(_NUMBER.sub(lambda number: number.group()[::-1], run[::-1]) if direction else run)
    return "".join(reversed(runs) if base_is_right else runs)


def _spaced(glyphs: Sequence[Cell], size: float) -> str:
    """Return glyphs with spaces in their gaps. Spaces of the file itself are often in the wrong place."""
    parts = []
    end = math.inf
    for left, right, char, _ in glyphs:
        if left - end > _WORD_GAP * size:
            parts.append(" ")
        parts.append(char)
        end = right if end == math.inf else max(end, right)
    return "".join(parts)


def symbol(char: str, font: bytes) -> str:
    """Return what a character of the private use area means in a font; the character if it is not known."""
    code = ord(char)
    name = font.lower()
    table = next((table for key, table in _FONTS.items() if key in name), {})
    return table.get(code - _FIRST) or _BY_NAME.get(code, char)
