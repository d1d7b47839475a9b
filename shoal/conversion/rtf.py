"""Rich Text Format: paragraphs, headings by style or outline level, lists, tables and notes."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field, replace

from shoal.conversion.converted import Converted, Draft, broken
from shoal.conversion.metadata import described

MAX_GROUPS = 1000
"""Of groups in each other; programs write fewer than 20."""
_MAX_UNICODE_SKIP = 8
_MAX_MARK_CHARS = 20
_TOKEN = re.compile(
    r"""\\(?: '([0-9a-fA-F]{2}) | ([a-zA-Z]{1,32})(-?\d{1,10})?[ ]? | ([^a-zA-Z']) )
      | ([{}]) | ([^\\{}\r\n]+) | [\r\n]+ | \\""",
    re.VERBOSE,
)
_BODY_LEVEL = 9
_HEADING_STYLE = re.compile(r"heading (\d)", re.IGNORECASE)
_MARKS = ("listtext", "pntext")
# The mark of an item: its number, or a bullet.
_ITEM = re.compile(r"\s*(?:\(?(\d{1,9})[.)]|[^\w\s]|[a-z]{1,4}[.)])\s*", re.IGNORECASE)
# As text of the paragraph, it ends with a tab.
_ITEM_TEXT = re.compile(r"\s*(?:(\d{1,9})[.)]|[•◦▪–-])\t\s*")
# Groups that are no text of the document.
_PASSED_OVER = frozenset(
    {
        "fonttbl", "colortbl", "stylesheet", "listtable", "listoverridetable", "revtbl", "rsidtbl",
        "generator", "themedata", "colorschememapping", "latentstyles", "datastore", "xmlnstbl",
        "filetbl", "pict", "object", "objdata", "fldinst", "pn", "bkmkstart",
        "bkmkend", "atnid", "atnauthor", "atndate", "atnref", "nonshppict", "mmathPr",
        "info", "private", "fontemb", "fontfile", "xe", "tc", "template", "datafield", "formfield",
        "panose", "pgdsctbl", "ftnsep", "ftnsepc", "aftnsep", "aftnsepc", "ftncn", "aftncn", "userprops",
        "docvar", "listpicture", "background", "sp", "sn", "sv", "picprop", "blipuid", "falt", "fname",
        "staticval", "keycode", "stylerestrictions", "factoidname",
    }
)  # fmt: skip
# What a file says of itself, by the word of its group.
_INFO = {
    "author": "author", "subject": "subject", "keywords": "keywords", "company": "publisher",
    "creatim": "created", "revtim": "modified",
}  # fmt: skip
# Texts that come after the document, each kind below its heading.
_APPENDED = {
    "headerf": "Header and footer of the first page",
    "footerf": "Header and footer of the first page",
    "annotation": "Comments",
}
_DATA = frozenset({"pict", "objdata"})
_HEADERS = {
    **dict.fromkeys(("header", "headerl", "headerr"), "repeated header"),
    **dict.fromkeys(("footer", "footerl", "footerr"), "repeated footer"),
}
_KEPT_STARRED = frozenset(
    {"annotation", "shpinst", "shptxt", "footnote", "fldrslt", "nesttableprops", "shppict"}
)
_CHARACTERS = {
    "tab": "\t", "line": "\n", "lbr": "\n", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘",
    "rquote": "’", "ldblquote": "“", "rdblquote": "”", "emspace": " ", "enspace": " ", "qmspace": " ",
    "page": " ", "column": " ", "softline": "\n",
}  # fmt: skip
_SYMBOLS = {"~": "\xa0", "_": "-", "-": "", "\\": "\\", "{": "{", "}": "}", "\t": "\t"}
# Code pages by the number of the character set of a font.
_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "cp950", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Group:
    """What a group inherits and forgets at its end."""

    destination: str = "text"  # or "skip", "note", "title", "removed", "mark", "fonts", "styles", "info"
    reason: str = ""  # of a removed group, or the name of what is said of the file
    encoding: str = "cp1252"
    unicode_skip: int = 1
    hidden: bool = False


@dataclass(slots=True)
class _Paragraph:
    level: int | None = None
    style: int = -1
    list_depth: int | None = None
    mark: str = ""  # of an item: its number or a bullet
    in_table: bool = False


@dataclass(slots=True)
class _State:
    groups: list[_Group] = field(default_factory=list)
    group: _Group = field(default_factory=_Group)
    paragraph: _Paragraph = field(default_factory=_Paragraph)
    begins_group: bool = False  # nothing but a star was read in the group
    starred: bool = False
    to_skip: int = 0  # characters that stand for a Unicode character before them
    pending: bytearray = field(default_factory=bytearray)


def convert_rtf(data: bytes, name: str) -> Converted:
    """Convert an RTF file. Pictures, embedded objects and fields' instructions are left out."""
    if not data.lstrip()[:5].startswith(b"{\\rtf"):
        raise broken("it is not Rich Text, which begins with {\\rtf")
    return _Reader(data.decode("latin-1")).convert()


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.draft = Draft()
        self.state = _State()
        self.text: list[str] = []  # of the open paragraph
        self.cells: list[str] = []
        self.rows: list[list[str]] = []
        self.notes: list[list[str]] = []
        self.title: list[str] = []
        self.info: dict[str, str] = {}
        self.removed: list[str] = []
        self.appended: dict[str, list[str]] = {}
        self.collected: list[str] = []  # in the tables of fonts and styles
        self.fonts: dict[int, str] = {}
        self.default_encoding = "cp1252"
        self.font = self.style = -1
        self.style_level: int | None = None
        self.levels: dict[int, int] = {}  # of headings by style
        self.numbers: list[int] = []
        self.default_font = 0

    def convert(self) -> Converted:
        at, n_chars = 0, len(self.source)
        while at < n_chars:
            match = _TOKEN.match(self.source, at)
            assert match is not None, "the pattern matches any character"
            at = match.end()
            hexadecimal, word, number, symbol, brace, text = match.groups()
            if text is not None:
                self._text(text)
            elif word is not None:
                value = int(number) if number else None
                if word == "bin":
                    at += min(max(value or 0, 0), n_chars - at)
                else:
                    self._word(word, value)
            elif hexadecimal is not None:
                self._byte(int(hexadecimal, 16))
            elif brace == "{":
                self._open()
            elif brace == "}":
                if not self._close():
                    break
            elif symbol is not None:
                self._symbol(symbol)
        self._flush()
        if self.state.groups:
            self.draft.warn("the end of the file is missing")
        self._end_paragraph()
        self._end_table()
        self._append_notes()
        return self.draft.converted("".join(self.title), metadata=described(**self.info))

    def _append_notes(self) -> None:
        """Write footnotes, and the texts that come after the document."""
        for i, note in enumerate(self.notes, 1):
            self.draft.paragraph(f"[^{i}] {' '.join(''.join(note).split())}")
        for title, texts in self.appended.items():
            if any(text.strip() for text in texts):
                self.draft.heading(1, title)
            for text in texts:
                self.draft.paragraph(text)

    # Groups

    def _open(self) -> None:
        self._flush()
        state = self.state
        if len(state.groups) >= MAX_GROUPS:
            raise broken("its groups are nested too deeply")
        state.groups.append(state.group)
        state.begins_group = True
        state.starred = False
        state.to_skip = 0

    def _close(self) -> bool:
        """End a group; False at the end of the document."""
        self._flush()
        state = self.state
        ended = state.group
        if not state.groups:
            return False
        state.group = state.groups.pop()
        state.begins_group = state.starred = False
        state.to_skip = 0
        if ended.destination == "styles":
            self._end_style()
        if ended.destination == "removed" and state.group.destination != "removed":
            text = "".join(self.removed)
            self.removed = []
            if ended.reason in _APPENDED.values():
                self.appended.setdefault(ended.reason, []).append(text)
            else:
                self.draft.remove(ended.reason, text)
        return bool(state.groups)

    def _enter(self, destination: str, reason: str = "") -> None:
        if self.state.group.destination not in ("skip", "fonts", "styles"):
            self.state.group = replace(self.state.group, destination=destination, reason=reason)

    # Tokens

    def _word(self, word: str, value: int | None) -> None:
        state = self.state
        starred, state.starred = state.starred, False
        begins_group, state.begins_group = state.begins_group, False
        if word != "u":
            self._flush()
            state.to_skip = 0
        if word == "u" and value is not None:
            self._unicode(value)
        elif word in _CHARACTERS:
            self._emit(_CHARACTERS[word])
        elif (
            self._destination(word, begins_group=begins_group)
            or self._format(word, value)
            or self._table_of(word, value)
        ):
            pass
        elif starred and word not in _KEPT_STARRED:
            self._enter("skip")

    def _destination(self, word: str, *, begins_group: bool) -> bool:
        """Begin a group of another kind of text; False if the word is none that does.

        What is no text begins with its group; a word in the middle of a text takes away nothing but data.
        """
        if word in ("fonttbl", "stylesheet"):
            self._enter("fonts" if word == "fonttbl" else "styles")
        elif word in _INFO and begins_group and self.state.group.destination == "skip":
            self.state.group = replace(self.state.group, destination="info", reason=_INFO[word])
        elif word == "title":
            self.state.group = replace(self.state.group, destination="title")
        elif word in _HEADERS and begins_group:
            self._enter("removed", _HEADERS[word])
        elif word in _APPENDED and begins_group:
            self._enter("removed", _APPENDED[word])
        elif word == "footnote":
            if self.state.group.destination == "text":
                self.notes.append([])
                self.text.append(f"[^{len(self.notes)}]")
                self._enter("note")
        elif word in _MARKS:
            self._enter("mark")
        elif word in _PASSED_OVER and (begins_group or word in _DATA):
            self._enter("skip")
        else:
            return False
        return True

    def _format(self, word: str, value: int | None) -> bool:  # noqa: C901 - one case for each word
        """Apply a word of the format; False if it is of another kind."""
        state = self.state
        paragraph = state.paragraph
        is_text = state.group.destination == "text"
        match word:
            case "yr" | "mo" | "dy" if state.group.destination == "info":
                digits = f"{min(max(value or 0, 0), 9999):0{4 if word == 'yr' else 2}}"
                self._emit(digits if word == "yr" else f"-{digits}")
            case "par" | "sect":
                self._emit("\n") if not is_text else self._end_paragraph()
            case "pard":
                if is_text:
                    state.paragraph = _Paragraph()
            case "cell" | "nestcell" if is_text:
                self._end_cell()
            case "row" if is_text:
                self._end_row()
            case "intbl":
                paragraph.in_table = True
            case "outlinelevel" if state.group.destination == "styles":
                self.style_level = value
            case "outlinelevel" if is_text:
                paragraph.level = value
            case "s" if state.group.destination == "styles":
                self.style = value or 0
            case "s" if is_text:
                paragraph.style = value or 0
            case "ls" if is_text:
                paragraph.list_depth = paragraph.list_depth or 0
            case "ilvl" if is_text:
                paragraph.list_depth = min(max(value or 0, 0), 8)
            case "v" | "deleted":
                state.group = replace(state.group, hidden=value != 0)
            case "plain":
                state.group = replace(state.group, hidden=False)
            case "uc":
                state.group = replace(state.group, unicode_skip=min(max(value or 0, 0), _MAX_UNICODE_SKIP))
            case _:
                return False
        return True

    def _table_of(self, word: str, value: int | None) -> bool:
        """Apply a word about fonts and code pages; False if it is of another kind."""
        state = self.state
        match word:
            case "ansicpg":
                self.default_encoding = _code_page(f"cp{value}", self.default_encoding)
                state.group = replace(state.group, encoding=self.default_encoding)
            case "mac":
                self.default_encoding = "mac_roman"
                state.group = replace(state.group, encoding="mac_roman")
            case "deff":
                self.default_font = value or 0
            case "f" if state.group.destination == "fonts":
                self.font = value or 0
            case "fcharset" if state.group.destination == "fonts":
                if value:
                    self.fonts[self.font] = _CHARSETS.get(value, self.default_encoding)
            case "f":
                encoding = self.fonts.get(value or 0, self.default_encoding)
                state.group = replace(state.group, encoding=encoding)
            case _:
                return False
        return True

    def _symbol(self, symbol: str) -> None:
        if symbol == "*":
            self.state.starred = self.state.begins_group
            return
        self._flush()
        self.state.begins_group = False
        if symbol in "\r\n":
            self._word("par", None)
        else:
            self._emit(_SYMBOLS.get(symbol, ""))

    def _byte(self, byte: int) -> None:
        self.state.begins_group = False
        if self.state.to_skip:
            self.state.to_skip -= 1
        else:
            self.state.pending.append(byte)

    def _text(self, text: str) -> None:
        self.state.begins_group = False
        skipped = min(self.state.to_skip, len(text))
        self.state.to_skip -= skipped
        text = text[skipped:]
        if not text:
            return
        if text.isascii() and not self.state.pending:
            self._emit(text)
        else:
            # The second byte of a character may be a letter.
            self.state.pending += text.encode("latin-1")

    def _unicode(self, value: int) -> None:
        self._flush()
        unit = value & 0xFFFF if -0x8000 <= value <= 0xFFFF else 0xFFFD
        self._emit(chr(unit))
        self.state.to_skip = self.state.group.unicode_skip

    def _flush(self) -> None:
        if self.state.pending:
            text = bytes(self.state.pending).decode(self.state.group.encoding, errors="replace")
            self.state.pending.clear()
            self._emit(text)

    def _emit(self, text: str) -> None:
        group = self.state.group
        if group.hidden:
            return
        match group.destination:
            case "text":
                self.text.append(text)
            case "note":
                self.notes[-1].append(text)
            case "title":
                self.title.append(text)
            case "info":
                self.info[group.reason] = self.info.get(group.reason, "") + text
            case "removed":
                self.removed.append(text)
            case "mark":
                self.state.paragraph.mark += text[:_MAX_MARK_CHARS]
            case "styles":
                self.collected.append(text)

    def _end_style(self) -> None:
        name = "".join(self.collected).rstrip(";").strip()
        self.collected = []
        match = _HEADING_STYLE.match(name)
        if match:
            self.levels[self.style] = int(match.group(1)) - 1
        elif name.casefold() == "title":
            self.levels[self.style] = 0
        elif self.style_level is not None:
            self.levels[self.style] = self.style_level
        self.style, self.style_level = 0, None

    # Blocks

    def _take_text(self) -> str:
        text = "".join(self.text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self.text = []
        return text

    def _end_paragraph(self) -> None:
        paragraph = self.state.paragraph
        if paragraph.in_table:
            self.text.append(" ")
            return
        text = self._take_text()
        mark, paragraph.mark = paragraph.mark, ""
        if not text.strip():
            return
        self._end_table()
        level = paragraph.level if paragraph.level is not None else self.levels.get(paragraph.style)
        if level is not None and 0 <= level < _BODY_LEVEL:
            self.draft.heading(level + 1, text)
        elif paragraph.list_depth is not None or mark.strip():
            self._item(paragraph.list_depth or 0, text, _ITEM.fullmatch(mark))
        elif written := _ITEM_TEXT.match(text):
            self._item(0, text[written.end() :], written)
        else:
            self.draft.paragraph(text)

    def _item(self, depth: int, text: str, mark: re.Match[str] | None) -> None:
        number = mark.group(1) if mark is not None else None
        self.draft.item(depth, text, int(number) if number else None)

    def _end_cell(self) -> None:
        self.cells.append(self._take_text())

    def _end_row(self) -> None:
        if self.cells:
            self.rows.append(self.cells)
        self.cells = []
        self.state.paragraph.in_table = False

    def _end_table(self) -> None:
        self._end_row()
        if self.rows:
            self.draft.table(self.rows)
        self.rows = []


def _code_page(name: str, default: str) -> str:
    """Return the name of an encoding that Python has and that is one of single characters."""
    try:
        return codecs.lookup({"cp10000": "mac_roman", "cp65001": "utf-8"}.get(name, name)).name
    except LookupError:
        return default
