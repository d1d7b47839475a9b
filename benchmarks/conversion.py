"""How much of a text survives the conversion of its file: words, order, headings, and MB of file per second.

    python -m benchmarks.conversion FOLDER [ARTICLES]

FOLDER has books in Markdown; ARTICLES is a file of articles, one JSON with `title` and `text` a line.
The files are made by pandoc, which must be installed, and the pages are put into layouts of news sites and
encyclopedias. Code comes from the library of this Python. Rivals are compared on the pages if they are
installed: trafilatura, readability-lxml with markdownify, selectolax, lxml, html5lib, markitdown.
"""

from __future__ import annotations

import argparse
import gzip
import html
import importlib
import io
import itertools
import json
import re
import subprocess
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from shoal.conversion.process import ConversionProcess
from shoal.conversion.recognition import recognise

N_BOOKS, N_ARTICLES, N_MODULES = 20, 20, 200
BOOK_CHARS = 60_000
_WORD = re.compile(r"\w+")
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
_NAMES = ("Home", "Politics", "Sport", "Culture", "Help", "Donate")
_LINKS = "".join(f'<li><a href="/{name}">{name} page</a></li>' for name in _NAMES)
_CARDS = "".join(f'<div class="card"><a href="/{n}">Ten reasons to read {n}</a></div>' for n in range(8))
_NEWS = f"""<html><head><meta charset=utf-8><title>%(title)s | Daily News</title></head><body>
<div id="gdpr-consent-popup"><p>We and our partners store cookies.</p><a>Accept all</a></div>
<div class="topbar"><div class="main-menu">{_LINKS}</div></div>
<div class="row"><div class="col-8 story-content"><h1>%(title)s</h1>
<div class="share-buttons"><a href=f>Share this</a></div>%(body)s
<div class="newsletter-box"><p>Sign up for our newsletter.</p></div></div>
<div class="col-4 sidebar"><h3>Most read</h3>{_CARDS}</div></div>
<div class="site-footer"><p>Copyright 2024 Daily News. All rights reserved.</p></div></body></html>"""
_ARTICLE = f"""<!DOCTYPE html><html><head><meta charset="UTF-8"><title>%(title)s - Encyclopedia</title>
<script>var a = 1</script></head><body><a class="jump-link" href="#c">Jump to content</a>
<header><nav><ul>{_LINKS}</ul></nav></header><nav id="toc"><h2>Contents</h2><ul>{_LINKS}</ul></nav>
<main><header><nav>50 languages<ul>{_LINKS}</ul></nav><h1>%(title)s</h1></header>
<div class="noprint">From the encyclopedia</div>%(body)s<div class="navbox"><ul>{_LINKS}</ul></div>
<div class="catlinks">{_LINKS}</div></main>
<footer><ul><li>This page was last edited on 1 January 2024.</li></ul></footer></body></html>"""


class Source(NamedTuple):
    """A file and the Markdown that it was made of."""

    group: str
    name: str
    data: bytes
    markdown: str


def article_page(title: str, text: str) -> tuple[str, str]:
    """Return a page like those of an encyclopedia, and its Markdown."""
    parts, markdown = [], [f"# {title}"]
    for part in re.split(r"\n{2,}", text):
        heading = re.match(r"(=+) (.*?) =+\n?", part)
        if heading:
            level = len(heading.group(1))
            edit = '<span class="mw-editsection">[<a href="/e">edit</a>]</span>'
            parts.append(f"<h{level}><span>{html.escape(heading.group(2))}</span>{edit}</h{level}>")
            markdown.append(f"{'#' * level} {heading.group(2)}")
        block = part[heading.end() :] if heading else part
        if block.strip():
            parts.append(f"<p>{html.escape(block)}</p>")
            markdown.append(block)
    page = _ARTICLE % {"title": html.escape(title), "body": "".join(parts)}
    return page, "\n\n".join(markdown)


def pandoc(markdown: str, target: str) -> bytes:
    command = ["pandoc", "--from", "markdown-smart", "--to", target]
    command += ["--metadata", "title=Book"] if target == "epub" else []
    return subprocess.run(command, input=markdown.encode(), capture_output=True, check=True).stdout


