"""Named parts of a boost: what the fields and the marks of a passage or note add to its score.

The field boost of a passage is the share of the query's terms in its title, headings or tags. Each term
counts once, for the first of the parts `title`, `heading_path` and `tag_overlap` that has it, so the parts
add up to the field boost.

A note also has a domain and may be pinned. The boost of a note is the mean of four values, 0..1 each: the
share of the query's terms in its title and in its tags, and 0 or 1 for a matching domain and for a pin.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.models import FieldBoostParts, MatchedTerm
from shoal.search.matched_terms import HEADINGS, TAG, TITLE, ChunkTexts, find_matched_terms
from shoal.search.query_language import Term, stems_of, tokens_of

PLACES = (TITLE, HEADINGS, TAG)
"""The place of a matched term for each of `FieldBoostParts`, in their order."""
NOTE_PARTS = ("title", "tag_overlap", "domain_match", "pinned")


def field_boost_parts(matched: Sequence[MatchedTerm], n_terms: int) -> FieldBoostParts:
    """Return the parts of a passage's field boost, 0..1 each, for a query of `n_terms` terms."""
    firsts = [next((place for place in PLACES if place in match.places), None) for match in matched]
    return FieldBoostParts(*(firsts.count(place) / max(n_terms, 1) for place in PLACES))


def note_boost_parts(
    terms: Sequence[Term], *, title: str, tags: Sequence[str], domain: str = "", is_pinned: bool = False
) -> dict[str, float]:
    """Return the parts of a note's boost, which add up to 0..1.

    The domain matches if the query has all of its words, in any inflection.
    """
    query = {stem for term in terms for stem in stems_of(term.tokens)}
    of_domain = set(stems_of(tokens_of(domain)))
    values = {
        "title": _share(terms, ChunkTexts(title, (), "", ())),
        "tag_overlap": _share(terms, ChunkTexts("", (), "\n".join(tags), ())),
        "domain_match": float(bool(of_domain) and of_domain <= query),
        "pinned": float(is_pinned),
    }
    return {part: values[part] / len(NOTE_PARTS) for part in NOTE_PARTS}


def _share(terms: Sequence[Term], texts: ChunkTexts) -> float:
    """The share of the terms that some texts hold, 0..1."""
    (matched,) = find_matched_terms(terms, {}, [texts])
    return len(matched) / len(terms) if terms else 0.0
