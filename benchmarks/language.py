"""Size and language of the project.

    python benchmarks/language.py

Prints the lines of code, comments and docstrings of each package, the number of modules directly in `shoal/`,
the Flesch reading ease of the documentation (60 to 70 is plain English, below 30 is hard), and every
occurrence of a retired name. Exits 1 if there is one.

The reading ease is 206.835 - 1.015 words per sentence - 84.6 syllables per word. The syllables of a word are
its groups of vowels without a silent e at its end. Code blocks, tables, headings, front matter and the
targets of links are left out. The figures compare versions of this documentation; other programs count
syllables in other ways.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lagoon", "shoal", "api", "worker", "tests", "benchmarks")
SUFFIXES = {".py", ".md", ".html", ".js", ".css", ".toml", ".yml"}
BUILD_FILES = {"Makefile", "Dockerfile"}
EXCLUDED = {"CHANGELOG.md", "benchmarks/language.py", "tests/shoal/storage/test_migrations.py"}
"""Files that name former things on purpose."""
SAMPLES = "shoal/sample_corpus/"

RETIRED = (
    *("companions", "keep_company", "company_share", "SHOAL_COMPANY_SHARE", "The company it keeps"),
    *("find_doubts", "with_doubts", "words_held", "Understood", "bonus", "tallies", "likest", "is_harm"),
    *("WaveCut", "give_back_lost", "give_back_wave", "give_back_space", "Nudger", "nudge", "nudged_at"),
    *("work_off", "come_into_force", "take_turn", "Lesson", "first look", "Patient", "mend", "nudges"),
    *("sit_down", "WaitingRoom", "_seat", "_storable", "_aim", "SearchAnswer", "in vain", "as one would"),
)
"""Names and words that a standard term has replaced, as whole words."""
RETIRED_MODULES = (
    *("doubts", "understanding", "conditions", "arrivals", "belonging", "following", "examination", "asked"),
    *("new_words", "catalogue", "packed", "listing", "intake", "restoring", "importing", "learned_words"),
    *("explained_words", "collector", "binding", "door"),
)
"""Former names of modules."""

_BLOCK = re.compile(r"\A---\n.*?^---$|^```.*?^```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^(?:\||#|!\[|\s*<).*$", re.MULTILINE)
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) +", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"[*`_]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n\s*\n")
_WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")
_VOWELS = re.compile(r"[aeiouy]+")
_SILENT_E = re.compile(r"(?:(?<![^aeiouy]l)e|(?<=[^td])ed|(?<![sxzcgh])es)$")
_RETIRED = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, RETIRED))})(?!\w)")


def count_lines(source: str) -> tuple[int, int, int]:
    """Return the numbers of lines of code, of comments alone, and of docstrings of a module."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.string.strip() and token.type != tokenize.ENDMARKER:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings), len(comments - code), len(docstrings)


def prose(page: str) -> str:
    """Return the sentences of a Markdown page without blocks, tables, headings and markup."""
    text = _LINE.sub("", _BLOCK.sub("", page))
    return _MARKS.sub("", _LINK.sub(r"\1", _ITEM.sub("\n", text)))


def count_syllables(word: str) -> int:
    return max(1, len(_VOWELS.findall(_SILENT_E.sub("", word.lower()))))


def reading_ease(text: str) -> float:
    """Return the Flesch reading ease of a plain text."""
    sentences = [words for part in _SENTENCE.split(text) if (words := _WORD.findall(part))]
    words = [word for sentence in sentences for word in sentence]
    syllables = sum(map(count_syllables, words))
    return 206.835 - 1.015 * len(words) / len(sentences) - 84.6 * syllables / len(words)


def project_files() -> list[Path]:
    """Return the source and documentation files."""
    folders = (ROOT / name for name in (*PACKAGES, "docs"))
    paths = [*ROOT.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    return sorted(
        path for path in paths if path.suffix in SUFFIXES or path.name in ("Makefile", "Dockerfile")
    )


def retired_names(name: str, text: str) -> Iterator[str]:
    """Yield `file:line: name` for every retired name in a file, and for a retired name of the file itself."""
    path = Path(name)
    if path.suffix == ".py" and path.stem in RETIRED_MODULES:
        yield f"{name}:0: {path.name}"
    for number, line in enumerate(text.splitlines(), 1):
        for match in _RETIRED.finditer(line):
            yield f"{name}:{number}: {match.group()}"


def occurrences() -> list[str]:
    """Return all occurrences of retired names in the project."""
    files = {path.relative_to(ROOT).as_posix(): path for path in project_files()}
    return [
        occurrence
        for name, path in files.items()
        if name not in EXCLUDED and not name.startswith(SAMPLES)
        for occurrence in retired_names(name, path.read_text(encoding="utf-8"))
    ]


def main() -> int:
    print(f"{'package':<12}{'code':>8}{'comments':>10}{'docstrings':>12}")
    python = [path for path in project_files() if path.suffix == ".py"]
    for package in PACKAGES:
        counts = [count_lines(path.read_text()) for path in python if path.is_relative_to(ROOT / package)]
        code, comments, docstrings = map(sum, zip(*counts, strict=True))
        print(f"{package:<12}{code:>8,}{comments:>10,}{docstrings:>12,}")
    print(f"\nmodules directly in shoal/: {len(list((ROOT / 'shoal').glob('*.py')))}")
    print("\nFlesch reading ease")
    for name in ("README.md", "ARCHITECTURE.md"):
        print(f"{name:<18}{reading_ease(prose((ROOT / name).read_text())):>6.1f}")
    pages = {path.name: reading_ease(prose(path.read_text())) for path in (ROOT / "docs").glob("*.md")}
    low, high = min(pages, key=pages.__getitem__), max(pages, key=pages.__getitem__)
    print(f"{'docs, mean':<18}{statistics.mean(pages.values()):>6.1f}")
    print(f"{'docs, range':<18}{pages[low]:>6.1f} ({low}) to {pages[high]:.1f} ({high})")
    retired = occurrences()
    print(f"\nretired names: {len(retired) or 'none'}", *retired, sep="\n")
    return int(bool(retired))


if __name__ == "__main__":
    raise SystemExit(main())
