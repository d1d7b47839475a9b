"""Words of titles and headings: each counts as one occurrence above the first sentence of its section."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lagoon.analysis import ObservedText
from shoal.learning.candidates import candidate_words


def words_of_headings(
    text: ObservedText, candidate_of_form: Mapping[int, str]
) -> dict[tuple[int, str], list[int]]:
    """First sentences of the sections whose heading has a candidate word, ascending, by (text, word).

    The context of a section is the title and all headings above it. A word counts where it is new: the
    context of the section before does not have it. It does not count if the first sentence has it too,
    because the title may have been taken from that sentence. `candidate_of_form`: candidates of the text by
    form.
    """
    contexts = text.contexts
    if contexts is None or not contexts.unknown.any():
        return {}
    tokens = contexts.reading.tokens
    unknown = np.flatnonzero(contexts.unknown)
    section_of = np.searchsorted(contexts.bounds, unknown, side="right") - 1
    candidates = candidate_words(tokens.forms, np.unique(tokens.ids[unknown]).tolist())
    by_section: dict[int, set[str]] = {}
    for section, form in zip(section_of.tolist(), tokens.ids[unknown].tolist(), strict=True):
        if form in candidates:
            by_section.setdefault(section, set()).add(candidates[form])
    words: dict[tuple[int, str], list[int]] = {}
    for section, section_words in by_section.items():
        sentence = int(contexts.section_starts[section])
        text_index = int(text.text_of_sentence[sentence])
        is_first = sentence == text.first_sentences[text_index]
        new = section_words if is_first else section_words - by_section.get(section - 1, set())
        for word in new - _words_of_sentence(text, sentence, candidate_of_form):
            words.setdefault((text_index, word), []).append(sentence)
    return words


def _words_of_sentence(text: ObservedText, sentence: int, candidate_of_form: Mapping[int, str]) -> set[str]:
    first, last = text.sentences.bounds[sentence : sentence + 2].tolist()
    return {
        candidate_of_form[form] for form in text.form_of[first:last].tolist() if form in candidate_of_form
    }
