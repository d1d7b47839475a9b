"""Words of files that are XML or HTML, compared with the words of the documents made of them.

The visible text of markup is read by its text nodes: tags are found by patterns, not by a tree. A word is a
run of letters and digits, in normal form NFKC and without case. In scripts that put no spaces between words,
each character counts. White space, punctuation and marks are no words.
"""

from __future__ import annotations

import codecs
import html
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shoal.errors import DocumentError
from shoal.formats.decoding import decode

_MIN_CONFIDENCE = 0.5
_ENCODING = re.compile(
    rb"""<\?xml[^>]{0,200}encoding\s{0,9}=\s{0,9}["']([\w.:-]{1,40})|<meta[^>]{0,200}charset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:-]{1,40})""",
    re.IGNORECASE,
)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEAD_BYTES = 4096
_HIDDEN_SECTIONS = (("<!--", "-->"), ("<?", "?>"))
_INLINE = (
    "a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|nobr|q|s|samp|small|span|strike|"
    "strong|sub|sup|time|tt|u|var|wbr"
)
_RAW = re.compile(r"<(?:[sS](?:cript|tyle|CRIPT|TYLE)|[tT](?:itle|ITLE))(?=[\s/>])")
_UNSEEN = re.compile(
    r"<(?:[tT]emplate|[nN]o(?:script|frames|embed)|head|HEAD|[iI]frame|[oO]bject|[aA]udio|[vV]ideo|canvas|map|MAP"
    r"|datalist|rp|annotation|annotation-xml|desc|metadata|button|BUTTON|[sS]elect|SELECT|textarea|dialog|progress|meter)"
    r"(?=[\s/>])"
)
_FORMULA = re.compile(r"<(?:m:)?math(?=[\s>])")
_ALTERNATIVE = re.compile(r"""\salttext\s?=\s?(?:"([^"]*)"|'([^']*)')""")
_ANNOTATION = re.compile(r"<(?:m:)?annotation(?=[\s>])[^<>]*>([^<]*)<")
# Of elements: attributes are found first, because they are rare.
_HIDDEN = (
    re.compile(r"hidden(?=[\s=/>])"),
    re.compile(r"display\s?:\s?none"),
    re.compile(r"visibility\s?:\s?hidden"),
)
_OPEN_TAG = re.compile(r"<([a-zA-Z][\w:-]{0,60})[^<>]*>")
_ODD_QUOTE = re.compile(r"""(<[a-zA-Z](?:[^<>"']|"[^"<>]*"|'[^'<>]*')*+)(?:"[^"]*"|'[^']*')""")
_ODD_VALUE = re.compile(r"""=(?:"[^"<>]*[<>]|'[^'<>]*[<>])""")
_MAX_ODD = 5  # values of a tag with brackets in them
_INLINE_TAG = re.compile(rf"</?(?:{_INLINE})(?:\s[^<>]*)?/?>", re.IGNORECASE)
_TAG = re.compile(r"<[/!?a-zA-Z][^<>]*>")
_VOID = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    ]
)
_MAX_TAG_CHARS = 5000
_MAX_UNCLOSED = 10
_MAX_DEPTH = 1000
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_SIMPLE_WORD = re.compile(r"[^\W_]+")
# Characters besides letters of Latin, Greek and Cyrillic and usual marks: words of them need more care.
_UNUSUAL = re.compile(
    "[^\x00-\xa9\xab\xac\xae-\xb1\xb4-\xb7\xbb\xbf-\u0130\u0134-\u013e\u0141-\u0148\u014a-\u017e\u0386-\u03ce\u0400-\u0481\u2010-\u2015\u2018-\u2022\u2039\u203a\u20ac]"
)
# Thai to Burmese, Khmer, and from the radicals to the ideographs and syllables of East Asia.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
# Inside of words and not seen: soft hyphens, joiners, marks of direction, and marks above letters.
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\u0300-\u036f\u064b-\u0652\u0640]"
)
# Ligatures of Arabic come in the order of reading or of drawing.
_LAM_ALEF = re.compile("[\u0622\u0623\u0625\u0627\u0644]{2,40}")
_MAX_JOINED_CHARS = 60
_MAX_DIVIDED = 50_000
_MAX_JOINED = 40  # words of a file that are one of the document, such as letters set apart


