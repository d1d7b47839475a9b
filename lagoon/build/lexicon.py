"""WordNet 3.0's database files, and the words of the model: lemmas in normal form with ids, and the tables to
look them up.

The manual pages wndb(5WN) and cntlist(5WN) describe the files. Reads only what the build needs: words,
glosses, the order of senses, tag counts of senses, and irregular inflections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lagoon.tokens import has_letter, is_stop_word, normalise, sought_stem, stem_many, without_clitic

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


def _body(path: Path) -> Iterator[str]:
    """Lines of a database file without the licence header (lines that begin with two spaces)."""
    with path.open(encoding="latin-1") as stream:
        for line in stream:
            if line.strip() and not line.startswith("  "):
                yield line


Ints = npt.NDArray[np.intp]

_VOWELS = frozenset("aeiou")


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Every word that can be scored.

    Attributes:
        words: Normal forms; single words first, then compounds, each part sorted.
        n_singles: How many of ``words`` are single words.
        counts: (n_words,) number of times any sense of the word was tagged in WordNet's concordances.
        forms: Single-word lemmas and irregular inflections -> word id.
        stems: Snowball stem -> word id of the most frequent single word with this stem.
        lemmas: Lemma as in WordNet's index -> word id.
    """

    words: tuple[str, ...]
    n_singles: int
    counts: npt.NDArray[np.int64]
    forms: Mapping[str, int]
    stems: Mapping[str, int]
    lemmas: Mapping[str, int]

    def lookup(self, tokens: Iterable[str]) -> list[int]:
        """Word ids of single tokens, -1 for unknown ones, found in the order of `lagoon.vocabulary`: lemma or
        irregular form, the same without clitic, stem."""
        tokens = list(tokens)
        bases = list(map(without_clitic, tokens))
        stems = map(sought_stem, tokens, bases, stem_many(bases))
        return [
            self.forms.get(token, self.forms.get(base, self.stems.get(stem, -1)))
            for token, base, stem in zip(tokens, bases, stems, strict=True)
        ]


def build_lexicon(wordnet: WordNet) -> Lexicon:
    """Assign ids to the lemmas that running text can match.

    Excludes lemmas that can never be scored: stop words, numbers, and compounds of only stop words and
        numbers.
    """
    normal = {sense.lemma: normalise(sense.lemma) for sense in wordnet.senses}
    tagged: dict[str, int] = {}
    for sense in wordnet.senses:
        form = normal[sense.lemma]
        if scorable(form):
            tagged[form] = tagged.get(form, 0) + sense.count
    words = sorted(tagged, key=lambda word: (" " in word, word))
    ids = {word: number for number, word in enumerate(words)}
    n_singles = sum(" " not in word for word in words)
    counts = np.array([tagged[word] for word in words], dtype=np.int64)
    lemmas = {lemma: ids[form] for lemma, form in normal.items() if form in ids}
    singles = words[:n_singles]
    return Lexicon(
        words=tuple(words),
        n_singles=n_singles,
        counts=counts,
        forms=_forms(singles, wordnet.exceptions, lemmas, counts),
        stems=_stems(singles, counts),
        lemmas=lemmas,
    )


def scorable(form: str) -> bool:
    """Whether a normal form has at least one token that is neither a stop word nor a number."""
    return any(has_letter(token) and not is_stop_word(token) for token in form.split())


def _forms(
    singles: list[str],
    exceptions: Iterable[tuple[str, str, str]],
    lemmas: Mapping[str, int],
    counts: npt.NDArray[np.int64],
) -> dict[str, int]:
    forms = {word: number for number, word in enumerate(singles)}
    irregular: dict[str, int] = {}
    for _, inflected, lemma in exceptions:
        form, word = normalise(inflected), lemmas.get(lemma, len(singles))
        if word >= len(singles) or " " in form or form in forms or not scorable(form):
            continue
        # A form of two lemmas ("bound": bind, bound) goes to the more frequent lemma.
        if form not in irregular or counts[word] > counts[irregular[form]]:
            irregular[form] = word
    return forms | irregular


