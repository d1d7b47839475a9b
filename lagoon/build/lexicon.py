"""Words of the model: WordNet's lemmas in normal form with ids, and the tables to look them up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagoon.build.wordnet import Sense, Synset, WordNet
from lagoon.stems import sought_stem, stem_many
from lagoon.tokens import has_letter, is_stop_word, normalise, without_clitic

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
