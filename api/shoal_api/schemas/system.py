"""Schemas of the service's state and the hierarchy of reefs."""

from __future__ import annotations

import functools

from marshmallow import fields

from shoal.encoders.encoder import EncoderIdentity
from shoal.models.responses import Readiness, Reefs, Status
from shoal_api.schemas.common import Record, RecordMap, Schema
from shoal_api.schemas.records import record_schema
from shoal_api.schemas.results import UsedWeightsSchema


class HealthSchema(Schema):
    status = fields.String(required=True, metadata={"description": "`ok`"})


StatusSchema = record_schema(
    Status,
    encoder=functools.partial(Record, record_schema(EncoderIdentity, "Encoder")),
    presets=functools.partial(RecordMap, UsedWeightsSchema),
)
ReefsSchema = record_schema(Reefs)
ReadySchema = record_schema(Readiness, "Ready")
