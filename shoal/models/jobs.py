"""Kinds and states of jobs and of their items, and the outcome of a rescore."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RescoreResult:
    """The outcome of a rescore.

    `failed`: titles of documents whose chunks were not rescored, each with the reason. `vocabulary_version`
    is that of the other documents now. `n_notes`: notes whose words or profile changed.
    """

    n_documents: int
    failed: tuple[tuple[str, str], ...]
    vocabulary_version: int
    n_notes: int = 0


class JobKind(enum.StrEnum):
    ingest = "ingest"
    replacing = "replace"
    delete = "delete"
    rescore = "rescore"
    dedup = "dedup"
    embed = "embed"


class JobStatus(enum.StrEnum):
    """The status of a job as users see it. An incomplete upload is not a job yet."""

    enqueued = "enqueued"
    processing = "processing"
    succeeded = "succeeded"
    partial = "partial"
    failed = "failed"
    canceled = "canceled"


class OnConflict(enum.StrEnum):
    """What happens to an uploaded document whose source path a stored document has."""

    keep = "keep"
    """It becomes another document, unless its content is stored already."""
    replacing = "replace"
    """It replaces the content of the stored document, which keeps its id."""


class ItemStatus(enum.StrEnum):
    enqueued = "enqueued"
    converting = "converting"
    converted = "converted"
    discovering = "discovering"
    discovered = "discovered"
    scoring = "scoring"
    embedding = "embedding"
    """Shown in place of `scoring` for an item of a job that embeds passages; never stored."""
    succeeded = "succeeded"
    duplicate = "duplicate"
    failed = "failed"
    canceled = "canceled"
