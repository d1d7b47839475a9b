"""Visible words of Rich Text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shoal.conversion.accounts.markup import FilePart, words_of

_TOKEN = re.compile(
    rb"\\'([0-9a-fA-F]{2})|\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\([^a-zA-Z'])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_BREAKS = frozenset(b"par line tab cell row page sect column nestcell nestrow softline".split())
_MARKS = {
    b"emdash": "\u2014", b"endash": "\u2013", b"lquote": "\u2018", b"rquote": "\u2019",
    b"ldblquote": "\u201c", b"rdblquote": "\u201d", b"bullet": "\u2022",
}  # fmt: skip
_HIDDEN = frozenset(
    b"fonttbl colortbl stylesheet info listtable listoverridetable revtbl rsidtbl generator pict objdata "
    b"fldinst xmlnstbl themedata colorschememapping latentstyles datastore filetbl nonshppict pntext "
    b"listtext pnseclvl bkmkstart bkmkend atnid atnauthor atntime atndate atnicn atnref atrfstart atrfend "
    b"template operator mmathPr tc xe txe rxe upr blipuid picprop sp".split()
)
_KINDS = {
    **dict.fromkeys((b"header", b"headerl", b"headerr", b"headerf"), "header"),
    **dict.fromkeys((b"footer", b"footerl", b"footerr", b"footerf"), "footer"),
    b"footnote": "footnote", b"annotation": "comment", b"shptxt": "text box",
}  # fmt: skip
_SHOWN = frozenset(b"shptxt shpinst annotation ud fldrslt shprslt footnote objattph".split())
_CODE_PAGE = re.compile(rb"\\ansicpg(\d{3,5})")
_FONT_SET = re.compile(rb"\\f(\d{1,5})(?:\s?\\[a-z]{1,20}-?\d{0,10}){0,8}?\s?\\fcharset(\d{1,3})")
_HEAD_BYTES = 1_000_000
_CHARSETS = {
    b"77": "mac_roman", b"128": "cp932", b"129": "cp949", b"134": "gbk", b"136": "big5", b"161": "cp1253",
    b"162": "cp1254", b"163": "cp1258", b"177": "cp1255", b"178": "cp1256", b"186": "cp1257",
    b"204": "cp1251", b"222": "cp874", b"238": "cp1250",
}  # fmt: skip


def rtf_parts(data: bytes) -> Iterator[FilePart]:
    """Yield the text by kind, without what is hidden or deleted, and without instructions."""
    for kind, text in _Scanner(data).texts().items():
        if words := words_of(text):
            yield FilePart(kind, "", words)


@dataclass(frozen=True, slots=True)
class _Group:
    """`kind`: of its text, empty if it has none; `n_after`: characters after a \\u for older programs."""

    kind: str
    charset: str
    n_after: int = 1
    is_hidden: bool = False

    @property
    def target(self) -> str:
        return "" if self.is_hidden else self.kind


class _Scanner:
    def __init__(self, data: bytes) -> None:
        self._data = data
        found = _CODE_PAGE.search(data[:2000])
        self._page = _known(f"cp{found.group(1).decode()}" if found else "cp1252")
        self._fonts = {
            number: _CHARSETS.get(charset, self._page)
            for number, charset in _FONT_SET.findall(data[:_HEAD_BYTES])
        }
        self._group = _Group("text", self._page)
        self._groups: list[_Group] = []
        self._bytes = bytearray()
        self._out: defaultdict[str, list[str]] = defaultdict(list)
        self._skip = 0  # characters, after a \\u
        self._binary_end = 0
        self._begins, self._is_optional = False, False

    def texts(self) -> dict[str, str]:
        for token in _TOKEN.finditer(self._data):
            if token.start() < self._binary_end:
                continue
            code, word, number, sign, brace, text = token.groups()
            if text is not None:
                self._add(text)
            elif code is not None:
                self._add(bytes([int(code, 16)]))
            elif word is not None:
                self._flush()
                self._word(word, number, token.end())
            elif brace is not None:
                self._flush()
                self._brace(brace)
            elif sign is not None:
                self._flush()
                self._sign(sign)
        self._flush()
        self._out.pop("", None)
        joined = {kind: "".join(texts) for kind, texts in self._out.items()}
        return {
            kind: text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            for kind, text in joined.items()
        }

    def _add(self, text: bytes) -> None:
        self._begins = False
        if self._skip:
            text, self._skip = text[self._skip :], max(0, self._skip - len(text))
        if self._group.target:
            self._bytes += text

    def _flush(self) -> None:
        if self._bytes:
            self._out[self._group.target].append(self._bytes.decode(self._group.charset, "replace"))
            self._bytes.clear()

    def _brace(self, brace: bytes) -> None:
        self._skip = 0
        self._begins, self._is_optional = brace == b"{", False
        if brace == b"{":
            self._groups.append(self._group)
        elif self._groups:
            self._group = self._groups.pop()

    def _sign(self, sign: bytes) -> None:
        if sign == b"*":
            self._is_optional = self._begins
            return
        self._begins = False
        shown = {b"~": " ", b"_": "-", b"\n": "\n", b"\r": "\n"}.get(sign, "")
        self._out[self._group.target].append(sign.decode() if sign in b"\\{}" else shown)

    def _word(self, word: bytes, number: bytes | None, end: int) -> None:
        if self._begins and self._begin(word):
            self._begins = False
            return
        self._begins = False
        if self._skip and word != b"u":
            self._skip -= 1
        if word in _BREAKS:
            self._out[self._group.target].append("\n")
        elif word in _MARKS:
            self._out[self._group.target].append(_MARKS[word])
        elif word == b"u":
            self._out[self._group.target].append(chr(int(number or 0) % 65536))
            self._skip = self._group.n_after
        elif word == b"bin":
            self._binary_end = end + max(0, int(number or 0))
        else:
            self._format(word, number)

    def _begin(self, word: bytes) -> bool:
        """Take the first word of a group; return whether it says what the group is."""
        if word == b"ud":
            self._group = replace(self._group, kind="text")
        elif word in _HIDDEN or (self._is_optional and word not in _SHOWN):
            self._group = replace(self._group, kind="")
        elif word in _KINDS and self._group.kind:
            self._group = replace(self._group, kind=_KINDS[word])
        else:
            return False
        return True

    def _format(self, word: bytes, number: bytes | None) -> None:
        if word == b"uc":
            self._group = replace(self._group, n_after=min(max(int(number or 1), 0), 10))
        elif word in (b"v", b"deleted"):
            self._group = replace(self._group, is_hidden=number != b"0")
        elif word == b"plain" and self._group.is_hidden:
            self._group = replace(self._group, is_hidden=False)
        elif word == b"f" and number is not None:
            charset = self._fonts.get(number, self._page)
            if charset != self._group.charset:
                self._group = replace(self._group, charset=charset)


def _known(encoding: str) -> str:
    try:
        return "cp1252" if b"a".decode(encoding) != "a" else encoding
    except (LookupError, ValueError):
        return "cp1252"
