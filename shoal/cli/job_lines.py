"""One-line texts about jobs and items. The input is the JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.cli.terminal import data_size, quantity
from shoal.models.jobs import JobKind

STORING_KINDS = (JobKind.ingest, JobKind.replacing)


def summary(job: Mapping[str, Any]) -> str:
    """The status of a job and the number of its items by outcome."""
    progress = job["progress"]
    # `done` counts all ended items: stored, duplicate, failed and canceled.
    succeeded = progress["done"] - progress["failed"] - progress["duplicate"] - progress["canceled"]
    if job["kind"] in STORING_KINDS:
        parts = [f"{succeeded:,} stored", quantity(progress["duplicate"], "duplicate")]
    else:
        parts = [f"{succeeded:,} done"]
    parts.append(f"{progress['failed']:,} failed")
    if progress["canceled"]:
        parts.append(f"{progress['canceled']:,} canceled")
    if progress.get("skipped"):
        parts.append(f"{progress['skipped']:,} skipped")
    open_items = progress["total"] - progress["done"]
    if open_items:
        parts.append(f"{open_items:,} to do")
    return f"job {job['id']} {job['status']}: {', '.join(parts)}"


def progress_line(job: Mapping[str, Any]) -> str:
    """The progress of a job, for output without a progress bar: items that have passed its stage."""
    progress = job["progress"]
    done = progress["done"] if progress.get("stage_done") is None else progress["stage_done"]
    items = f"{done:,} of {quantity(progress['total'], 'item')}"
    sizes = f"{data_size(progress['bytes_done'])} of {data_size(progress['bytes_total'])}"
    parts = [items, sizes, pace(progress)]
    return f"job {job['id']} {job['stage'] or job['status']}: {', '.join(part for part in parts if part)}"


def pace(progress: Mapping[str, Any]) -> str:
    """The share of the work done, the speed and the remaining time, as far as the service reports them."""
    parts = []
    if progress.get("fraction") is not None and progress["done"] < progress["total"]:
        parts.append(f"{progress['fraction']:.0%} of the work done")
    if progress.get("bytes_per_second"):
        parts.append(f"{data_size(progress['bytes_per_second'])}/s")
    if progress.get("items_per_second"):
        parts.append(f"{progress['items_per_second']:,.1f} documents/s")
    if progress.get("seconds_left"):
        minutes, seconds = divmod(round(progress["seconds_left"]), 60)
        parts.append(f"about {minutes:,} min {seconds} s left" if minutes else f"about {seconds} s left")
    return ", ".join(parts)


def with_reason(name: str, reason: str) -> str:
    """A name and an error. The name is not repeated if the error already begins with it."""
    return reason if reason.startswith(f"{name}: ") else f"{name}: {reason}"
