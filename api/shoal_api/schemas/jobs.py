"""Schemas of jobs: what the service adds to their records, and how long a request waits for one."""

from __future__ import annotations

import functools

from marshmallow import fields, validate

from shoal.models.responses import Job
from shoal_api.schemas.common import Record, Schema
from shoal_api.schemas.records import record_schema


class JobLinksSchema(Schema):
    self = fields.String(required=True)
    items = fields.String(required=True, metadata={"description": "URL of its items"})
    events = fields.String(required=True, metadata={"description": "URL of its events"})


class WaitQuerySchema(Schema):
    wait = fields.Float(
        load_default=0.0,
        validate=validate.Range(min=0, error="must not be negative"),
        metadata={"description": "seconds to wait for a change, at most 60"},
    )


JobSchema = record_schema(Job, links=functools.partial(Record, JobLinksSchema))