def decoded(data: bytes) -> str:
    """Return markup as text, by its byte order mark, as UTF-8, by its declaration, or as its bytes look."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    try:
        # What is UTF-8 is nothing else, whatever it says.
        return data.decode()
    except ValueError:
        pass
    declared = _ENCODING.search(data[:_HEAD_BYTES])
    names = [name.decode("ascii") for name in (declared.groups() if declared else ()) if name]
    for encoding in names:
        try:
            return data.decode(encoding, "replace")
        except (LookupError, ValueError):
            continue
    try:
        return decode(data, max_bytes=len(data), min_confidence=_MIN_CONFIDENCE).text
    except DocumentError:
        return data.decode("latin-1")


def without_sections(text: str, begin: str, end: str, most: int = 1_000_000) -> str:
    """Return a text without what is between two marks, such as comments; an open one goes to the end."""
    pieces: list[str] = []
    at = 0
    while (start := text.find(begin, at)) >= 0 and len(pieces) < most:
        pieces.append(text[at:start])
        stop = text.find(end, start + len(begin))
        at = len(text) if stop < 0 else stop + len(end)
    return "".join([*pieces, text[at:]]) if pieces else text


def with_plain_sections(text: str) -> str:
    """Return XML with its CDATA sections as escaped text."""
    pieces: list[str] = []
    at = 0
    while (start := text.find("<![CDATA[", at)) >= 0:
        stop = text.find("]]>", start)
        stop = len(text) if stop < 0 else stop
        pieces += text[at:start], html.escape(text[start + 9 : stop])
        at = stop + 3
    return "".join([*pieces, text[at:]]) if pieces else text


class XmlRules:
    """Which text nodes of a kind of XML are visible.

    `texts`: names of the elements whose text counts; empty: all. `breaks`: elements that end a word.
    `hidden`: elements without visible text. `kinds`: what the text in an element is, such as a table; the
    innermost counts.
    """

    def __init__(
        self,
        texts: Collection[str],
        breaks: Collection[str],
        hidden: Collection[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        self.texts, self.breaks, self.hidden = frozenset(texts), frozenset(breaks), frozenset(hidden)
        self.kinds = dict(kinds or {})
        names = "|".join(map(re.escape, {*texts, *breaks, *hidden, *self.kinds})) if texts else r"[\w.-]+"
        self.tag = re.compile(rf"<(/?)(?:[\w.-]+:)?({names})(?=[\s/>])([^<>]*)>([^<]*)")

    def visible(self, xml: str, kind: str = "text") -> dict[str, str]:
        """Return the visible text by kind; that outside of all named elements has `kind`."""
        for begin, end in _HIDDEN_SECTIONS:
            xml = without_sections(xml, begin, end)
        out: defaultdict[str, list[str]] = defaultdict(list)
        stack: list[str] = []  # open elements that hide text or name its kind
        n_hidden = 0
        target = out[kind]
        for match in self.tag.finditer(with_plain_sections(xml)):
            closing, name, attributes, text = match.groups()
            is_empty = attributes.endswith("/")
            if not is_empty and (name in self.hidden or name in self.kinds):
                if not closing:
                    stack.append(name)
                    if len(stack) > _MAX_DEPTH:
                        raise ValueError("its parts are nested too deeply")
                elif name in stack:
                    while stack.pop() != name:
                        pass
                n_hidden = sum(each in self.hidden for each in stack)
                target = out[next((self.kinds[each] for each in reversed(stack) if each in self.kinds), kind)]
            if n_hidden:
                continue
            if name in self.breaks:
                target.append("\n")
            if text and (not self.texts or (name in self.texts and not closing and not is_empty)):
                target.append(text)
        return {name: html.unescape("".join(texts)) for name, texts in out.items() if texts}


def visible_html(page: str, *, is_xml: bool = False) -> str:
    """Return the visible text of a page: without scripts, hidden elements, and what stands in for media."""
    page = without_sections(page, "<!--", "-->")
    if is_xml:
        page = with_plain_sections(page)
    page = _without(_without(page, _RAW), _FORMULA, _formula)
    for _ in range(_MAX_ODD):
        if not _ODD_VALUE.search(page):
            break
        page, n_odd = _ODD_QUOTE.subn(r"\1", page)
        if not n_odd:
            break
    page = _without(page, _UNSEEN)
    for pattern in _HIDDEN:
        page = _without(page, pattern)
    return html.unescape(_TAG.sub("\n", _INLINE_TAG.sub("", page)))


def _formula(element: str) -> str:
    """Return a formula as its text in one line, if it has one."""
    found = _ANNOTATION.search(element) or _ALTERNATIVE.search(element)
    return next(filter(None, found.groups()), "") if found else element.replace("math", "div")


def _nothing(_element: str) -> str:
    return ""


def _without(page: str, pattern: re.Pattern[str], replaced: Callable[[str], str] = _nothing) -> str:
    """Return a page without the elements in whose first tag a pattern is found, or with something else."""
    pieces: list[str] = []
    at = search_at = n_unclosed = 0
    while n_unclosed < _MAX_UNCLOSED and (found := pattern.search(page, search_at)) is not None:
        search_at = found.end()
        start = page.rfind("<", max(0, found.start() - _MAX_TAG_CHARS), found.start() + 1)
        is_attribute = start < found.start()
        if is_attribute and found.group() == "hidden" and not page[found.start() - 1].isspace():
            continue
        tag = _OPEN_TAG.match(page, start) if start >= at else None
        if (
            tag is None
            or tag.end() < found.end()
            or tag.group().endswith("/>")
            or tag.group(1).lower() in _VOID
        ):
            continue
        end = _end_of(page, tag.end(), tag.group(1))
        if end < 0:
            n_unclosed += 1
        else:
            pieces += page[at:start], "\n", replaced(page[start:end]), "\n"
            at = search_at = end
    return "".join([*pieces, page[at:]]) if pieces else page


def _end_of(page: str, at: int, name: str) -> int:
    """Return the end of an element whose content begins at a place; -1 if it is not closed."""
    depth = 1
    for tag in re.compile(rf"<(/?){re.escape(name)}(?=[\s/>])[^<>]*>", re.IGNORECASE).finditer(page, at):
        if tag.group(1):
            depth -= 1
        elif name.lower() not in ("script", "style", "title") and not tag.group().endswith("/>"):
            depth += 1
        if not depth:
            return tag.end()
    return -1


def words_of(text: str) -> list[str]:
    """Return the words of a text in order."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    if not _UNUSUAL.search(text):
        return _SIMPLE_WORD.findall(text.casefold())
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", unicodedata.normalize("NFC", text))).casefold()
    text = _LAM_ALEF.sub(lambda match: "".join(sorted(match.group())), _INVISIBLE.sub("", text))
    return _WORD.findall(text)


