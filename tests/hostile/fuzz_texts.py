"""Generators of hostile text: pieces of every format's syntax, repeated, nested, framed and mutated."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

MARKUP = [
    "# ", "## A\n", "###\n", "#", "######", "====\n", "===", "== ", " ==", "==", "---\n", "--\n", "-", "***\n", "* ", "*", "**", "_", "__", "- ", "+ ",
    "1. ", "2) ", "1986. a\n", "1.", "> ", ">\n", "`", "```\n", "```", "~~~\n", "~~~ x\n", "|", "| a | b |\n", "|---|---|\n", "|-", "[", "]", "(", ")",
    "[a](b)", "](", "[a](", "![x](y)", "![", "[1]: u\n", "[a]: ", "[^1]", "[^1]: ", "[edit]", "[12]", "[[", "]]", "]( \"", "<!--", "-->", "<!-- ", "<b>",
    "</b>", "<a ", "<", ">", "<br/>", "<?", "?>", "<![CDATA[", "]]>", "&amp;", "&a", "&#0;", "&#x110000;", "&", "http://x.org/y", "http://", "www.",
    "{#id}", "{.a}", "{#a .b}", "{", "}", "{{", "}}", ":::", "~~", "^", "$$", "\\", "\\(", "• ", "©", "…", "...", "Main article: ", "x\n---|---\n",
    "+++\n", "+++", "---\ntitle: x\n---\n", "title: ", "title:", "Title: ", "tags: [a, b]\n", "tags:\n", "- a\n", "a: b\n", "key: ", "\n!\n", "!", ": ", "=",
    '"', "'", "“", "”", "‘", "’", "—", "–", "CHAPTER I\n", "CHAPTER II. Title\n", "CHAPTER I\n\n", "CHAPTER ", "I\n", "I\n\n", "IV. ", "PREFACE\n",
    "== H ==\n", "== a ==\n", "BOOK THE FIRST\n", "ACT I\n", "SCENE II.\n", "Part 1\n", "1.1.1 A\n", "A\n=\n", "a\n---\n", "a\n===\n", "\n---", "\n=",
]  # fmt: skip
SPACES = [" ", "  ", "    ", "\t", "\n", "\n\n", "a\n\n\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u00a0", "\u2028", "\u2029", "\u3000", "\u200b", "\ufeff"]  # fmt: skip
WORDS = [
    "a", "a ", "a. ", "word", "Word. ", "two words", "Mr. ", "e.g. ", "U.S. ", "B-17", "3.14", "1,000", "?", "!", "?!", ".", ",", ";", "don't", "'s", "’s", "lava ",
    "volcano ", "bank ", "the ", "of the ", "Lead text here", "well-known ", "-", "a-", "x.y.", "No. ", "i.e.", "Dr.", "1", "0", "IV", "é", "e\u0301", "\u0301",
    "ß", "İ", "ﬁ", "²", "½", "。", "漢字", "שלום", "مرحبا", "🙂", "👨‍👩‍👧", "\u202e", "\U0010ffff", "ǅ", "ŉ", "A" * 60, "x" * 300, "zzxqy ", "Zzxqy ", "McZzxqy ",
]  # fmt: skip
BROKEN = ["\x00", "\x07", "\x1b[31m", "\x7f", "\x9f", "\ud800", "\udfff", "\ufffe", "\uffff"]
PIECES = [*MARKUP, *SPACES, *WORDS, *BROKEN]

FRAMES = [
    ("---\n", "\n---\n"), ("---\n", "\n!\n---\n"), ("+++\n", "\n+++\n"), ("+++\n", "\n!\n+++\n"), ("---\ntitle: ", "\n---\n"), ("---\ntags: [", "]\n---\n"),
    ("---\ntags:\n", "\n---\n"), ("# ", "\n"), ("# ", " #\n"), ("== ", " =="), ("== a", "b =="), ("a", "b\n===\n"), ("**", "**"), ("_", "_"), ("`", "`"),
    ("```\n", "\n```\n"), ("<!--", "-->"), ("<", ">"), ("<a href='", "'>"), ("[", "](x)"), ("[x](", ")"), ("[x](<", ">)"), ("[", "]: x\n"), ("[x]: ", "\n"),
    ("[x]: y \"", "\"\n"), ("[^", "]"), ("| ", " |\n|---|\n"), ("|", "|"), ("> ", "\n"), ("- ", "\n"), ("1. ", "\n"), ("    ", "\n"), ("CHAPTER ", "\n\n"), ("a ", "."),
    ("(", ")"), ('"', '"'), ("“", "”"), ("text\n\n", "\n\ntext"), ("Main article: ", "\n"), ("http://", " "), ("&", ";"), ("{", "}"), ("\n", "\n"), ("x", "x"), (" ", "x"),
]  # fmt: skip
BRACKETS = [("[", "]"), ("(", ")"), ("<", ">"), ("{", "}"), ("> ", ""), ("- ", ""), ("* ", "*"), ("**", "**"), ("_", "_"), ("`", "`"), ("<b>", "</b>"), ("<!--", "-->"), ("![", "](x)"), ("[", "](x)"), ("“", "”"), ("  ", "")]  # fmt: skip

PROSE = (
    "Magma rises through the crust. Lava and ash pour from the crater of the volcano, and the rock is "
    "basalt. A flower grows from a seed; the root and the leaf feed the plant. The judge asked the jury for "
    "a verdict. "
)
MOST_REPETITIONS = 200_000


def size(rng: random.Random, low: int, high: int) -> int:
    """Draw a number between `low` and `high`, with equally likely orders of magnitude."""
    return min(high, max(low, round(low * (high / low) ** rng.random())))


def text(rng: random.Random, largest: int) -> str:
    """Generate a text of at most `largest` characters."""
    kind = rng.choices((mixed, repeated, nested, lines, in_prose), (5, 5, 1, 2, 1))[0]
    made = kind(rng, largest)
    while rng.random() < 0.35:
        before, after = rng.choice(FRAMES)
        made = before + made + after
    return made[:largest]


def piece(rng: random.Random, pieces: Sequence[str] = PIECES) -> str:
    if rng.random() < 0.05:
        return "".join(
            chr(rng.choice((rng.randrange(128), rng.randrange(0x3000), rng.randrange(0x110000))))
            for _ in range(rng.randint(1, 4))
        )
    return rng.choice(pieces)


def mixed(rng: random.Random, largest: int) -> str:
    return "".join(piece(rng) for _ in range(size(rng, 1, 60)))[:largest]


def repeated(rng: random.Random, largest: int, pieces: Sequence[str] = PIECES) -> str:
    """Generate a prefix, a fragment repeated many times, and a suffix."""
    fragment = "".join(piece(rng, pieces) for _ in range(rng.choice((1, 1, 1, 2, 2, 3))))
    n = min(MOST_REPETITIONS, size(rng, 8, max(9, largest // len(fragment))))
    before = "".join(piece(rng, pieces) for _ in range(rng.randint(0, 3)))
    behind = "".join(piece(rng, pieces) for _ in range(rng.randint(0, 3)))
    return before + fragment * n + behind


def nested(rng: random.Random, largest: int) -> str:
    before, after = rng.choice(BRACKETS)
    n = size(rng, 2, max(3, largest // len(before + after)))
    return before * n + piece(rng) + after * rng.choice((n, n, n - 1, 0))


def lines(rng: random.Random, largest: int) -> str:
    """Generate a hostile line, repeated many times."""
    line = repeated(rng, min(400, largest)).replace("\n", " ") + rng.choice(("\n", "\n\n", "\r\n", "\n> "))
    return line * size(rng, 2, max(3, largest // len(line)))


def in_prose(rng: random.Random, largest: int) -> str:
    prose = PROSE * rng.randint(1, 6)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(prose))
        prose = prose[:at] + rng.choice((mixed, repeated))(rng, max(16, largest // 16)) + prose[at:]
    return prose


# Bytes of anything


def mutate(rng: random.Random, data: bytes, other: bytes, largest: int) -> bytes:
    """Change `data` in a few places; parts of `other` may be spliced in."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        data = rng.choice(MUTATIONS)(rng, data, other, largest)
    return data


