"""Keys of unknown words: they tell which texts a learned word may occur in.

A learned word matches tokens that the base vocabulary lacks, in its normal form, as a genitive or as a plural
(`custom`). Each such token has a key for every normal form that it could match. So a text can only contain a
learned word if they share a key, which is a hash: few texts share one by chance. A learned compound has at
least one unknown word, so its parts have the keys; the keys of its other parts are those of no text.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from lagoon.hashing import fnv1a64_many
from lagoon.plurals import singular
from lagoon.tokens import without_clitic

Keys = NDArray[np.uint32]


def keys_of_words(words: Iterable[str]) -> Keys:
    """Keys of learned words and of the parts of compounds, ascending."""
    return np.unique(_hashes(sorted({part for word in words for part in word.split()})))


def keys_of_forms(forms: Sequence[str]) -> tuple[Keys, NDArray[np.int64]]:
    """Keys of the normal forms that each form could match, and how many each has (forms,)."""
    normal = [_normal_forms(form) for form in forms]
    counts = np.fromiter(map(len, normal), dtype=np.int64, count=len(normal))
    return _hashes([form for some in normal for form in some]), counts


def _normal_forms(form: str) -> list[str]:
    """The normal forms of learned words that a form may match, as in `CustomWords.find_form`."""
    if not form.endswith("s") and "'" not in form:
        return [form]
    bare = without_clitic(form)
    head = singular(bare)
    return list(dict.fromkeys((form, bare) if head is None else (form, bare, head)))


def _hashes(forms: Sequence[str]) -> Keys:
    hashes = fnv1a64_many(forms)
    return (hashes ^ (hashes >> np.uint64(32))).astype(np.uint32)
