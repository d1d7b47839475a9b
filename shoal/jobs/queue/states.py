"""The states of the job protocol: stages, the plan of a job, and the status of an item in each stage."""

from __future__ import annotations

import enum
import json

from shoal.models import ItemStatus, JobKind
from shoal.settings import Settings

RECEIVING = "receiving"
"""Status of a job whose upload is not complete: nothing of it is promised, shown or claimed."""

DROPPED = "dropped"
"""Status of an upload that was given up; its rows are being removed."""


FINAL = frozenset({ItemStatus.succeeded, ItemStatus.duplicate, ItemStatus.failed, ItemStatus.canceled})


class Stage(enum.StrEnum):
    """What a wave goes through. A job that ingests discovers, learns and scores; one that rescores surveys what is
    stored, learns afresh and scores anew."""

    discover = "discover"
    learn = "learn"
    score = "score"
    rediscover = "rediscover"
    relearn = "relearn"
    rescore = "rescore"
    delete = "delete"


WHOLE_WAVE = frozenset({Stage.learn, Stage.relearn})
"""Stages in which a wave is worked on as a whole, and only one of all waves at a time; in the others each of its
items is."""

DISCOVER_STAGES = frozenset({Stage.discover, Stage.rediscover})
"""Stages that an item comes out of as `discovered`, where others follow."""


WAVE_DONE = "done"
"""The stage of a wave that has been through its plan."""

RUNNING = {
    Stage.discover: ItemStatus.discovering,
    Stage.rediscover: ItemStatus.discovering,
    Stage.score: ItemStatus.scoring,
    Stage.rescore: ItemStatus.scoring,
    # Items have no state of their own for the moment it takes to delete a document.
    Stage.delete: ItemStatus.scoring,
}
"""What an item is while it is being worked on, by stage."""


def plan_for(kind: JobKind, settings: Settings) -> tuple[Stage, ...]:
    """The stages that every wave of a new job goes through."""
    if kind is JobKind.delete:
        return (Stage.delete,)
    if kind is JobKind.rescore:
        return (Stage.rediscover, Stage.relearn, Stage.rescore) if settings.learning else (Stage.rescore,)
    return (Stage.discover, Stage.learn, Stage.score) if settings.learning else (Stage.score,)


def plan_to_json(plan: tuple[Stage, ...]) -> str:
    return json.dumps([stage.value for stage in plan])


def plan_from_json(text: str) -> tuple[Stage, ...]:
    return tuple(Stage(name) for name in json.loads(text))


def ready_status(stage: Stage, plan: tuple[Stage, ...]) -> ItemStatus:
    """What an item is while it waits for its turn in `stage`."""
    return ItemStatus.discovered if DISCOVER_STAGES & set(plan[: plan.index(stage)]) else ItemStatus.enqueued


def stage_after(stage: Stage, plan: tuple[Stage, ...]) -> Stage | None:
    """The stage that follows, None after the last."""
    place = plan.index(stage) + 1
    return plan[place] if place < len(plan) else None
