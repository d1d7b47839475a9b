"""Schemas of jobs and their items."""

from __future__ import annotations

import functools

from marshmallow import fields, validate

from shoal.models.jobs import ItemStatus, JobKind, JobStatus
from shoal.models.responses import ItemPage, Job, JobPage
from shoal_api.schemas.common import CommaList, PageSchema, Record, Schema
from shoal_api.schemas.records import record_schema

JOB_KINDS = tuple(kind.value for kind in JobKind)
JOB_STATUSES = tuple(status.value for status in JobStatus)
ITEM_STATUSES = tuple(status.value for status in ItemStatus)


class JobLinksSchema(Schema):
    self = fields.String(required=True)
    items = fields.String(required=True, metadata={"description": "URL of its items"})
    events = fields.String(required=True, metadata={"description": "URL of its events"})


class NewJobSchema(Schema):
    kind = fields.String(
        required=True,
        validate=validate.OneOf(["rescore", "embed"]),
        metadata={"description": "`rescore` or `embed`; use `/documents` to upload and delete documents"},
    )


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


class ItemQuerySchema(PageSchema):
    status = fields.String(
        validate=validate.OneOf(ITEM_STATUSES), metadata={"description": "only items with this status"}
    )


JobSchema = record_schema(Job, links=functools.partial(Record, JobLinksSchema))
JobListSchema = record_schema(JobPage, "JobList")
ItemListSchema = record_schema(ItemPage, "ItemList")


class AcceptedSchema(Schema):
    """An accepted job."""

    job = fields.Nested(
        JobSchema, required=True, metadata={"description": "the job, durably stored and to be run"}
    )
