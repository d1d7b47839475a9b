"""Pins: which notes are shown at the start of a session, and where.

A person pins and unpins at will. Shoal pins a note that was matched often where a tag holds ("tags"), or that
feedback calls relevant ("relevance"), and takes back only these pins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from shoal.models.notes import TagRelevance
from shoal.notes.relevance import relevance_in
from shoal.settings import Settings

PinnedBy = Literal["person", "tags", "relevance"]


class Pin(NamedTuple):
    """A pin that counts where all `tags` hold; everywhere without tags."""

    by: PinnedBy
    tags: tuple[str, ...]

    def holds_in(self, environment_tags: Collection[str]) -> bool:
        return set(self.tags) <= set(environment_tags)


def smallest_tag_subset(
    matches: Iterable[tuple[Collection[str], int]],
    min_matches: int,
    *,
    excluded: Collection[str] = (),
    weights: Mapping[str, float] | None = None,
) -> tuple[str, ...] | None:
    """Return the smallest set of tags whose tag sets have `min_matches` matches together; None if none has.

    matches: tag sets with the number of matches in environments with exactly these tags
    excluded: tags that must not be in it
    weights: of tags, larger for rare ones (`affinity.tag_weight`)

    002 searches all subsets of up to four tags for the smallest minimal one. Every tag set that contains a
    subset contains each of its tags, so a tag alone has at least as many matches as any subset with it: the
    result is always a single tag, and counting tags finds it. Of several, the one with the most matches wins,
    then the one with the largest weight, then the first in the alphabet.
    """
    counts: Counter[str] = Counter()
    for tag_set, n_matches in matches:
        for tag in set(tag_set):
            counts[tag] += n_matches
    weights = weights or {}
    candidates = [
        (-n_matches, -weights.get(tag, 0.0), tag)
        for tag, n_matches in counts.items()
        if n_matches >= min_matches and tag not in excluded
    ]
    return (min(candidates)[-1],) if candidates else None


def pin_by_matches(
    matches: Iterable[tuple[Collection[str], int]],
    relevance: Mapping[str, TagRelevance],
    settings: Settings,
    *,
    weights: Mapping[str, float] | None = None,
) -> Pin | None:
    """Return the pin that the matches of a note justify. Tags for which feedback speaks against it are no
    reason, so that a pin taken back does not return with the next match."""
    rejected = [tag for tag in relevance if _is_rejected((tag,), relevance, settings)]
    tags = smallest_tag_subset(matches, settings.note_pin_matches, excluded=rejected, weights=weights)
    return None if tags is None else Pin("tags", tags)


def pin_by_relevance(
    relevance: Mapping[str, TagRelevance], judged_tags: Collection[str], settings: Settings
) -> Pin | None:
    """Return the pin that feedback justifies, after a judgement of `judged_tags`.

    The average of these tags must be above `note_pin_relevance` with `note_pin_min_evals` judgements. The pin
    gets those of them that fulfil both on their own: it counts where the note was found useful.
    """

    def is_proven(tags: Collection[str]) -> bool:
        average, n_evals = relevance_in(relevance, tags)
        return n_evals >= settings.note_pin_min_evals and average > settings.note_pin_relevance

    proven = tuple(sorted(tag for tag in set(judged_tags) if is_proven((tag,))))
    return Pin("relevance", proven) if proven and is_proven(judged_tags) else None


def keeps_pin(pin: Pin, relevance: Mapping[str, TagRelevance], settings: Settings) -> bool:
    """Whether a pin stays. Feedback ends only automatic pins: when it speaks against the note where the pin
    counts (below `note_unpin_relevance`, with the evidence that filtering needs)."""
    return pin.by == "person" or not _is_rejected(pin.tags, relevance, settings)


def _is_rejected(tags: Collection[str], relevance: Mapping[str, TagRelevance], settings: Settings) -> bool:
    average, n_evals = relevance_in(relevance, tags)
    return n_evals >= settings.note_filter_min_evals and average < settings.note_unpin_relevance
