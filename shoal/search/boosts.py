"""Named parts of the field boost: what the fields of a passage or note add to its score.

The field boost of a passage is the share of the query's terms in its title, headings or tags. Each term
counts once, for the first of the parts `title`, `heading_path` and `tag_overlap` that has it, so the parts
add up to the field boost.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.models.scores import FieldBoostParts, MatchedTerm
from shoal.search.matched_terms import HEADINGS, TAG, TITLE

PLACES = (TITLE, HEADINGS, TAG)
"""The place of a matched term for each of `FieldBoostParts`, in their order."""


def field_boost_parts(matched: Sequence[MatchedTerm], n_terms: int) -> FieldBoostParts:
    """Return the parts of a passage's field boost, 0..1 each, for a query of `n_terms` terms."""
    firsts = [next((place for place in PLACES if place in match.places), None) for match in matched]
    return FieldBoostParts(*(firsts.count(place) / max(n_terms, 1) for place in PLACES))