def _stems(singles: list[str], counts: npt.NDArray[np.int64]) -> dict[str, int]:
    stems: dict[str, int] = {}
    for word, stem in enumerate(stem_many(singles)):
        rival = stems.get(stem)
        if rival is None or (counts[word], -len(singles[word])) > (counts[rival], -len(singles[rival])):
            stems[stem] = word
    return stems


def misled_inflections(lexicon: Lexicon, seen: Iterable[str]) -> dict[str, int]:
    """Regular inflections that the stemmer does not map to their word: "animals" has the stem of "animation",
    "women" and "largest" have stems of no known word.

    Args:
        seen: Token forms that occur in running text; only these are added to the data.

    Returns:
        Form -> word id, for forms that are not in ``lexicon.forms``, have exactly one regular base among the
        single words, and would otherwise be looked up as a different word.
    """
    unknown = sorted({form for form in seen if form not in lexicon.forms and scorable(form)})
    inflections = {}
    for form, word in zip(unknown, lexicon.lookup(unknown), strict=True):
        candidates = regular_bases(form) if word >= 0 else regular_bases(form) + comparison_bases(form)
        bases = {lexicon.forms[base] for base in candidates if base in lexicon.forms}
        if len(bases) == 1 and (base := bases.pop()) != word:
            inflections[form] = base
    return inflections


def regular_bases(form: str) -> list[str]:
    """Possible bases of a regular inflection: plural, -s, -ed and -ing, with their spelling changes."""
    bases: list[str] = []
    if form.endswith("men") and len(form) > 4:
        bases.append(form[:-2] + "an")
    if form.endswith("ies") and len(form) > 4:
        bases.append(form[:-3] + "y")
    elif form.endswith(("ses", "xes", "zes", "ches", "shes")):
        bases += [form[:-2], form[:-1]]
    elif form.endswith("s") and not form.endswith(("ss", "us", "is")):
        bases.append(form[:-1])
    for ending in ("ed", "ing"):
        root = form[: -len(ending)]
        if form.endswith(ending) and len(root) > 2 and _VOWELS & set(root + "y"):
            bases += [root, root + "e"]
            if root[-1] == root[-2] and root[-1] not in _VOWELS:
                bases.append(root[:-1])
    if form.endswith("ied") and len(form) > 4:
        bases.append(form[:-3] + "y")
    return bases


def comparison_bases(form: str) -> list[str]:
    """Possible bases of a comparative or superlative: "largest" -> "large", "simpler" -> "simple", "biggest"
    -> "big"."""
    for ending in ("er", "est"):
        root = form[: -len(ending)]
        if not form.endswith(ending) or len(root) < 3:
            continue
        if root.endswith("i"):
            return [root[:-1] + "y"]
        doubled = root[-1] == root[-2] and root[-1] not in _VOWELS
        return [root, root + "e", *([root[:-1]] if doubled else [])]
    return []


@dataclass(frozen=True, slots=True)
class SenseLinks:
    """Links of words to synsets, one for each sense.

    Attributes:
        words: (n,) word ids.
        synsets: (n,) indices of synsets.
        shares: (n,) share of this sense in the uses of the word; adds up to 1 over the senses of a word.
    """

    words: Ints
    synsets: Ints
    shares: npt.NDArray[np.float64]


def sense_links(lexicon: Lexicon, senses: Iterable[Sense]) -> SenseLinks:
    """Link senses to words, weighted by tag count + 1/number, so that senses never tagged count too."""
    kept = [sense for sense in senses if sense.lemma in lexicon.lemmas]
    words = np.array([lexicon.lemmas[sense.lemma] for sense in kept], dtype=np.intp)
    raw = np.array([sense.count + 1.0 / sense.number for sense in kept])
    totals = np.bincount(words, weights=raw, minlength=len(lexicon.words))
    synsets = np.array([sense.synset for sense in kept], dtype=np.intp)
    return SenseLinks(words, synsets, raw / totals[words])


def lemma_ids(lexicon: Lexicon, synset: Synset) -> list[int]:
    """Word ids of the synset's lemmas."""
    return [lexicon.lemmas[word.lower()] for word in synset.words if word.lower() in lexicon.lemmas]
