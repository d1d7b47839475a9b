"""Texts of any total size from a folder of corpora, and queries drawn from them; see benchmarks/scale.py.

The first round has the books (`books/`, `more-books/`) and articles (`wikipedia-vital-1k.jsonl.gz`). In
each later round, the sentences of a group of documents of one kind change places at random. Headings stay,
and so does the number of sentences of a paragraph. Memory is bounded by the size of a group.
"""

from __future__ import annotations

import bisect
import gzip
import itertools
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

BOOK_FOLDERS = ("books", "more-books")
ARTICLES = "wikipedia-vital-1k.jsonl.gz"
GROUP_BYTES = 16_000_000
"""Bytes from which on a group of documents is complete."""
SHELVES = 10
"""Number of values of the metadata `shelf`, so that a filter on it leaves a tenth of the library."""
MAX_WORDS = 8
"""Most words of a query."""

_BLANK_LINES = re.compile(r"(\n[ \t]*\n\s*)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"”’)])\s+")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Text:
    """A document. `kind`: `book` or `article`; `path` is unique within a library."""

    kind: str
    title: str
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Query:
    """`kind`: `words`, `title`, `phrase`, `tag` or `metadata`; `filters` as in POST /search."""

    kind: str
    text: str
    filters: dict[str, Any] = field(default_factory=dict)


def texts(corpora: Path, n_bytes: int, seed: int) -> Iterator[Text]:
    """Texts of at least `n_bytes` bytes in all, as few as possible.

    Raises ValueError if the folder has no texts.
    """
    return limited(itertools.chain(originals(corpora), shuffled_rounds(corpora, seed)), n_bytes)


def limited(documents: Iterable[Text], n_bytes: int) -> Iterator[Text]:
    """The first texts, until they have `n_bytes` bytes or more."""
    size = 0
    for text in documents:
        yield text
        size += len(text.content.encode())
        if size >= n_bytes:
            return


def originals(corpora: Path) -> Iterator[Text]:
    yield from _books(corpora)
    yield from _articles(corpora)


def shuffled_rounds(corpora: Path, seed: int) -> Iterator[Text]:
    """Rounds of shuffled texts without end. Raises ValueError if the folder has no texts."""
    for number in itertools.count(1):
        generator = random.Random(f"{seed} {number}")
        is_empty = True
        for kind in (_books(corpora), _articles(corpora)):
            for group in _groups(kind):
                is_empty = False
                for text, content in zip(
                    group, shuffled([text.content for text in group], generator), strict=True
                ):
                    yield replace(text, path=f"{number}/{text.path}", content=content)
        if is_empty:
            raise ValueError(f"{corpora} has none of {', '.join(BOOK_FOLDERS)}, {ARTICLES}")


def shuffled(contents: Sequence[str], generator: random.Random) -> list[str]:
    """The texts, stripped, with all of their sentences at random places. Headings and blank lines stay."""
    # Odd parts are the blank lines between paragraphs.
    paragraphs = [_BLANK_LINES.split(content.strip()) for content in contents]
    sentences = [
        [_SENTENCE_END.split(part) if _has_sentences(place, part) else [] for place, part in enumerate(parts)]
        for parts in paragraphs
    ]
    pool = [sentence for document in sentences for part in document for sentence in part]
    generator.shuffle(pool)
    drawn = iter(pool)
    return [
        "".join(
            " ".join(itertools.islice(drawn, len(own))) if own else part
            for part, own in zip(parts, document, strict=True)
        )
        for parts, document in zip(paragraphs, sentences, strict=True)
    ]


def write_records(documents: Iterable[Text], file: Path) -> int:
    """Write texts as lines for a bulk upload; returns the bytes of the texts."""
    size = 0
    with file.open("w", encoding="utf-8") as lines:
        for number, text in enumerate(documents):
            size += len(text.content.encode())
            record = {
                "title": text.title,
                "content": text.content,
                "format": "markdown" if text.path.endswith(".md") else "plaintext",
                "source_path": text.path,
                "tags": [text.kind, f"shelf-{number % SHELVES}"],
                "metadata": {"kind": text.kind, "shelf": number % SHELVES},
            }
            lines.write(json.dumps(record) + "\n")
    return size


