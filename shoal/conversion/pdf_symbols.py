"""Characters of the private use area that fonts of symbols use by custom.

Codes U+F020 to U+F0FF are the codes 32 to 255 of the font itself. Others have names in Adobe's glyph list.
"""

from __future__ import annotations

import re
from typing import Final

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


def symbol(char: str, font: bytes) -> str:
    """Return what a character of the private use area means in a font; the character if it is not known."""
    code = ord(char)
    name = font.lower()
    table = next((table for key, table in _FONTS.items() if key in name), {})
    return table.get(code - _FIRST) or _BY_NAME.get(code, char)
