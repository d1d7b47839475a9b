"""Reader of the WordNet 3.0 database files: synsets, sense frequencies, exception lists.

The manual pages wndb(5WN) and cntlist(5WN) describe the files. Reads only what the build needs: words,
glosses, the order of senses, tag counts of senses, and irregular inflections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
"""Letter of a part of speech -> suffix of its files (``data.noun``, ``index.noun``, ``noun.exc``)."""

_SENSE_KEY_POS = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}  # 5 = adjective satellite
_ADJECTIVE_MARKER = re.compile(r"\((?:a|p|ip)\)$")


class WordNetFormatError(ValueError):
    """A database file does not look like WordNet 3.0."""


@dataclass(frozen=True, slots=True)
class Synset:
    """One meaning: the words that share it, as written (underscores, capitals), and its gloss."""

    pos: str
    offset: int
    words: tuple[str, ...]
    gloss: str


@dataclass(frozen=True, slots=True)
class Sense:
    """One word in one meaning.

    Attributes:
        lemma: As in the index files: lower case, underscores for spaces.
        number: 1 for the most frequent sense of the lemma in this part of speech.
        synset: Index into ``WordNet.synsets``.
        count: Number of times the sense was tagged in the semantic concordances, 0 for most.
    """

    lemma: str
    pos: str
    number: int
    synset: int
    count: int


@dataclass(frozen=True, slots=True)
class WordNet:
    """The database: synsets in file order, senses sorted by lemma, irregular forms."""

    synsets: tuple[Synset, ...]
    senses: tuple[Sense, ...]
    exceptions: tuple[tuple[str, str, str], ...]
    """(part of speech, inflected form, lemma), underscores for spaces."""


def parse_synset(line: str) -> Synset:
    """Read one line of a data file.

    Raises:
        WordNetFormatError: if the fields are inconsistent.
    """
    head, separator, gloss = line.partition(" | ")
    fields = head.split()
    try:
        n_words = int(fields[3], 16)
        words = tuple(_ADJECTIVE_MARKER.sub("", fields[4 + 2 * i]) for i in range(n_words))
        offset = int(fields[0])
    except (IndexError, ValueError) as error:
        raise WordNetFormatError(f"not a WordNet data line: {line[:80]!r}") from error
    if not separator or not words:
        raise WordNetFormatError(f"no words or no gloss in the WordNet data line: {line[:80]!r}")
    pos = "a" if fields[2] == "s" else fields[2]
    return Synset(pos, offset, words, gloss.strip())


def parse_index_line(line: str) -> tuple[str, list[int]]:
    """Read one line of an index file: the lemma and its synset offsets, most frequent sense first."""
    fields = line.split()
    try:
        n_senses, n_pointers = int(fields[2]), int(fields[3])
        offsets = [int(field) for field in fields[6 + n_pointers :]]
    except (IndexError, ValueError) as error:
        raise WordNetFormatError(f"not a WordNet index line: {line[:80]!r}") from error
    if len(offsets) != n_senses:
        raise WordNetFormatError(f"{n_senses} senses announced, {len(offsets)} listed: {line[:80]!r}")
    return fields[0], offsets


def parse_counts(lines: Iterable[str]) -> dict[tuple[str, str, int], int]:
    """Read ``cntlist.rev``: (lemma, part of speech, sense number) -> times tagged."""
    counts: dict[tuple[str, str, int], int] = {}
    for line in lines:
        key, number, count = line.split()
        lemma, _, rest = key.rpartition("%")
        place = (lemma, _SENSE_KEY_POS[rest[0]], int(number))
        counts[place] = counts.get(place, 0) + int(count)
    return counts


def parse_exceptions(pos: str, lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Read an exception list: each line is an inflected form and its lemmas."""
    for line in lines:
        form, *lemmas = line.split()
        for lemma in lemmas:
            yield pos, form, lemma


def read_wordnet(folder: Path) -> WordNet:
    """Read the database files in ``folder`` (Debian: ``/usr/share/wordnet``).

    Raises:
        FileNotFoundError: if a file is missing.
        WordNetFormatError: if a file does not look like WordNet.
    """
    synsets: list[Synset] = []
    place: dict[tuple[str, int], int] = {}
    for suffix in PARTS_OF_SPEECH.values():
        for line in _body(folder / f"data.{suffix}"):
            synset = parse_synset(line)
            place[synset.pos, synset.offset] = len(synsets)
            synsets.append(synset)
    counts = parse_counts(_body(folder / "cntlist.rev"))
    senses: list[Sense] = []
    exceptions: list[tuple[str, str, str]] = []
    for pos, suffix in PARTS_OF_SPEECH.items():
        for line in _body(folder / f"index.{suffix}"):
            lemma, offsets = parse_index_line(line)
            for number, offset in enumerate(offsets, start=1):
                count = counts.get((lemma, pos, number), 0)
                senses.append(Sense(lemma, pos, number, place[pos, offset], count))
        exceptions.extend(parse_exceptions(pos, _body(folder / f"{suffix}.exc")))
    senses.sort(key=lambda sense: (sense.lemma, sense.pos, sense.number))
    return WordNet(tuple(synsets), tuple(senses), tuple(exceptions))


def licence_text(folder: Path) -> str:
    """The licence in the header of ``data.noun``, without its line numbers."""
    lines = []
    with (folder / "data.noun").open(encoding="latin-1") as stream:
        for line in stream:
            if not line.startswith("  "):
                break
            lines.append(re.sub(r"^ *\d+ ?", "", line).rstrip())
    return "\n".join(lines).strip() + "\n"


def _body(path: Path) -> Iterator[str]:
    """Lines of a database file without the licence header (lines that begin with two spaces)."""
    with path.open(encoding="latin-1") as stream:
        for line in stream:
            if line.strip() and not line.startswith("  "):
                yield line
