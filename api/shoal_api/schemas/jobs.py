"""Schemas of jobs and their items."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.jobs.queue.states import Stage
from shoal.models.jobs import ItemStatus, JobKind, JobStatus
from shoal_api.schemas.common import CommaList, Moment, PageSchema, Schema

JOB_KINDS = tuple(kind.value for kind in JobKind)
STAGES = tuple(stage.value for stage in Stage)
JOB_STATUSES = tuple(status.value for status in JobStatus)
ITEM_STATUSES = tuple(status.value for status in ItemStatus)


class ProgressSchema(Schema):
    total = fields.Integer(required=True, metadata={"description": "items in the job"})
    done = fields.Integer(required=True, metadata={"description": "items that have ended, with any status"})
    failed = fields.Integer(required=True, metadata={"description": "items that could not be stored"})
    duplicate = fields.Integer(
        required=True, metadata={"description": "items whose content was stored already"}
    )
    canceled = fields.Integer(required=True, metadata={"description": "items that were canceled"})
    skipped = fields.Integer(
        required=True,
        metadata={"description": "skipped entries of an archive: folders, hidden files"},
    )
    bytes_total = fields.Integer(required=True, metadata={"description": "bytes of text of all items"})
    bytes_done = fields.Integer(
        required=True, metadata={"description": "bytes of text of items that have ended"}
    )
    fraction = fields.Float(
        required=True,
        metadata={
            "description": "share of the work done, 0 to 1: items count for the stages that they have "
            "passed, and large files for their share of a conversion"
        },
    )
    stage_done = fields.Integer(
        required=True,
        allow_none=True,
        metadata={
            "description": "items that have passed the current stage, or have ended; null in a stage that "
            "takes many items at once, and after the end"
        },
    )
    items_per_second = fields.Float(
        required=True,
        allow_none=True,
        metadata={
            "description": "rate of the last minute, or of the whole job once it has ended; null before it "
            "starts"
        },
    )
    bytes_per_second = fields.Float(
        required=True,
        allow_none=True,
        metadata={"description": "likewise in bytes of text, counted as for `fraction`"},
    )
    seconds_left = fields.Float(
        required=True,
        allow_none=True,
        metadata={"description": "estimate at that rate; null while there is none"},
    )


class JobLinksSchema(Schema):
    self = fields.String(required=True)
    items = fields.String(required=True, metadata={"description": "URL of its items"})
    events = fields.String(required=True, metadata={"description": "URL of its events"})


class JobSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the job"})
    kind = fields.String(
        required=True, validate=validate.OneOf(JOB_KINDS), metadata={"description": "what it does"}
    )
    status = fields.String(
        required=True,
        validate=validate.OneOf(JOB_STATUSES),
        metadata={"description": "`partial`: some items failed, the others are done"},
    )
    stage = fields.String(
        required=True,
        allow_none=True,
        validate=validate.OneOf(STAGES),
        metadata={"description": "current stage; null before it starts"},
    )
    progress = fields.Nested(ProgressSchema, required=True, metadata={"description": "progress of the job"})
    created_at = Moment(required=True)
    started_at = Moment(
        required=True, allow_none=True, metadata={"description": "when a worker started it; null before that"}
    )
    finished_at = Moment(
        required=True,
        allow_none=True,
        metadata={"description": "when it ended, with any status; null before that"},
    )
    error = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "the first error and how often it occurred, or null"},
    )
    links = fields.Nested(JobLinksSchema, required=True)


class NewJobSchema(Schema):
    kind = fields.String(
        required=True,
        validate=validate.OneOf(["rescore", "embed"]),
        metadata={"description": "`rescore` or `embed`; use `/documents` to upload and delete documents"},
    )


class AcceptedSchema(Schema):
    """An accepted job."""

    job = fields.Nested(
        JobSchema, required=True, metadata={"description": "the job, durably stored and to be run"}
    )


class JobListSchema(Schema):
    jobs = fields.List(
        fields.Nested(JobSchema), required=True, metadata={"description": "a page of jobs, newest first"}
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class JobQuerySchema(PageSchema):
    status = CommaList(
        fields.String(validate=validate.OneOf(JOB_STATUSES)),
        metadata={
            "description": f"only jobs with one of these statuses, comma-separated: {', '.join(JOB_STATUSES)}"
        },
    )
    kind = CommaList(
        fields.String(validate=validate.OneOf(JOB_KINDS)),
        metadata={"description": f"only jobs of one of these kinds, comma-separated: {', '.join(JOB_KINDS)}"},
    )


class WaitQuerySchema(Schema):
    wait = fields.Float(
        load_default=0.0,
        validate=validate.Range(min=0, error="must not be negative"),
        metadata={"description": "seconds to wait for a change, at most 60"},
    )


class ItemSchema(Schema):
    seq = fields.Integer(required=True, metadata={"description": "number in the upload, from 1"})
    title = fields.String(required=True, metadata={"description": "given, or derived from its path or text"})
    source_path = fields.String(required=True, allow_none=True)
    bytes = fields.Integer(required=True, metadata={"description": "size of its text"})
    status = fields.String(
        required=True,
        validate=validate.OneOf(ITEM_STATUSES),
        metadata={"description": "status of the item"},
    )
    stage = fields.String(
        required=True,
        allow_none=True,
        validate=validate.OneOf(STAGES),
        metadata={"description": "current stage; null once it has ended"},
    )
    document_id = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "the document stored for it, or the one it duplicates"},
    )
    attempts = fields.Integer(
        required=True,
        metadata={
            "description": "how many workers died while processing only this item; 0 for nearly all items"
        },
    )
    error = fields.String(required=True, allow_none=True, metadata={"description": "why it failed, or null"})
    error_code = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "stable code of the error, for programs; null without an error"},
    )
    stage_share = fields.Float(
        required=True,
        allow_none=True,
        metadata={
            "description": "share of the current stage that a worker has passed with it, 0 to 1; null if it "
            "is not known, as for all items that take a few seconds"
        },
    )
    warnings = fields.List(
        fields.String(),
        required=True,
        metadata={
            "description": "problems of the text, such as a guessed encoding; for a duplicate also the "
            "fields, such as its title, that the existing document does not have"
        },
    )


class ItemListSchema(Schema):
    items = fields.List(
        fields.Nested(ItemSchema),
        required=True,
        metadata={"description": "a page of items, in upload order"},
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class ItemQuerySchema(PageSchema):
    status = fields.String(
        validate=validate.OneOf(ITEM_STATUSES), metadata={"description": "only items with this status"}
    )
