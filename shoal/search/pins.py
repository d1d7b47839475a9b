"""Pins in a search: documents and passages that people put first for a query, or hid from its results.

A pin is for the words of a query, without case, accents and punctuation: for exactly these (`exact`), or for
every query that has them side by side (`contains`). It moves results and changes no score. It brings back
nothing that a filter, a phrase or an excluded word keeps out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.index.index import Index
from shoal.models.pins import MAX_PINNED, MAX_WORDS, PinMatch, PinRule, PinTarget
from shoal.models.queries import UsedPin
from shoal.search import pin_rows as stored
from shoal.search.completions import key_of
from shoal.search.ordering import Keys
from shoal.storage.database import Snapshot

MAX_QUERY_WORDS = 64
"""Words of a search that pins are looked up for."""


@dataclass(frozen=True)
class AppliedPins:
    """What the pins of a search do to its ranking.

    is_found   bool (n,): whether each chunk is a result without filters; pinned ones are, hidden ones are not
    level      i64 (n,): what results are ordered by before all else; 0 if not pinned, the first has the most
    pin_of     the pin of each pinned place
    hidden_by  the pin of each hidden place
    """

    is_found: NDArray[np.bool_]
    level: NDArray[np.int64]
    pin_of: dict[int, int]
    hidden_by: dict[int, int]


def find_pins(snapshot: Snapshot, *texts: str) -> tuple[PinRule, ...]:
    """Return the pins for a query, given without operators: exact ones first, then those with most words.

    `texts`: the query as typed, then as it was corrected; later ones count if earlier ones have no pin.
    """
    if not stored.any_pins(snapshot):
        return ()
    for whole in dict.fromkeys(map(key_of, texts)):
        words = whole.split(" ")[:MAX_QUERY_WORDS]
        parts = list(dict.fromkeys(_runs(words)))
        rules = stored.of_words(snapshot, whole, parts) if whole else []
        if rules:
            return tuple(sorted(rules, key=_order))
    return ()


def used_pins(rules: Sequence[PinRule]) -> tuple[UsedPin, ...]:
    """Return what a response says of its pins."""
    return tuple(
        UsedPin(rule.id, rule.query, rule.match.value, len(rule.pinned), len(rule.hidden)) for rule in rules
    )


def apply_pins(
    rules: Sequence[PinRule],
    index: Index,
    keys: Keys,
    is_found: NDArray[np.bool_],
    is_met: NDArray[np.bool_] | None,
) -> AppliedPins:
    """Return what pins do to a ranking. `is_met`: whether each chunk meets the filters; None: all do.

    Of a pinned document, the best passage that meets the filters comes first. If two pins contradict each
    other, the first counts. At most `MAX_PINNED` come first.
    """
    pinned: dict[int, int] = {}
    hidden_by: dict[int, int] = {}
    for rule in rules:
        for target in rule.hidden:
            for place in _places_of(index, target):
                if place not in pinned:
                    hidden_by.setdefault(place, rule.id)
        for target in rule.pinned:
            best = _best_place(index, target, keys, is_found, is_met, {*pinned, *hidden_by})
            if best is not None and len(pinned) < MAX_PINNED:
                pinned[best] = rule.id
    is_found = is_found.copy()
    is_found[list(hidden_by)] = False
    is_found[list(pinned)] = True
    level = np.zeros(len(is_found), dtype=np.int64)
    level[list(pinned)] = np.arange(len(pinned), 0, -1)
    return AppliedPins(is_found, level, pinned, hidden_by)


def _runs(words: Sequence[str]) -> Iterator[str]:
    """The phrases of some words that a pin may be for."""
    for start in range(len(words)):
        for n in range(1, min(MAX_WORDS, len(words) - start) + 1):
            yield " ".join(words[start : start + n])


def _order(rule: PinRule) -> tuple[bool, int, int]:
    return rule.match is not PinMatch.exact, -len(key_of(rule.query).split(" ")), rule.id


def _places_of(index: Index, target: PinTarget) -> list[int]:
    """The places of a hidden document or passage; none for a passage that is gone."""
    if target.chunk_id is None:
        return list(map(int, index.places_of_document(target.document_id)))
    place = index.place_of(target.chunk_id)
    return [] if place is None else [place]


def _best_place(
    index: Index,
    target: PinTarget,
    keys: Keys,
    is_found: NDArray[np.bool_],
    is_met: NDArray[np.bool_] | None,
    taken: set[int],
) -> int | None:
    """The place of a pinned passage, or of the best one of a document that is not taken."""
    if target.chunk_id is not None:
        place = index.place_of(target.chunk_id)
        if place is not None:
            return None if place in taken else place
    places = [place for place in _places_of(index, PinTarget(target.document_id)) if place not in taken]
    if not places:
        return None
    ids = index.chunk_ids(np.array(places, dtype=np.int64)).tolist()

    def order(each: tuple[int, int]) -> tuple[bool, bool, float, int]:
        place, chunk_id = each
        is_out = is_met is not None and not is_met[place]
        return is_out, not is_found[place], -float(keys[place]), chunk_id

    return min(zip(places, ids, strict=True), key=order)[0]
