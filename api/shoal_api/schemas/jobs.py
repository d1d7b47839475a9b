"""Jobs and their items."""

from __future__ import annotations

from marshmallow import fields, validate

from shoal.jobs.queue.states import Stage
from shoal.models import JobKind
from shoal_api.schemas.common import CommaList, Moment, PageSchema, Schema

JOB_KINDS = tuple(kind.value for kind in JobKind)
STAGES = tuple(stage.value for stage in Stage)
JOB_STATUSES = ("enqueued", "processing", "succeeded", "partial", "failed", "canceled")
ITEM_STATUSES = (
    "enqueued",
    "discovering",
    "discovered",
    "scoring",
    "succeeded",
    "duplicate",
    "failed",
    "canceled",
)


class ProgressSchema(Schema):
    total = fields.Integer(required=True, metadata={"description": "items"})
    done = fields.Integer(required=True, metadata={"description": "items that have ended, however"})
    failed = fields.Integer(required=True, metadata={"description": "items that could not be stored"})
    duplicate = fields.Integer(
        required=True, metadata={"description": "items whose content is stored already"}
    )
    canceled = fields.Integer(required=True, metadata={"description": "items that were canceled"})
    skipped = fields.Integer(
        required=True,
        metadata={"description": "entries of an archive that are no items: folders, hidden files"},
    )
    bytes_total = fields.Integer(required=True, metadata={"description": "of the texts of all items"})
    bytes_done = fields.Integer(required=True, metadata={"description": "of items that have ended"})
    fraction = fields.Float(
        required=True,
        metadata={
            "description": "of the work that is done, 0 to 1; documents that were looked at but are not stored yet "
            "count half"
        },
    )
    items_per_second = fields.Float(
        required=True,
        allow_none=True,
        metadata={
            "description": "of the last minute, once it has ended of all its time; null before it begins"
        },
    )
    bytes_per_second = fields.Float(
        required=True, allow_none=True, metadata={"description": "likewise, counted as `fraction` is"}
    )
    seconds_left = fields.Float(
        required=True,
        allow_none=True,
        metadata={"description": "at that pace; null while nothing can be said"},
    )


class JobLinksSchema(Schema):
    self = fields.String(required=True)
    items = fields.String(required=True, metadata={"description": "address of its items"})
    events = fields.String(required=True, metadata={"description": "address of its events"})


class JobSchema(Schema):
    id = fields.Integer(required=True, metadata={"description": "id of the job"})
    kind = fields.String(
        required=True, validate=validate.OneOf(JOB_KINDS), metadata={"description": "what it does"}
    )
    status = fields.String(
        required=True,
        validate=validate.OneOf(JOB_STATUSES),
        metadata={"description": "how it stands; `partial`: some items failed, the others are done"},
    )
    stage = fields.String(
        required=True,
        allow_none=True,
        validate=validate.OneOf(STAGES),
        metadata={"description": "what is being done; null before it begins"},
    )
    progress = fields.Nested(ProgressSchema, required=True, metadata={"description": "how far it is"})
    created_at = Moment(required=True)
    started_at = Moment(
        required=True, allow_none=True, metadata={"description": "when a worker began; null before that"}
    )
    finished_at = Moment(
        required=True, allow_none=True, metadata={"description": "when it ended, however; null before that"}
    )
    error = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": "what went wrong first, and how often; or null"},
    )
    links = fields.Nested(JobLinksSchema, required=True)


class NewJobSchema(Schema):
    kind = fields.String(
        required=True,
        validate=validate.OneOf(["rescore"]),
        metadata={"description": "`rescore`; documents are uploaded and deleted under `/documents`"},
    )


class AcceptedSchema(Schema):
    """The job that will do what was asked."""

    job = fields.Nested(
        JobSchema, required=True, metadata={"description": "it is stored safely and will be done"}
    )


class JobListSchema(Schema):
    jobs = fields.List(
        fields.Nested(JobSchema), required=True, metadata={"description": "a page of them, the newest first"}
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class JobQuerySchema(PageSchema):
    status = CommaList(
        fields.String(validate=validate.OneOf(JOB_STATUSES)),
        metadata={
            "description": f"only jobs in this status, or in any of several, by commas: {', '.join(JOB_STATUSES)}"
        },
    )
    kind = CommaList(
        fields.String(validate=validate.OneOf(JOB_KINDS)),
        metadata={
            "description": f"only jobs of this kind, or of any of several, by commas: {', '.join(JOB_KINDS)}"
        },
    )


class WaitQuerySchema(Schema):
    wait = fields.Float(
        load_default=0.0,
        validate=validate.Range(min=0, error="must not be negative"),
        metadata={"description": "seconds to wait for a change, at most 60"},
    )


class ItemSchema(Schema):
    seq = fields.Integer(required=True, metadata={"description": "place in the upload, from 0"})
    title = fields.String(required=True, metadata={"description": "given, or from its path or text"})
    source_path = fields.String(required=True, allow_none=True)
    bytes = fields.Integer(required=True, metadata={"description": "of its text"})
    status = fields.String(
        required=True, validate=validate.OneOf(ITEM_STATUSES), metadata={"description": "what became of it"}
    )
    stage = fields.String(
        required=True,
        allow_none=True,
        validate=validate.OneOf(STAGES),
        metadata={"description": "what is done with it now; null once it has ended"},
    )
    document_id = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "the document it became, or the one it duplicates"},
    )
    attempts = fields.Integer(
        required=True,
        metadata={
            "description": "how many workers died while they processed this item alone; 0 for nearly all items, "
            "whatever became of them"
        },
    )
    error = fields.String(required=True, allow_none=True, metadata={"description": "why it failed, or null"})
    warnings = fields.List(
        fields.String(),
        required=True,
        metadata={
            "description": "what is doubtful about the text, such as a guessed encoding; of a duplicate also what the "
            "document that has its content does not have of it, such as its title"
        },
    )


class ItemListSchema(Schema):
    items = fields.List(
        fields.Nested(ItemSchema),
        required=True,
        metadata={"description": "a page of them, in the order of the upload"},
    )
    total = fields.Integer(required=True, metadata={"description": "on all pages"})


class ItemQuerySchema(PageSchema):
    status = fields.String(
        validate=validate.OneOf(ITEM_STATUSES), metadata={"description": "only items in this status"}
    )
