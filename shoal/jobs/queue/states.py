"""States of the job protocol: stages, the plan of a job, and the status of an item in each stage."""

from __future__ import annotations

import json
from collections.abc import Iterable

from shoal.models.jobs import ItemStatus, JobKind, Stage
from shoal.settings import Settings

RECEIVING = "receiving"
"""Status of a job whose upload is incomplete: it is not accepted, not listed and not claimable."""

DROPPED = "dropped"
"""Status of an abandoned upload or removed job; its rows are being deleted."""

FINAL = frozenset({ItemStatus.succeeded, ItemStatus.duplicate, ItemStatus.failed, ItemStatus.canceled})


RETRIABLE = frozenset({ItemStatus.failed, ItemStatus.canceled})
"""Final statuses of items that a retry sends through the stages again. They keep their texts as long as their
job."""


WHOLE_WAVE_STAGES = frozenset({Stage.learn, Stage.relearn})
"""Stages that process a whole wave, one wave of the database at a time. Others process single items."""

STATUS_AFTER = {
    Stage.convert: ItemStatus.converted,
    Stage.discover: ItemStatus.discovered,
    Stage.rediscover: ItemStatus.discovered,
}
"""Status of an item that has passed a stage and waits for the next; after other stages it has ended, or the
stage is one of a whole wave."""

WAVE_DONE = "done"
"""Stage of a wave that has completed its plan."""

STORED = tuple(status for status in ItemStatus if status is not ItemStatus.embedding)
"""Statuses that rows of items have."""

RUNNING = {
    Stage.convert: ItemStatus.converting,
    Stage.discover: ItemStatus.discovering,
    Stage.rediscover: ItemStatus.discovering,
    Stage.score: ItemStatus.scoring,
    Stage.rescore: ItemStatus.scoring,
    # No separate status is stored for deletion, which takes a moment, for notes, and for vectors. People see
    # that of vectors as `embedding`.
    Stage.delete: ItemStatus.scoring,
    Stage.dedup: ItemStatus.scoring,
    Stage.embed: ItemStatus.scoring,
}
"""Status of a claimed item, by stage."""


def plan_for(kind: JobKind, settings: Settings) -> tuple[Stage, ...]:
    """Return the stages of every wave of a new job."""
    if kind is JobKind.delete:
        return (Stage.delete,)
    if kind is JobKind.dedup:
        return (Stage.dedup,)
    if kind is JobKind.embed:
        return (Stage.embed,)
    if kind is JobKind.rescore:
        return (Stage.rediscover, Stage.relearn, Stage.rescore) if settings.learning else (Stage.rescore,)
    return (Stage.discover, Stage.learn, Stage.score) if settings.learning else (Stage.score,)


def with_conversion(plan: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return the plan of a job that has files to convert."""
    return (Stage.convert, *plan)


def plan_to_json(plan: tuple[Stage, ...]) -> str:
    return json.dumps([stage.value for stage in plan])


def plan_from_json(text: str) -> tuple[Stage, ...]:
    return tuple(Stage(name) for name in json.loads(text))


def ready_status(stage: Stage, plan: tuple[Stage, ...]) -> ItemStatus:
    """Return the status of an item that waits for `stage`."""
    passed = [STATUS_AFTER[earlier] for earlier in plan[: plan.index(stage)] if earlier in STATUS_AFTER]
    return passed[-1] if passed else ItemStatus.enqueued


def stage_after(stage: Stage, plan: tuple[Stage, ...]) -> Stage | None:
    """Return the stage that follows, None after the last."""
    index = plan.index(stage) + 1
    return plan[index] if index < len(plan) else None


def sql_list(values: Iterable[str]) -> str:
    """Format the list of an `IN` in a statement; constants only."""
    return "(" + ", ".join(f"'{value}'" for value in values) + ")"
