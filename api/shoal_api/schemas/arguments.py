"""Schemas of arguments, made of their declarations: in a JSON body and as query parameters."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping
from typing import Any

import marshmallow as ma
from marshmallow import fields, validate

from shoal.declared.arguments import (
    MAX_ID,
    Argument,
    Choice,
    Flag,
    Ids,
    Many,
    Members,
    Moment,
    Number,
    Numbers,
    Text,
    TextForm,
    Value,
    Whole,
    arguments_of,
    required_of,
)
from shoal.declared.filters import FILTERS
from shoal.declared.operations.operation import Operation
from shoal.declared.search import SHORT_FORMS
from shoal_api import strict_json
from shoal_api.schemas.common import (
    AddressMoment,
    BoundedList,
    CommaList,
    OneOrMany,
    ResultCount,
    Schema,
    StrictBoolean,
    StrictFloat,
    TextOrWhole,
    Unchecked,
    between,
    stated,
)
from shoal_api.schemas.common import Moment as MomentField

Fields = dict[str, fields.Field[Any]]


def schema_of(
    name: str, of: Mapping[str, fields.Field[Any]], doc: str = "", base: type[ma.Schema] = Schema
) -> type[ma.Schema]:
    """Return the schema `NAMESchema` with these fields, and those and the checks of `base`."""
    return type(f"{name}Schema", (base,), {**of, "__doc__": doc, "__module__": __name__})


def body_fields(arguments: Mapping[str, Argument], *required: str, fills: bool = True) -> Fields:
    """Return the fields of a JSON body that has these arguments. Unless it `fills` them in, those that are
    absent stay absent, and none is null."""
    made = {
        name: body_field(name, argument, required=name in required, fills=fills)
        for name, argument in arguments.items()
    }
    for name, argument in arguments.items():
        if argument.default and not fills:
            made[name].metadata = {**made[name].metadata, "default": argument.default}
    return made


def address_fields(arguments: Mapping[str, Argument], *required: str) -> Fields:
    """Return the query parameters for these arguments."""
    return {name: _address_field(argument, required=name in required) for name, argument in arguments.items()}


def body_field(
    name: str, argument: Argument, *, required: bool = False, fills: bool = True
) -> fields.Field[Any]:
    """Return the field of an argument in a JSON body; the library checks a `Value`."""
    about = argument.about + argument.body
    is_nullable = argument.default is None and not required and fills and not argument.is_anywhere
    given: dict[str, Any] = {"allow_none": is_nullable or argument.may_be_null, "required": required}
    if fills:
        given |= _default(argument, is_nullable)
    match argument.kind:
        case Numbers() | Many() | Members():
            return _composite(name, argument.kind, {"metadata": {"description": about}, **given})
        case Flag():
            return StrictBoolean(metadata={"description": about}, **given)
        case Number(low, high):
            return StrictFloat(metadata=stated(low, high, about), validate=_within(low, high), **given)
        case Ids(low):
            whole = fields.Integer(strict=True, validate=between(low, MAX_ID))
            return BoundedList(whole, metadata={"description": about}, **given)
        case Moment():
            return MomentField(metadata={"description": about}, **given)
        case Text(or_whole=or_whole):
            text = TextOrWhole if or_whole else fields.String
            return text(metadata={"description": about}, validate=_of_text(argument.kind), **given)
        case Value({"items": {"type": "string"}} as schema, TextForm.with_commas | TextForm.repeated):
            listed = OneOrMany if "string" in schema["type"] else BoundedList
            return listed(fields.String(), metadata={**schema, "description": about}, **given)
        case Value({"type": "string"} as schema):
            return fields.String(metadata={**schema, "description": about}, **given)
        case Value({"type": "object"} as schema):
            return fields.Dict(keys=fields.String(), metadata={**schema, "description": about}, **given)
        case Value(schema):
            return fields.Raw(metadata={**schema, "description": about}, **given)
    return _scalar(argument, about, strict=True, **given)


def _composite(name: str, kind: Numbers | Many | Members, given: dict[str, Any]) -> fields.Field[Any]:
    """Return the field of a kind that has values of other kinds."""
    match kind:
        case Numbers(names, high):
            return fields.Nested(_numbers(name, tuple(names.items()), high), **given)
        case Many(inner, most, or_one):
            listed = OneOrMany if or_one else BoundedList
            element = body_field("", Argument(kind=inner, about=""), required=True)
            element.metadata, element.required = {}, False
            if most is None:
                return fields.List(element, **given)
            return listed(element, max_items=most, **given)
        case Members(of, example, is_checked):
            return (fields.Nested if is_checked else Unchecked)(_members(of, example), **given)


def _address_field(argument: Argument, *, required: bool) -> fields.Field[Any]:
    about = argument.about + argument.address
    given: dict[str, Any] = {"required": required, **_default(argument, is_nullable=False)}
    match argument.kind:
        case Flag():
            return fields.Boolean(metadata={"description": about}, **given)
        case Number(low, high):
            limits = _within(low, high) or validate.Range(low, error=f"must be {low:,} or more")
            return fields.Float(metadata=stated(low, high, about), validate=limits, **given)
        case Ids(low):
            whole = fields.Integer(validate=between(low, MAX_ID))
            return CommaList(whole, metadata={"description": about}, **given)
        case Moment():
            return AddressMoment(metadata={"description": about}, **given)
        case Value(text=TextForm.json):
            return JSONObject(metadata={"description": about}, **given)
        case Value(text=TextForm.repeated):
            return BoundedList(fields.String(), metadata={"description": about}, **given)
        case Value(text=TextForm.with_commas):
            return CommaList(fields.String(), metadata={"description": about}, **given)
        case Text():
            return fields.String(metadata={"description": about}, validate=_of_text(argument.kind), **given)
        case Many(inner):
            element = _address_field(Argument(kind=inner, about=""), required=False)
            element.metadata = {}
            return CommaList(element, metadata={"description": about}, **given)
        case Value(schema):
            enum_of = {"enum": [each for each in schema["enum"] if each]} if "enum" in schema else {}
            return fields.String(metadata={**enum_of, "description": about}, **given)
        case Numbers():
            return fields.String(metadata={"description": about}, **given)
    return _scalar(argument, about, **given)


def query_schema(operation: Operation[..., Any]) -> type[ma.Schema] | None:
    """Return the schema of the query parameters of an operation; None without any."""
    arguments = {
        name: each for name, each in operation.arguments.items() if each.is_anywhere or not operation.has_body
    }
    if not arguments:
        return None
    others = _without_filters(arguments)
    made = address_fields(others, *operation.required & arguments.keys())
    return schema_of("Query", made if others == arguments else {**IN_ADDRESS, **made})


def _without_filters(arguments: Mapping[str, Argument], *kept: str) -> dict[str, Argument]:
    """Return the arguments; where there are filters, without them and the arguments that stand for some."""
    left_out = {"filters", *SHORT_FORMS} - {*kept} if "filters" in arguments else ()
    return {name: each for name, each in arguments.items() if name not in left_out}


def body_schema(
    operation: Operation[..., Any], special: Mapping[str, Callable[..., fields.Field[Any]]], name: str = ""
) -> type[ma.Schema] | None:
    """Return the schema of the body of an operation; None without one. `special`: what makes some fields;
    `name`: that of the schema, if it does not follow from the operation."""
    if not operation.has_body or not operation.arguments:
        return None
    arguments = _without_filters(operation.arguments, "filters")
    made = body_fields(arguments, *operation.required, fills=operation.terms.fills)
    for field, make in special.items():
        description = {"description": made[field].metadata["description"]}
        made[field] = make(required=field in operation.required, metadata=description)
    name = name or operation.function.__name__.title().replace("_", "") + "Request"
    body = schema_of(name, made)
    body.may_be_absent = not operation.terms.needs_body  # type: ignore[attr-defined]
    return body


@functools.cache
def _numbers(name: str, names: tuple[tuple[str, str], ...], high: float) -> type[ma.Schema]:
    return schema_of(
        name.capitalize(),
        {
            each: StrictFloat(validate=between(0, high), metadata={"description": about})
            for each, about in names
        },
    )


@functools.cache
def _members(of: Any, example: str) -> type[ma.Schema]:
    schema = schema_of(of.__name__, body_fields(arguments_of(of), *required_of(of), fills=False))
    if example:
        schema.error_messages = {"type": f"must be an object such as {example}"}
    return schema


class JSONObject(fields.String):
    """A JSON object as a query parameter: `metadata={"language":"de"}`."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            return strict_json.parse_object(text.encode())
        except strict_json.MalformedJSONError as error:
            raise ma.ValidationError(str(error)) from None


