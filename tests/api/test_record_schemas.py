"""Schemas of answers follow from the records: types, descriptions, and what an answer may lack."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import marshmallow as ma
import pytest
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin

from shoal.models.described import Presence, Time
from shoal_api.schemas.records import known_records, members_of, record_schema


class Colour(enum.StrEnum):
    red = "red"
    blue = "blue"


class Shell(NamedTuple):
    size: Annotated[float, "in centimetres"]


@dataclass(frozen=True, slots=True)
class Snail:
    """A record of every kind of field."""

    name: Annotated[str, "its name"]
    shells: Annotated[tuple[Shell, ...], "its shells"]
    found_at: Annotated[Time | None, "when it was found"]
    colour: Annotated[Colour, "its colour"] = Colour.red
    habit: Annotated[str, "what it does", ("creeps", "sleeps")] = "sleeps"
    n_by_year: Annotated[Mapping[str, int], "counts"] = None  # type: ignore[assignment]
    shell_by_year: Annotated[Mapping[str, Shell] | None, "shells"] = None
    spans: Annotated[tuple[tuple[int, int], ...], "places"] = ()
    value: Annotated[str | float | None, "of any kind"] = None
    shown: Annotated[Shell | None, "on request", Presence.ON_REQUEST] = None
    note: Annotated[str | None, "if there is one", Presence.IF_SET] = None

    @property
    def label(self) -> Annotated[str, "name and colour"]:
        return f"{self.name} ({self.colour})"

    @property
    def secret(self) -> str:
        return "not a member"


SnailSchema = record_schema(Snail)


def described() -> dict[str, Any]:
    spec = APISpec("test", "1", "3.1.0", plugins=[MarshmallowPlugin()])
    spec.components.schema("Snail", schema=SnailSchema)
    schema: dict[str, Any] = spec.to_dict()["components"]["schemas"]["Snail"]
    return schema


def test_types_become_those_of_json() -> None:
    properties = described()["properties"]
    assert {name: about.get("type") for name, about in properties.items()} == {
        "name": "string",
        "shells": "array",
        "found_at": ["string", "null"],
        "colour": "string",
        "habit": "string",
        "n_by_year": "object",
        "shell_by_year": ["object", "null"],
        "spans": "array",
        "value": ["string", "number", "null"],
        "shown": None,
        "note": "string",
        "label": "string",
    }
    assert properties["found_at"]["format"] == "date-time"
    assert properties["colour"]["enum"] == ["red", "blue"]
    assert properties["habit"]["enum"] == ["creeps", "sleeps"]
    assert properties["n_by_year"]["additionalProperties"] == {"type": "integer"}
    assert properties["spans"]["items"] == {"type": "array", "items": {"type": "integer"}}
    assert properties["shells"]["items"] == {"$ref": "#/components/schemas/Shell"}
    assert properties["value"]["description"] == "of any kind"


def test_an_answer_has_every_field_without_a_mark() -> None:
    properties = described()["properties"]
    assert set(described()["required"]) == properties.keys() - {"shown", "note"}


def test_a_record_is_serialized_as_it_is() -> None:
    snail = Snail("Ida", (Shell(2.5),), "2026-01-31T00:00:00.000Z", n_by_year={"2026": 1})
    assert SnailSchema().dump(snail) == {
        "name": "Ida",
        "shells": [{"size": 2.5}],
        "found_at": "2026-01-31T00:00:00.000Z",
        "colour": "red",
        "habit": "sleeps",
        "n_by_year": {"2026": 1},
        "shell_by_year": None,
        "spans": [],
        "value": None,
        "shown": None,
        "label": "Ida (red)",
    }


def test_a_field_that_is_set_is_in_the_answer() -> None:
    assert SnailSchema().dump({"name": "Ida", "note": "slow"}) == {"name": "Ida", "note": "slow"}


def test_a_record_has_one_schema() -> None:
    assert record_schema(Snail) is SnailSchema
    with pytest.raises(ValueError, match="exists already"):
        record_schema(Snail, "Slug")


def test_what_the_service_adds_is_a_field_too() -> None:
    @dataclass(frozen=True)
    class Timed:
        took_ms: float

    fields = record_schema(Timed, trace_id=ma.fields.String)().fields
    assert list(fields) == ["took_ms", "trace_id"]
    assert fields["trace_id"].required
    assert fields["trace_id"].metadata["description"]


def test_every_field_of_every_record_is_described() -> None:
    import shoal_api.app  # registers the schemas of all routes

    assert shoal_api.app
    missing = [
        f"{record.__name__}.{member.name}"
        for record in known_records()
        if record.__module__.startswith("shoal.")
        for member in members_of(record)
        if not member.description
    ]
    assert len(known_records()) > 90
    assert missing == []
