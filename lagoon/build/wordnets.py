"""Build the wordnets of languages, each a distribution of its own: ``python -m lagoon.build.wordnets``

For each language, a folder with `pyproject.toml`, README, licence and the table that `lagoon.wordnets` reads.
The table of English comes from WordNet 3.0, those of others from lemma tables of the Open Multilingual
Wordnet: files ``CODE.tsv.gz`` with the offset and part of speech of a synset, a tab, and a lemma in each
line, and ``LICENSES.md`` with a section ``## CODE`` for each, the licence of its words.

The share of a sense in the uses of an English word is its tag count plus 1 / number. In other languages, it
is the square root of the tag counts of the synset's English words, plus one half: no counts are known, and
meanings that are common in English are common elsewhere.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lagoon.build.lexicon import PARTS_OF_SPEECH, WordNet, read_wordnet
from lagoon.tokens import fold, token_list
from lagoon.wordnets import FILE, FORMAT, SHARE_UNIT

VERSION = "1.0.0"
MAX_BYTES = 3_000_000
"""Largest table."""
UNTAGGED = 0.5
"""Tag count of a synset that was never tagged."""
MAX_SENSES = 255
OUTPUT = Path(__file__).parent.parent.parent / "wordnets"
WORDNET_LICENCE = Path(__file__).parent.parent / "data" / "LICENSES" / "WordNet-3.0.txt"
_PARTS = tuple(PARTS_OF_SPEECH)


class Source(NamedTuple):
    """Where the words of a language come from: the code of the table, its name, its licence, and whether the
    script has no spaces between words."""

    table: str
    language: str
    name: str
    licence: str
    is_without_spaces: bool = False


SOURCES: Mapping[str, Source] = {
    "ar": Source("arb", "Arabic", "Arabic WordNet (AWN v2)", "CC-BY-SA-3.0"),
    "ca": Source("cat", "Catalan", "Multilingual Central Repository 3.0", "CC-BY-3.0"),
    "da": Source("dan", "Danish", "DanNet", "LicenseRef-wordnet"),
    "el": Source("ell", "Greek", "Greek Wordnet", "Apache-2.0"),
    "en": Source("", "English", "WordNet 3.0", "LicenseRef-wordnet"),
    "eu": Source("eus", "Basque", "Multilingual Central Repository 3.0", "CC-BY-3.0"),
    "fr": Source("fra", "French", "WOLF (Wordnet Libre du Français)", "CECILL-C"),
    "he": Source("heb", "Hebrew", "Hebrew Wordnet", "LicenseRef-wordnet"),
    "hr": Source("hrv", "Croatian", "Croatian Wordnet", "CC-BY-3.0"),
    "id": Source("ind", "Indonesian", "Wordnet Bahasa", "MIT"),
    "it": Source("ita", "Italian", "MultiWordNet", "CC-BY-3.0"),
    "nl": Source("nld", "Dutch", "Open Dutch WordNet", "CC-BY-SA-4.0"),
    "no": Source("nob", "Norwegian", "Norwegian Wordnet", "LicenseRef-wordnet"),
    "pl": Source("pol", "Polish", "plWordNet", "LicenseRef-wordnet"),
    "pt": Source("por", "Portuguese", "OpenWN-PT", "CC-BY-SA-3.0"),
    "sv": Source("swe", "Swedish", "Swedish (SALDO)", "CC-BY-3.0"),
    "zh": Source("cmn", "Chinese", "Chinese Open Wordnet", "LicenseRef-wordnet", is_without_spaces=True),
}
"""By code of ISO 639-1."""


@dataclass(frozen=True, slots=True)
class Senses:
    """What is known of a synset or a sense: its number, and its count before it becomes a share."""

    synset: int
    count: float


def synset_number(offset: int, pos: str) -> int:
    """Return the number of a synset, the same in all languages. Raises ValueError for an unknown part of
    speech."""
    return offset * len(_PARTS) + _PARTS.index(pos)


def senses_of_english(wordnet: WordNet) -> Iterator[tuple[str, Senses]]:
    """Yield the senses of English lemmas."""
    for sense in wordnet.senses:
        synset = wordnet.synsets[sense.synset]
        number = synset_number(synset.offset, synset.pos)
        yield sense.lemma.replace("_", " "), Senses(number, sense.count + 1 / sense.number)


def counts_of_synsets(wordnet: WordNet) -> dict[int, int]:
    """Return how often words of each synset were tagged with it."""
    counts: defaultdict[int, int] = defaultdict(int)
    for sense in wordnet.senses:
        synset = wordnet.synsets[sense.synset]
        counts[synset_number(synset.offset, synset.pos)] += sense.count
    return dict(counts)


def senses_of_table(path: Path, counts: Mapping[int, int]) -> Iterator[tuple[str, Senses]]:
    """Yield the senses of the lemmas of a table, with the counts of its synsets."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            synset, _, lemma = line.rstrip("\n").partition("\t")
            offset, _, pos = synset.partition("-")
            number = synset_number(int(offset), pos)
            yield lemma.replace("_", " "), Senses(number, (counts.get(number, 0) + UNTAGGED) ** 0.5)