def _scalar(argument: Argument, about: str, **given: Any) -> fields.Field[Any]:
    """Return the field of a choice or a whole number."""
    kind = argument.kind
    if isinstance(kind, Choice):
        given.pop("strict", None)
        one_of = validate.OneOf(kind.texts)
        return fields.String(validate=one_of, metadata={"description": about}, **given)
    assert isinstance(kind, Whole)
    if kind.setting:
        return ResultCount(metadata=stated(kind.low, kind.high, about), **given)
    return fields.Integer(
        metadata=stated(kind.low, kind.high, about), validate=_within(kind.low, kind.high), **given
    )


def _of_text(kind: Text) -> Any:
    if kind.pattern:
        return validate.Regexp(rf"\A{kind.pattern}\Z", error=kind.message)
    if kind.most is None and not kind.least:
        return None
    return validate.Length(min=kind.least or None, max=kind.most, error=kind.message)


def _within(low: float, high: float | None) -> Callable[[Any], Any] | None:
    return None if high is None else between(low, high)


def _default(argument: Argument, is_nullable: bool) -> dict[str, Any]:
    """Return what says the default, unless it is that the argument is absent."""
    if argument.default is None and not is_nullable:
        return {}
    default = argument.default
    return {"load_default": default.value if isinstance(default, enum.Enum) else default}


IN_ADDRESS: Fields = {
    **address_fields(FILTERS),
    "tag": BoundedList(
        fields.String(),
        metadata={
            "description": "a single tag, for tags that contain commas; repeat the parameter for several"
        },
    ),
}
"""Filters as query parameters."""
MAX_OWNER_CHARS = 200


class HookOwnerSchema(Schema):
    owner = fields.String(
        load_default=None,
        validate=validate.Length(1, MAX_OWNER_CHARS),
        metadata={"description": "whose notes; default: `SHOAL_NOTE_OWNER` of the service"},
    )
