"""Values of sources: places that a library follows, their runs and their objects."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from shoal.models.described import Time

MAX_NAME_CHARS = 64
NAME_PATTERN = r"[a-z0-9][a-z0-9_.-]{0,63}"


class WhenGone(enum.StrEnum):
    """What becomes of a document whose object is gone: deleted, given the tag `gone`, or kept as it is."""

    delete = "delete"
    mark = "mark"
    keep = "keep"


class RunStatus(enum.StrEnum):
    """`listing` what there is, `reading` what is new or changed, `removing` what is gone; then its end."""

    listing = "listing"
    reading = "reading"
    removing = "removing"
    succeeded = "succeeded"
    failed = "failed"
    stopped = "stopped"


@dataclass(frozen=True, slots=True)
class SourceRun:
    """One run of a source."""

    id: Annotated[int, "id of the run"]
    status: Annotated[RunStatus, "what it does, or how it ended"]
    n_listed: Annotated[int, "objects that the source has"]
    n_skipped: Annotated[int, "entries that the patterns leave out, or of kinds without text"]
    n_new: Annotated[int, "objects read for the first time"]
    n_changed: Annotated[int, "objects read again with other content"]
    n_moved: Annotated[int, "objects found under another name; their documents follow them"]
    n_removed: Annotated[int, "objects that are gone"]
    n_failed: Annotated[int, "objects that could not be read or stored"]
    n_bytes: Annotated[int, "bytes read from the source"]
    error: Annotated[str | None, "why it failed, or why its last try did; null without a failure"]
    next_try_at: Annotated[Time | None, "when it goes on after a failure; null if it need not wait"]
    started_at: Annotated[Time, "when it began, UTC in ISO 8601"]
    ended_at: Annotated[Time | None, "when it ended; null while it runs"]


@dataclass(frozen=True, slots=True)
class SourceRunPage:
    """A page of runs."""

    runs: Annotated[tuple[SourceRun, ...], "a page, newest first"]
    total: int


@dataclass(frozen=True, slots=True)
class Source:
    """A place that the library follows."""

    name: Annotated[str, "its name"]
    url: Annotated[str, "its address"]
    options: Annotated[Mapping[str, str], "how it is reached"]
    secrets: Annotated[Mapping[str, str], "where its secrets are, never the secrets"]
    include: Annotated[Sequence[str], "only objects that match one of these patterns; empty: all"]
    exclude: Annotated[Sequence[str], "not these"]
    tags: Annotated[Sequence[str], "of its documents"]
    allow: Annotated[Sequence[str] | None, "who may see its documents with a search token"]
    deny: Annotated[Sequence[str], "who may not"]
    when_gone: Annotated[WhenGone, "what becomes of documents whose objects are gone"]
    max_objects: Annotated[int, "most objects; a run that lists more fails"]
    max_bytes: Annotated[int | None, "most bytes that a run reads; null: no limit"]
    max_seconds: Annotated[int | None, "longest run; null: no limit"]
    max_rate: Annotated[float | None, "most objects that are read in a second; null: no limit"]
    every: Annotated[float | None, "seconds from the end of one run to the next; null: only when asked for"]
    is_paused: Annotated[bool, "whether no run begins by itself"]
    next_run_at: Annotated[Time | None, "when the next run begins; null if none does by itself"]
    n_objects: Annotated[int, "objects known"]
    n_errors: Annotated[int, "objects that are not stored because of an error"]
    last_run: Annotated[SourceRun | None, "the newest run; null before the first"]
    created_at: Annotated[Time, "when it was added, UTC in ISO 8601"]
    updated_at: Annotated[Time, "when it was changed, UTC in ISO 8601"]


@dataclass(frozen=True, slots=True)
class SourcePage:
    """A page of sources."""

    sources: Annotated[tuple[Source, ...], "a page, by name"]
    total: int


@dataclass(frozen=True, slots=True)
class RemovedSource:
    """What became of the documents of a source that was removed."""

    n_deleted: Annotated[int, "documents that a job deletes"]


@dataclass(frozen=True, slots=True)
class StoppedRun:
    """Whether a run was stopped."""

    stopped: Annotated[bool, "false if none was open"]


@dataclass(frozen=True, slots=True)
class SourceObject:
    """An object of a source, such as a file."""

    name: Annotated[str, "below the address of the source"]
    source_path: Annotated[str, "of its document"]
    n_bytes: Annotated[int | None, "its size as listed; null if the source does not say"]
    document_id: Annotated[int | None, "the document that has its text; null if there is none"]
    error: Annotated[str | None, "why it is not stored; null if it is"]


@dataclass(frozen=True, slots=True)
class SourceObjectPage:
    """A page of objects."""

    objects: Annotated[tuple[SourceObject, ...], "a page, by name"]
    total: int


@dataclass(frozen=True, slots=True)
class PreviewedObject:
    """The beginning of what would be stored of an object."""

    name: Annotated[str, "below the address of the source"]
    title: Annotated[str, "of its document; empty if it cannot be read"]
    n_bytes: Annotated[int, "its size"]
    text: Annotated[str, "its first 300 characters"]
    error: Annotated[str | None, "why it would not be stored; null if it would"]


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """What a run would do, found without storing anything."""

    n_listed: Annotated[int, "objects that the source has"]
    n_skipped: Annotated[int, "entries that the patterns leave out, or of kinds without text"]
    n_new: Annotated[int, "objects that are not known yet"]
    n_changed: Annotated[int, "objects whose version has changed"]
    n_removed: Annotated[int, "known objects that are gone, or that were moved"]
    n_bytes: Annotated[int, "bytes that a run would read, as listed"]
    is_complete: Annotated[bool, "whether the listing was read to its end within `max_objects`"]
    first: Annotated[tuple[PreviewedObject, ...], "the first ten of those that would be read"]
