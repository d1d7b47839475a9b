"""Reference implementation of the scorer in plain Python, word by word: slow, but easy to compare with the
specification. ASCII text only."""

import math
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from small_model import COMPOUNDS, IRREGULAR, WORDS

from lagoon.model import Model
from lagoon.tokens import is_stop_word, stem, without_clitic

TOKEN = re.compile(r"(?:[a-z]\.){2,}|[a-z0-9]+(?:'[a-z0-9]+)*")


@dataclass
class Read:
    """Term frequencies of matched words, unknown words, and counts of tokens."""

    tf: Counter[str]
    unknown: list[str]
    n_words: int
    matched: int


def lemma(form: str) -> str | None:
    """The vocabulary word of one token."""
    for candidate in (form, without_clitic(form)):
        if candidate in WORDS:
            return candidate
        if candidate in IRREGULAR:
            return IRREGULAR[candidate]
    stems = {stem(word): word for word in WORDS}
    base = without_clitic(form)
    return stems.get(stem(base)) if stem(base) != base or form.endswith("'d") else None


def read(text: str) -> Read:
    tokens = [(m.group(), m.start(), m.end()) for m in TOKEN.finditer(text.lower())]
    result = Read(Counter(), [], 0, 0)
    at = 0
    while at < len(tokens):
        length, word = longest_compound(text, tokens, at)
        for form, _, _ in tokens[at : at + length]:
            if is_stop_word(form) or not any(map(str.isalpha, form)):
                continue
            result.n_words += 1
            if word is not None or lemma(form) is not None:
                result.matched += 1
                if word is None:
                    result.tf[str(lemma(form))] += 1
            elif form not in result.unknown:
                result.unknown.append(form)
        if word is not None:
            result.tf[word] += 1
        at += length
    return result


def longest_compound(text: str, tokens: list[tuple[str, int, int]], at: int) -> tuple[int, str | None]:
    for length in range(min(4, len(tokens) - at), 1, -1):
        span = tokens[at : at + length]
        gaps = (text[a[2] : b[1]] for a, b in pairwise(span))
        if not all(re.fullmatch(r"[ _-]*", gap) for gap in gaps):
            continue
        forms = [form for form, _, _ in span]
        inflected = [*forms[:-1], (lemma(forms[-1]) if not is_stop_word(forms[-1]) else None) or forms[-1]]
        for name in (" ".join(forms), " ".join(inflected)):
            if name in COMPOUNDS:
                return length, name
    return 1, None


def raw_and_z(tf: Counter[str], model: Model) -> tuple[list[float], list[float]]:
    """Raw sums and z-scores of all reefs."""
    ids = {model.words[index]: index for index in range(model.n_words)}
    raw = [0.0] * model.n_reefs
    m1 = m2 = 0.0
    for word, count in tf.items():
        # Rounded to 1/1024 by definition, so that sums are exact.
        m = round((1 + math.log(count)) * 1024) / 1024
        m1 += m
        m2 += m * m
        index = ids[word]
        for entry in range(int(model.row_starts[index]), int(model.row_starts[index + 1])):
            bm25 = int(model.row_bm25[entry]) / 8192
            raw[int(model.row_reefs[entry])] += m * int(model.weights[index]) / 4096 * bm25
    if not tf:
        return raw, [0.0] * model.n_reefs
    mean, variance = model.background
    rate, exponent = model.dispersion.tolist()
    count_variance = m2 * (1 + rate * max(m1 - 1, 0) ** exponent)
    z = [(raw[r] - m1 * mean[r]) / math.sqrt(count_variance * variance[r]) for r in range(model.n_reefs)]
    return raw, z
