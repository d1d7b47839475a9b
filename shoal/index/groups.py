"""Term groups: a term and other forms of it, matched as one term.

A chunk with any of the forms contains the term, so the document frequency is that of the union. In each
field, the frequency is that of the most frequent form, where an occurrence of another form counts
`OTHER_SHARE` of one of the term itself. BM25 applies to that frequency, as Lucene's SynonymQuery applies it
to the weighted sum of the forms' frequencies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.index.matching import Matches, PartMatches

UNIT, OTHER = 4, 3
"""An occurrence of the term, and one of another form, in fourths."""
OTHER_SHARE = OTHER / UNIT
_MOST = 255 // UNIT
"""More occurrences count as this many; BM25 hardly tells them apart."""


def unite(own: Matches, others: Sequence[Matches]) -> Matches:
    """Return the matches of a group: those of a term and of its other forms, of one index."""
    if not others:
        return own
    parts = [
        _united(part.segment.n_chunks, forms)
        for part, *forms in zip(own.index.parts, own.parts, *(each.parts for each in others), strict=True)
    ]
    return Matches(own.index, parts, UNIT)


def _united(n_chunks: int, forms: Sequence[PartMatches]) -> PartMatches:
    if not any(len(form.ordinals) for form in forms):
        return forms[0]
    is_match = np.zeros(n_chunks, dtype=np.bool_)
    for form in forms:
        is_match[form.ordinals] = True
    ordinals = np.flatnonzero(is_match).astype(np.uint16)
    place_of = np.cumsum(is_match, dtype=np.int64) - 1
    columns: list[NDArray[np.uint8]] = []
    for column in (1, 2, 3):
        united = np.zeros(len(ordinals) if any(len(form[column]) for form in forms) else 0, dtype=np.uint8)
        for number, form in enumerate(forms):
            if len(form[column]):
                places = place_of[form.ordinals]
                weighted = np.minimum(form[column], _MOST) * np.uint8(OTHER if number else UNIT)
                united[places] = np.maximum(united[places], weighted)
        columns.append(united)
    return PartMatches(ordinals, *columns)