class QuerySampler:
    """Draws sentences at random positions of texts that pass by, and makes queries of them."""

    def __init__(self, n: int, n_bytes: int, seed: int) -> None:
        """`n_bytes`: least total size of the texts."""
        self._generator = random.Random(seed)
        self._positions = sorted(self._generator.randrange(n_bytes) for _ in range(n))
        self._passed = 0
        self._sentences: list[tuple[str, str]] = []

    def passing(self, documents: Iterable[Text]) -> Iterator[Text]:
        for text in documents:
            end = self._passed + len(text.content.encode())
            low = bisect.bisect_left(self._positions, self._passed)
            high = bisect.bisect_left(self._positions, end)
            for position in self._positions[low:high]:
                share = (position - self._passed) / (end - self._passed)
                self._sentences.append((text.title, _sentence_at(text.content, share)))
            self._passed = end
            yield text

    def queries(self) -> list[Query]:
        """Of ten queries, seven are one to eight words of a sentence; the others are a title, a phrase with
        words, and words with a filter by tag or metadata."""
        generator = self._generator
        queries = []
        for number, (title, sentence) in enumerate(generator.sample(self._sentences, len(self._sentences))):
            words = _WORD.findall(sentence) or ["rain"]
            n = min(len(words), generator.randint(1, MAX_WORDS))
            start = generator.randrange(len(words) - n + 1)
            chosen = " ".join(words[start : start + n])
            shelf = generator.randrange(SHELVES)
            match number % 10:
                case 0:
                    query = Query("title", " ".join(_WORD.findall(title)[:MAX_WORDS]) or chosen)
                case 1:
                    phrase = " ".join(words[start : start + min(n, generator.randint(2, 4))])
                    further = " ".join(generator.sample(words, min(2, len(words))))
                    query = Query("phrase", f'"{phrase}" {further}')
                case 2 if number % 20 == 2:
                    query = Query("tag", chosen, {"tags": [f"shelf-{shelf}"]})
                case 2:
                    query = Query("metadata", chosen, {"metadata": {"shelf": shelf}})
                case _:
                    query = Query("words", chosen)
            queries.append(query)
        return queries


def write_queries(queries: Iterable[Query], file: Path) -> None:
    file.write_text(json.dumps([asdict(query) for query in queries]), encoding="utf-8")


def read_queries(file: Path) -> list[Query]:
    return [Query(**fields) for fields in json.loads(file.read_text(encoding="utf-8"))]


def _books(corpora: Path) -> Iterator[Text]:
    for folder in BOOK_FOLDERS:
        for file in sorted((corpora / folder).glob("*.md")):
            title = file.stem.replace("-", " ")
            yield Text("book", title, f"{folder}/{file.name}", file.read_text(encoding="utf-8"))


def _articles(corpora: Path) -> Iterator[Text]:
    file = corpora / ARTICLES
    if not file.is_file():
        return
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            article = json.loads(line)
            yield Text("article", article["title"], f"articles/{article['_id']}.txt", article["text"])


def _groups(documents: Iterable[Text]) -> Iterator[list[Text]]:
    group: list[Text] = []
    size = 0
    for text in documents:
        group.append(text)
        size += len(text.content)
        if size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _has_sentences(place: int, part: str) -> bool:
    return place % 2 == 0 and bool(part) and not part.startswith("#")


def _sentence_at(content: str, share: float) -> str:
    """The sentence after a position, given as a share of the length."""
    position = int(share * len(content))
    near = content[position : position + 2_000]
    sentences = [part for part in _SENTENCE_END.split(near) if len(part) > 20]
    return (sentences[1:] or [near])[0]
