"""Words of titles and headings: an occurrence each, above the first sentence of what they head."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lagoon.observing import ObservedText
from shoal.learning.candidates import candidate_words


def words_of_headings(text: ObservedText, found: Mapping[int, str]) -> dict[tuple[int, str], list[int]]:
    """The first sentences of the sections that each candidate word stands above, ascending, by text and word.

    A section's context holds the title and all headings above it; a word counts where it is new, that is not in the
    context of the section before. It doesn't count where the first sentence has it as well: that may be where the
    title was taken from. `found` are the candidates of the text, by form.
    """
    read = text.contexts
    if read is None or not read.unknown.any():
        return {}
    tokens = read.reading.tokens
    unknown = np.flatnonzero(read.unknown)
    section_of = np.searchsorted(read.bounds, unknown, side="right") - 1
    candidates = candidate_words(tokens.forms, np.unique(tokens.ids[unknown]).tolist())
    by_section: dict[int, set[str]] = {}
    for section, form in zip(section_of.tolist(), tokens.ids[unknown].tolist(), strict=True):
        if form in candidates:
            by_section.setdefault(section, set()).add(candidates[form])
    words: dict[tuple[int, str], list[int]] = {}
    for section, here in by_section.items():
        sentence = int(read.section_starts[section])
        of_text = int(text.text_of_sentence[sentence])
        is_first = sentence == text.first_sentences[of_text]
        new = here if is_first else here - by_section.get(section - 1, set())
        for word in new - _words_of_sentence(text, sentence, found):
            words.setdefault((of_text, word), []).append(sentence)
    return words


def _words_of_sentence(text: ObservedText, sentence: int, found: Mapping[int, str]) -> set[str]:
    first, last = text.sentences.bounds[sentence : sentence + 2].tolist()
    return {found[form] for form in text.form_of[first:last].tolist() if form in found}
