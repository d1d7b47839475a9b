"""Decoding turns JSON into values of the library, also with unknown and missing fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from shoal.client.requests import UnexpectedError, decode
from shoal.models.documents import DocFormat


class Point(NamedTuple):
    x: float
    y: float = 0.0


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    corners: tuple[Point, ...]
    span: tuple[int, int]
    format: DocFormat
    is_open: bool = False
    note: str | None = None
    counts: Mapping[str, int] | None = None
    marks: Sequence[float] = ()
    data: Any = None


SHAPE = {"name": "s", "corners": [{"x": 1, "y": 2.5}, {"x": 3}], "span": [1, 2], "format": "markdown"}


def test_fields_are_decoded_by_name() -> None:
    value = {
        **SHAPE,
        "is_open": True,
        "note": None,
        "counts": {"a": 1},
        "marks": [1, 2.5],
        "data": [{"b": 1}],
    }
    shape = decode(Shape, value)
    assert shape == Shape(
        "s", (Point(1.0, 2.5), Point(3.0)), (1, 2), DocFormat.markdown, True, None, {"a": 1}, (1.0, 2.5),
        [{"b": 1}],
    )  # fmt: skip
    assert isinstance(shape.corners[0].x, float), "JSON has one kind of number"
    assert shape.format is DocFormat.markdown


def test_unknown_fields_are_ignored_and_missing_ones_take_their_defaults() -> None:
    shape = decode(Shape, {**SHAPE, "colour": "blue"})
    assert (shape.is_open, shape.note, shape.marks) == (False, None, ())


def test_unknown_enum_value_stays_text() -> None:
    assert decode(Shape, {**SHAPE, "format": "html"}).format == "html"


@pytest.mark.parametrize(
    "invalid",
    [
        {"name": None},
        {"name": 3},
        {"corners": {}},
        {"corners": [{"y": 1}]},
        {"corners": [[1, 2]]},
        {"span": [1, 2, 3]},
        {"span": [1, True]},
        {"span": [1, 2.5]},
        {"is_open": 1},
        {"counts": []},
        {"counts": {"a": "b"}},
        {"marks": "12"},
        {"marks": [True]},
    ],
)
def test_value_of_another_type_is_an_error(invalid: dict[str, Any]) -> None:
    with pytest.raises(UnexpectedError):
        decode(Shape, {**SHAPE, **invalid})


@pytest.mark.parametrize("missing", SHAPE)
def test_missing_field_without_default_is_an_error(missing: str) -> None:
    with pytest.raises(UnexpectedError, match=f"{missing} is missing"):
        decode(Shape, {name: value for name, value in SHAPE.items() if name != missing})


@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_other_json_than_an_object_is_an_error(value: object) -> None:
    with pytest.raises(UnexpectedError, match="an object was expected"):
        decode(Shape, value)