@dataclass(slots=True)
class FilePart:
    """A part of a file with visible words, or one whose words cannot be counted, such as a picture.

    `kind`: such as `text`, `comment` or `picture`; `place`: in the file, for a person; may be empty.
    `words` are in order. `counts`: more words, whose order does not matter; `n_numbers`: numbers whose
    format the file does not say. `n_bytes`: of a part without words.
    """

    kind: str
    place: str = ""
    words: Sequence[str] = ()
    counts: Counter[str] = field(default_factory=Counter)
    n_numbers: int = 0
    n_bytes: int = 0

    @property
    def n_words(self) -> int:
        return len(self.words) + self.counts.total() + self.n_numbers

    def counted(self) -> Counter[str]:
        counted = Counter(self.words)
        counted.update(self.counts)
        return counted


def missing_words(parts: Iterable[FilePart], total: Counter[str], present: Mapping[str, int]) -> Counter[str]:
    """Return the words of the parts that are not among those present, with their numbers.

    `total`: the words of all parts. Words that are divided differently count as present: a word that the file
    divides at the end of a line, or the letters of a heading that are set apart.
    """
    missing = shortage(total, present)
    if not missing:
        return missing
    spare = shortage(present, total)
    if spare:
        for part in parts:
            _join(part.words, missing, spare)
        _divide(missing, spare)
    return +missing


def shortage(wanted: Mapping[str, int], present: Mapping[str, int]) -> Counter[str]:
    """Return how much more is wanted of each word than there is."""
    get = present.get
    return Counter({word: n - get(word, 0) for word, n in wanted.items() if n > get(word, 0)})


def _join(words: Sequence[str], missing: Counter[str], spare: Counter[str]) -> None:
    """Take words that follow each other in the file and are one word of the document, the longest first."""
    done = 0
    for at in [i for i, word in enumerate(words) if word in missing][:_MAX_DIVIDED]:
        if at < done or missing[words[at]] <= 0:
            continue
        joined, best = words[at], 0
        for end in range(at + 1, min(at + _MAX_JOINED, len(words))):
            joined += words[end]
            if len(joined) > _MAX_JOINED_CHARS or words[end] not in missing:
                break
            if spare.get(joined, 0) > 0 and all(
                missing[w] >= n for w, n in Counter(words[at : end + 1]).items()
            ):
                best = end + 1
        if best:
            spare["".join(words[at:best])] -= 1
            missing.subtract(words[at:best])
            done = best


def _divide(missing: Counter[str], spare: Counter[str]) -> None:
    """Take words of the file that are several words of the document."""
    for word, n in list(missing.items())[:_MAX_DIVIDED]:
        if n <= 0 or not 2 <= len(word) <= _MAX_JOINED_CHARS:
            continue
        cuts = _cuts(word, spare)
        pieces = Counter(word[a:b] for a, b in pairwise(cuts))
        times = min([n, *(spare[piece] // count for piece, count in pieces.items())]) if pieces else 0
        if times > 0:
            missing[word] -= times
            for piece, count in pieces.items():
                spare[piece] -= times * count


def _cuts(word: str, spare: Counter[str]) -> list[int]:
    """Return where to cut a word into as few spare words as possible; empty if that cannot be."""
    best: list[list[int] | None] = [[0]] + [None] * len(word)
    for end in range(1, len(word) + 1):
        for start in range(end):
            before = best[start]
            if before is not None and spare[word[start:end]] > 0:
                known = best[end]
                if known is None or len(before) + 1 < len(known):
                    best[end] = [*before, end]
    return best[-1] or []