def sources(books: Path, articles: Path | None) -> Iterator[Source]:
    for path in sorted(books.glob("*.md"))[:N_BOOKS]:
        whole = path.read_text()
        text = whole[whole.index("\n\n", len(whole) // 20) :][:BOOK_CHARS].rpartition("\n\n")[0].strip()
        title = path.stem.replace("-", " ")
        markdown = f"# {title}\n\n{text}"
        page = _NEWS % {"title": title, "body": pandoc(text, "html").decode()}
        yield Source("HTML, news", f"{path.stem}.html", page.encode(), markdown)
        yield Source("EPUB", f"{path.stem}.epub", pandoc(markdown, "epub"), markdown)
        yield Source("reStructuredText", f"{path.stem}.rst", pandoc(markdown, "rst"), markdown)
        yield Source("notebook", f"{path.stem}.ipynb", pandoc(markdown, "ipynb"), markdown)
    if articles is not None:
        with gzip.open(articles, "rt") as lines:
            for number, line in enumerate(itertools.islice(lines, 0, 20 * N_ARTICLES, 20)):
                article = json.loads(line)
                page, markdown = article_page(article["title"], article["text"])
                yield Source("HTML, encyclopedia", f"{number}.html", page.encode(), markdown)
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:N_MODULES]:
        yield Source("source code", path.name, path.read_bytes(), path.read_text())


class Measured:
    """Sums over the files of a group."""

    def __init__(self) -> None:
        self.words = self.kept = self.written = self.pairs_kept = self.headings = self.headings_found = 0
        self.n_files = self.n_bytes = 0
        self.seconds = 0.0

    def add(self, source: Source, text: str, seconds: float) -> None:
        original = _words(source.markdown)
        written = _words(text)
        self.n_files += 1
        self.n_bytes += len(source.data)
        self.seconds += seconds
        self.words += len(original)
        self.written += len(written)
        self.kept += _common(original, written)
        self.pairs_kept += _common(list(itertools.pairwise(original)), list(itertools.pairwise(written)))
        if source.group != "source code":
            wanted, found = (
                [" ".join(_words(heading)) for heading in _HEADING.findall(content)]
                for content in (source.markdown, text)
            )
            self.headings += len(wanted)
            self.headings_found += _common(wanted, found)

    def row(self) -> str:
        headings = f"{self.headings_found / self.headings:9.1%}" if self.headings else " " * 9
        return (
            f"{self.n_files:6} {self.kept / self.words:8.1%} {self.kept / max(1, self.written):8.1%} "
            f"{self.pairs_kept / self.words:8.1%} {headings} {self.n_bytes / 1e6 / self.seconds:8.2f}"
        )


def _words(markdown: str) -> list[str]:
    without_targets = re.sub(r"\]\([^)\s]*\)|</?[a-zA-Z][^<>]*>", " ", markdown)
    return _WORD.findall(without_targets.replace("\\", "").lower())


def _common(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    return sum((Counter(first) & Counter(second)).values())


def rivals() -> Iterator[tuple[str, Callable[[bytes], str]]]:
    """Yield other readers of pages that are installed."""

    def trafilatura(page: bytes) -> str:
        extract = importlib.import_module("trafilatura").extract
        return extract(page, output_format="markdown", include_tables=True) or ""

    def readability(page: bytes) -> str:
        summary = importlib.import_module("readability").Document(page.decode("utf-8", "replace")).summary()
        return str(importlib.import_module("markdownify").markdownify(summary, heading_style="ATX"))

    def selectolax(page: bytes) -> str:
        tree = importlib.import_module("selectolax.lexbor").LexborHTMLParser(page)
        tree.strip_tags(["script", "style", "nav", "footer", "header", "aside"])
        return str(tree.body.text(separator=" "))

    def lxml(page: bytes) -> str:
        tree = importlib.import_module("lxml.html").fromstring(page)
        for element in tree.xpath("//script|//style|//nav|//footer|//header|//aside"):
            if element.getparent() is not None:
                element.drop_tree()
        return str(tree.text_content())

    def html5lib(page: bytes) -> str:
        return " ".join(
            importlib.import_module("html5lib").parse(page, namespaceHTMLElements=False).itertext()
        )

    def markitdown(page: bytes) -> str:
        module = importlib.import_module("markitdown")
        info = module.StreamInfo(extension=".html", charset="utf-8")
        return str(module.MarkItDown().convert_stream(io.BytesIO(page), stream_info=info).text_content)

    for reader in (trafilatura, readability, selectolax, lxml, html5lib, markitdown):
        try:
            reader(b"<html><body><p>" + b"Some text to read. " * 20)
        except ImportError:
            continue
        yield reader.__name__, reader


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("books", type=Path)
    parser.add_argument("articles", type=Path, nargs="?")
    arguments = parser.parse_args()
    files = list(sources(arguments.books, arguments.articles))
    print(f"{'':12} {'':18} {'files':>6} {'kept':>8} {'clean':>8} {'order':>8} {'headings':>9} {'MB/s':>8}")
    readers = [("shoal", _shoal), *rivals()]
    for name, reader in readers:
        groups: dict[str, Measured] = {}
        for source in files:
            if name != "shoal" and not source.group.startswith("HTML"):
                continue
            started = time.process_time()
            text = reader(source.data) if name != "shoal" else _shoal(source.data, source.name)
            groups.setdefault(source.group, Measured()).add(source, text, time.process_time() - started)
        for group, measured in groups.items():
            print(f"{name:12} {group:18} {measured.row()}")
    starts(files[0])


def _shoal(data: bytes, name: str = "a.html") -> str:
    module, _, function = (recognise(data, name).converter or "").partition(":")
    return str(getattr(importlib.import_module(module), function)(data, name).content)


def starts(source: Source) -> None:
    """Print what a process of its own costs: for its first file, and for the next ones."""
    first, following = [], []
    for _ in range(5):
        with ConversionProcess() as process:
            for times in (first, *[following] * 20):
                started = time.perf_counter()
                process.convert(b"<p>A small page.</p>", source.name)
                times.append(time.perf_counter() - started)
    print(
        f"a process for a small page: first {min(first) * 1000:.0f} ms, next {min(following) * 1000:.2f} ms"
    )


if __name__ == "__main__":
    main()