def _span(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + size(rng, 1, max(2, len(data))))


def _flip(rng: random.Random, data: bytes, _other: bytes, _largest: int) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice((0, 255, rng.randrange(256), rng.choice(data)))
    return bytes(changed)


def _truncate(rng: random.Random, data: bytes, _other: bytes, _largest: int) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _delete(rng: random.Random, data: bytes, _other: bytes, _largest: int) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def _amplify(rng: random.Random, data: bytes, _other: bytes, largest: int) -> bytes:
    start, end = _span(rng, data)
    part = data[start : min(end, start + 200)]
    room = largest - len(data)
    if not part or room < len(part):
        return data
    return data[:start] + part * min(MOST_REPETITIONS, size(rng, 1, room // len(part) + 1)) + data[start:]


def _insert(rng: random.Random, data: bytes, _other: bytes, _largest: int) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + piece(rng).encode("utf-8", "surrogatepass") + data[at:]


def _splice(rng: random.Random, data: bytes, other: bytes, largest: int) -> bytes:
    return (data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :])[:largest]


def _move(rng: random.Random, data: bytes, _other: bytes, _largest: int) -> bytes:
    start, end = _span(rng, data)
    rest = data[:start] + data[end:]
    at = rng.randrange(len(rest) + 1)
    return rest[:at] + data[start:end] + rest[at:]


MUTATIONS: tuple[Callable[[random.Random, bytes, bytes, int], bytes], ...] = (_flip, _truncate, _delete, _amplify, _amplify, _insert, _insert, _splice, _move)  # fmt: skip
