"""Kinds and states of jobs and of their items, and the outcome of a rescore."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated


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


class Stage(enum.StrEnum):
    """A step of a wave. Ingest jobs discover, learn, score, after a convert if they have files to convert;
    rescore jobs rediscover, relearn, rescore. Delete, dedup and embed jobs have one step."""

    convert = "convert"
    discover = "discover"
    learn = "learn"
    score = "score"
    rediscover = "rediscover"
    relearn = "relearn"
    rescore = "rescore"
    delete = "delete"
    dedup = "dedup"
    embed = "embed"


@dataclass(frozen=True, slots=True)
class ItemCounts:
    """Items and bytes of a job. When it has ended, all items and bytes are done."""

    total: Annotated[int, "items in the job"]
    done: Annotated[int, "items that have ended, with any status"]
    failed: Annotated[int, "items that could not be stored"]
    duplicate: Annotated[int, "items whose content was stored already"]
    bytes_total: Annotated[int, "bytes of text of all items"]
    bytes_done: Annotated[int, "bytes of text of items that have ended"]
    canceled: Annotated[int, "items that were canceled"] = 0
    skipped: Annotated[int, "skipped entries of an archive: folders, hidden files"] = 0


@dataclass(frozen=True, slots=True)
class Item:
    """One document of a job."""

    seq: Annotated[int, "number in the upload, from 1"]
    title: Annotated[str, "given, or derived from its path or text"]
    source_path: str | None
    bytes: Annotated[int, "size of its text"]
    status: Annotated[ItemStatus, "status of the item"]
    stage: Annotated[Stage | None, "current stage; null once it has ended"]
    document_id: Annotated[int | None, "the document stored for it, or the one it duplicates"]
    attempts: Annotated[
        int,
        "how many workers died while processing only this item, and how often a website or an encoder did "
        "not answer; 0 for nearly all items",
    ]
    error: Annotated[str | None, "why it failed, or null"]
    warnings: Annotated[
        tuple[str, ...],
        "problems of the text, such as a guessed encoding; for a duplicate also the fields, such as its "
        "title, that the existing document does not have",
    ] = ()
    error_code: Annotated[str | None, "stable code of the error, for programs; null without an error"] = None
    stage_share: Annotated[
        float | None,
        "share of the current stage that a worker has passed with it, 0 to 1; null if it is not known, as "
        "for all items that take a few seconds",
    ] = None
    attached_to: Annotated[
        int | None, "number of the item in whose file it was found, such as a mail; null if it was uploaded"
    ] = None
