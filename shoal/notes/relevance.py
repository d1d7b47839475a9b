"""Tag relevance: what feedback says about a note, by tag of the environment in which it was judged.

Each tag of a note has a score of -1 to 1, an exponential moving average of its judgements that starts at 0:

    score = (1 - smoothing) * score + smoothing * judgement

and counts of positive and negative judgements, its evidence. A judgement of 0 moves the score, and is
evidence for neither. 002 names the average, the thresholds and the weight, but not the smoothing factor: that
is ours.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from shoal.errors import InvalidFieldError
from shoal.models.notes import TagRelevance
from shoal.notes.environment import MAX_TAG_CHARS, MAX_TAGS, normalized_tag, text_list
from shoal.settings import Settings

UNKNOWN = TagRelevance(0.0, 0, 0)


class Relevance(NamedTuple):
    """The relevance of a note for an environment.

    average: mean of the scores of the tags, weighted by their evidence; 0 without evidence
    n_evals: the most judgements of one tag, because one feedback that scores five tags is one judgement
    """

    average: float
    n_evals: int


def feedback_scores(
    applicable: bool, tag_scores: Mapping[str, object] | None, environment_tags: Iterable[str]
) -> dict[str, float]:
    """Return the judgement by tag: the scores given, else 1 or -1 for every tag of the environment.

    Scores beyond -1 to 1 are cut. Raises InvalidFieldError.
    """
    if not tag_scores:
        return dict.fromkeys(sorted(set(environment_tags))[:MAX_TAGS], 1.0 if applicable else -1.0)
    text_list(list(tag_scores), "tag_scores", MAX_TAGS, MAX_TAG_CHARS)
    return {normalized_tag(tag): _checked_score(tag, score) for tag, score in tag_scores.items()}


def judged(
    relevance: Mapping[str, TagRelevance], scores: Mapping[str, float], settings: Settings
) -> dict[str, TagRelevance]:
    """Return the relevance of the judged tags after one feedback. Other tags do not change."""
    return {tag: _next(relevance.get(tag, UNKNOWN), score, settings) for tag, score in scores.items()}


def relevance_in(relevance: Mapping[str, TagRelevance], tags: Collection[str]) -> Relevance:
    """Return the relevance of a note for an environment with these tags."""
    seen = [relevance[tag] for tag in sorted(set(tags)) if tag in relevance and relevance[tag].n_evals]
    n_total = sum(tag.n_evals for tag in seen)
    if not n_total:
        return Relevance(0.0, 0)
    average = math.fsum(tag.score * tag.n_evals for tag in seen) / n_total
    return Relevance(average, max(tag.n_evals for tag in seen))


def is_filtered(relevance: Relevance, settings: Settings) -> bool:
    """Whether the evidence against a note suffices to leave it out."""
    return (
        relevance.n_evals >= settings.note_filter_min_evals and relevance.average < settings.note_filter_score
    )


def boost(relevance: Relevance, settings: Settings) -> float:
    """Return what the relevance adds to the score of a note; negative for a note judged irrelevant."""
    return settings.note_relevance_weight * relevance.average


def merge(notes: Iterable[Mapping[str, TagRelevance]]) -> dict[str, TagRelevance]:
    """Return the relevance of a note that absorbs others: scores averaged by evidence, counts added.

    Scores without any evidence are averaged with equal weights. The order of the notes does not matter.
    """
    by_tag: dict[str, list[TagRelevance]] = {}
    for note in notes:
        for tag, relevance in note.items():
            by_tag.setdefault(tag, []).append(relevance)
    return {tag: _merged(entries) for tag, entries in sorted(by_tag.items())}


def _next(relevance: TagRelevance, score: float, settings: Settings) -> TagRelevance:
    smoothing = settings.note_relevance_smoothing
    return TagRelevance(
        (1 - smoothing) * relevance.score + smoothing * score,
        relevance.n_positive + (score > 0),
        relevance.n_negative + (score < 0),
    )


def _merged(entries: list[TagRelevance]) -> TagRelevance:
    n_total = sum(entry.n_evals for entry in entries)
    weights = [entry.n_evals / n_total if n_total else 1 / len(entries) for entry in entries]
    score = math.fsum(weight * entry.score for weight, entry in zip(weights, entries, strict=True))
    return TagRelevance(
        max(-1.0, min(1.0, score)),
        sum(entry.n_positive for entry in entries),
        sum(entry.n_negative for entry in entries),
    )


def _checked_score(tag: str, score: object) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        raise InvalidFieldError("tag_scores", f"{tag[:50]!r} must have a number between -1 and 1")
    return max(-1.0, min(1.0, float(score)))