def normal_form(lemma: str, *, is_without_spaces: bool) -> str:
    """Return a lemma as `lagoon.wordnets` has it."""
    if is_without_spaces:
        return fold(lemma.replace(" ", "").replace("+", ""))
    return " ".join(map(fold, token_list(lemma)))


def write_table(path: Path, senses: Iterable[tuple[str, Senses]], *, is_without_spaces: bool) -> int:
    """Write the table of a language, the same bytes for the same senses; return the number of its words."""
    by_word: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for lemma, sense in senses:
        form = normal_form(lemma, is_without_spaces=is_without_spaces)
        if form and "\n" not in form:
            by_word[form][sense.synset] = by_word[form].get(sense.synset, 0.0) + sense.count
    words = sorted(by_word)
    counts, synsets, shares = [], [], []
    for word in words:
        own = sorted(by_word[word].items(), key=lambda each: (-each[1], each[0]))[:MAX_SENSES]
        total = sum(count for _, count in own)
        counts.append(len(own))
        synsets += [synset for synset, _ in own]
        shares += [max(1, round(SHARE_UNIT * count / total)) for _, count in own]
    with path.open("wb") as stream:
        np.savez_compressed(
            stream,
            format=np.array(FORMAT),
            words=np.frombuffer("\n".join(words).encode(), dtype=np.uint8),
            counts=np.array(counts, dtype=np.uint8),
            synsets=np.array(synsets, dtype=np.uint32),
            shares=np.array(shares, dtype=np.uint8),
        )
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{path} has {size:,} bytes, more than {MAX_BYTES:,}")
    return len(words)


_PROJECT = """\
# Written by lagoon/build/wordnets.py.
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "lagoon-data-{code}"
version = "{version}"
description = "{language} words by the synsets of WordNet, for searches across languages in Shoal."
readme = "README.md"
requires-python = ">=3.11"
license = "{licence}"
license-files = ["LICENSE"]
authors = [{{ name = "The Shoal authors" }}]

[tool.hatch.build.targets.wheel]
only-include = ["lagoon_data_{code}"]
"""
_README = """\
# lagoon-data-{code}

{n_words:,} {language} words with their synsets. With the distributions of two languages, a query in one finds
passages in the other: see `docs/languages.md` of Shoal.

**Origin and licence.** {name}, as the Open Multilingual Wordnet has it, under the licence in `LICENSE`
({licence}). It was changed: words are in lower case without diacritics, and senses have shares, computed from
the tag counts of WordNet 3.0.
"""


def write_distribution(
    folder: Path, code: str, senses: Iterable[tuple[str, Senses]], licence_text: str
) -> int:
    """Write the distribution of a language; return the number of its words."""
    source = SOURCES[code]
    package = folder / f"lagoon_data_{code}"
    package.mkdir(parents=True, exist_ok=True)
    n_words = write_table(package / FILE, senses, is_without_spaces=source.is_without_spaces)
    values = {**source._asdict(), "code": code, "version": VERSION, "n_words": n_words}
    (folder / "pyproject.toml").write_text(_PROJECT.format(**values), encoding="utf-8")
    (folder / "README.md").write_text(_README.format(**values), encoding="utf-8")
    (folder / "LICENSE").write_text(licence_text, encoding="utf-8")
    return n_words


def licences(path: Path) -> dict[str, str]:
    """Return the sections of a file of licences by the code of their table."""
    sections = re.split(r"(?m)^## ([a-z]{3})$\n", path.read_text(encoding="utf-8"))
    return {
        code: "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"
        for code, text in zip(sections[1::2], sections[2::2], strict=True)
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the distributions of all languages, or of some."""
    parser = argparse.ArgumentParser(
        prog="python -m lagoon.build.wordnets", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="WordNet 3.0")
    parser.add_argument("--tables", type=Path, required=True, help="folder of lemma tables")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder; default %(default)s")
    parser.add_argument("--only", nargs="*", choices=sorted(SOURCES), help="languages; default: all")
    options = parser.parse_args(arguments)
    wordnet = read_wordnet(options.wordnet)
    counts = counts_of_synsets(wordnet)
    texts = licences(options.tables / "LICENSES.md")
    for code in options.only or SOURCES:
        source = SOURCES[code]
        if source.table:
            senses = senses_of_table(options.tables / f"{source.table}.tsv.gz", counts)
            text = texts[source.table]
        else:
            senses = senses_of_english(wordnet)
            text = WORDNET_LICENCE.read_text(encoding="utf-8")
        n_words = write_distribution(options.output / code, code, senses, text)
        size = (options.output / code / f"lagoon_data_{code}" / FILE).stat().st_size
        print(f"{code}  {n_words:>7,} words  {size / 1e6:.2f} MB  {source.licence}")


if __name__ == "__main__":
    main()
