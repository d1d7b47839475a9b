"""Print the antonyms of WordNet 3.0 as pairs of single words, one pair a line, sorted.

usage: python -m lagoon.build.antonyms [/usr/share/wordnet] > shoal/notes/antonyms.txt

An antonym is a pointer `!` between two words (wndb(5WN)). Pairs whose words have one stem are left out,
because the similarity of notes compares stems.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from lagoon.build.lexicon import PARTS_OF_SPEECH, parse_synset
from lagoon.tokens import stem

ANTONYM = "!"
SATELLITE = "s"  # pointers count it as an adjective


def antonyms(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the antonyms in the data files of all parts of speech, each pair in both directions."""
    words: dict[tuple[str, str], tuple[str, ...]] = {}
    pointers: list[tuple[str, tuple[str, str], int]] = []
    for line in lines:
        synset = parse_synset(line)
        words[synset.pos, f"{synset.offset:08}"] = synset.words
        fields = line.split(" | ")[0].split()
        first = 4 + 2 * len(synset.words) + 1
        for at in range(first, first + 4 * int(fields[first - 1]), 4):
            symbol, offset, pos, ends = fields[at : at + 4]
            if symbol == ANTONYM:
                source, target = divmod(int(ends, 16), 256)
                place = ("a" if pos == SATELLITE else pos, offset)
                pointers.append((synset.words[source - 1], place, target))
    for word, place, target in pointers:
        yield word.lower(), words[place][target - 1].lower()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("/usr/share/wordnet"))
    folder = parser.parse_args().folder
    lines = (
        line
        for suffix in PARTS_OF_SPEECH.values()
        for line in (folder / f"data.{suffix}").read_text(encoding="utf-8").splitlines()
        if not line.startswith("  ")
    )
    pairs = {tuple(sorted(pair)) for pair in antonyms(lines)}
    for left, right in sorted(pairs):
        if left.isalpha() and right.isalpha() and stem(left) != stem(right):
            print(left, right)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
