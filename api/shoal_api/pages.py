"""The pages about the API, from the OpenAPI document and without resources from elsewhere.

`/docs` is complete without a script; its script adds forms that try an operation. `/redoc` is drawn by Redoc,
whose bundle comes from the package offapi.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flask
from markupsafe import Markup, escape
from werkzeug.wrappers import Response

from shoal import __version__
from shoal_api.openapi import Api
from shoal_api.problems import ProblemError

COMMON = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; {COMMON}"
)
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""The hash of no text: Redoc adds empty style elements and fills them by script, which no policy forbids."""
REDOC_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {EMPTY_STYLE}; img-src 'self' data:; "
    f"font-src data:; connect-src 'self'; {COMMON}"
)
ELSEWHERE = b"https://cdn.redoc.ly/"
"""Where Redoc would load its logo from. The logo is left out instead, as if it could not be loaded."""
LARGEST = 2**31 - 1
"""A limit from here on is that of the type."""
_CODE = re.compile(r"`([^`]+)`")
_PLAIN_LIST = re.compile(r"\[\n([^\[\]{}]*+)\]")
_LINE_BREAK = re.compile(r"\n\s*+")
METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class SuccessResponse:
    """The response for one status. `examples` are pairs of (summary, JSON)."""

    status: str
    description: str
    shape: str
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Operation:
    """One entry of the page.

    `body` holds pairs of (content type, shape as text); `responses` the successful responses; `errors` pairs
    of (status, meaning). Both are ordered by status. `sample`: a body to begin with, if it is JSON.
    """

    method: str
    path: str
    summary: str
    description: str
    parameters: tuple[Mapping[str, Any], ...]
    body: tuple[tuple[str, str], ...]
    sample: str
    responses: tuple[SuccessResponse, ...]
    errors: tuple[tuple[str, str], ...]


def register(app: flask.Flask, api: Api) -> None:
    """Add `/docs`."""

    app.add_template_filter(prose)

    @app.get("/docs")
    def docs() -> Response:
        spec = api.spec.to_dict()
        page = flask.render_template(
            "docs.html",
            version=__version__,
            groups=groups(spec),
            problem=_shape(spec, {"$ref": "#/components/schemas/Problem"}),
        )
        response = flask.make_response(page)
        response.headers["Content-Security-Policy"] = POLICY
        return response

    @app.get("/redoc")
    def redoc() -> Response:
        bundle()
        response = flask.make_response(flask.render_template("redoc.html", version=__version__))
        response.headers["Content-Security-Policy"] = REDOC_POLICY
        return response

    @app.get("/redoc/bundle.js")
    def redoc_bundle() -> Response:
        script, digest = bundle()
        response = Response(script, content_type="text/javascript; charset=utf-8")
        response.headers["Cache-Control"] = "no-cache"
        response.set_etag(digest)
        return response.make_conditional(flask.request)


@functools.cache
def bundle() -> tuple[bytes, str]:
    """Return the script of Redoc and its digest. Raises a 404 problem if its package is not installed."""
    # Importing the package would load its templates, which take 20 MB.
    spec = importlib.util.find_spec("offapi")
    if spec is None or spec.origin is None:
        raise ProblemError(404, "this page needs the package offapi on the server; /docs needs nothing")
    script = Path(spec.origin).with_name("redoc.js").read_bytes().replace(ELSEWHERE, b"data:,")
    return script, hashlib.sha256(script).hexdigest()


def prose(text: str) -> Markup:
    """Return text as HTML, with parts between backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped before


def groups(spec: dict[str, Any]) -> list[tuple[str, str, list[Operation]]]:
    """Return (name, description, operations) for every tag."""
    operations = list(_operations(spec))
    return [
        (
            tag["name"],
            tag.get("description", ""),
            [operation for name, operation in operations if name == tag["name"]],
        )
        for tag in spec.get("tags", [])
    ]


def _operations(spec: dict[str, Any]) -> Iterator[tuple[str, Operation]]:
    for path, item in spec["paths"].items():
        shared = item.get("parameters", [])
        for method in METHODS:
            if method in item:
                operation = item[method]
                yield operation["tags"][0], _operation(spec, method, path, shared, operation)


def _operation(
    spec: dict[str, Any], method: str, path: str, shared: list[Any], operation: dict[str, Any]
) -> Operation:
    # Sorts statuses by number, then "default".
    responses = sorted((status, _resolve(spec, node)) for status, node in operation["responses"].items())
    return Operation(
        method=method.upper(),
        path=path,
        summary=operation.get("summary", ""),
        description=operation.get("description", ""),
        parameters=tuple(
            _parameter(_resolve(spec, node)) for node in [*shared, *operation.get("parameters", [])]
        ),
        sample=_sample_body(spec, operation),
        body=tuple(
            (kind, _shape(spec, content["schema"]))
            for kind, content in operation.get("requestBody", {}).get("content", {}).items()
        ),
        responses=tuple(_response(spec, status, response) for status, response in responses if status < "4"),
        errors=tuple(
            (status, response.get("description", "")) for status, response in responses if status >= "4"
        ),
    )


def _sample_body(spec: dict[str, Any], operation: dict[str, Any]) -> str:
    """Return a body with the required members, as JSON; empty if the operation takes no JSON."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return "" if content is None else _json(_sample(spec, content["schema"]))


def _sample(spec: dict[str, Any], node: dict[str, Any]) -> Any:
    """Return an empty value of a schema node, with its required members."""
    schema = _resolve(spec, node)
    for member in ("anyOf", "allOf"):
        if member in schema:
            return _sample(spec, next(option for option in schema[member] if option.get("type") != "null"))
    kind = schema.get("type", "string")
    if kind == "array":
        return [_sample(spec, schema["items"])] if schema["items"].get("$ref") else []
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        return {name: _sample(spec, properties[name]) for name in schema.get("required", ())}
    if "enum" in schema:
        return schema["enum"][0]
    return {"integer": 1, "number": 1, "boolean": False}.get(kind, "")


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    schema = parameter.get("schema", {})
    notes = [parameter.get("description", "")]
    if "enum" in schema:
        notes.append("one of " + ", ".join(f"`{value}`" for value in schema["enum"]))
    if limits := _limits(schema):
        notes.append(limits)
    if schema.get("default") is not None:
        notes.append(f"default {_plain(schema['default'])}")
    return {
        "name": parameter["name"],
        "place": parameter["in"],
        "required": parameter.get("required", False),
        "notes": "; ".join(note for note in notes if note),
    }


def _limits(schema: dict[str, Any]) -> str:
    """Return the limits of a number, if it has both and they tell anybody something."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None or high is None or high >= LARGEST:
        return ""
    return f"{low:,} to {high:,}"


def _response(spec: dict[str, Any], status: str, response: dict[str, Any]) -> SuccessResponse:
    contents = response.get("content", {}).values()
    shapes = [_shape(spec, content["schema"]) for content in contents if "schema" in content]
    description = response.get("description", "")
    return SuccessResponse(
        status=status,
        description=description,
        shape=shapes[0] if shapes else "",
        examples=tuple(
            (example.get("summary", ""), _json(example["value"]))
            for content in contents
            for example in content.get("examples", {}).values()
        ),
    )


def _resolve(spec: dict[str, Any], node: Any) -> dict[str, Any]:
    """Return the object that a reference points to, or the object itself."""
    while isinstance(node, dict) and "$ref" in node:
        target: Any = spec
        for step in node["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        node = target
    assert isinstance(node, dict)
    return node


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _shape(spec: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return a sketch of the JSON that a schema describes."""
    return _json(_sketch(spec, schema))


def _json(value: Any) -> str:
    """Return indented JSON with lists of plain values on one line."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return _PLAIN_LIST.sub(lambda match: "[" + _LINE_BREAK.sub(" ", match[1].strip()) + "]", text)


def _sketch(spec: dict[str, Any], node: dict[str, Any], about: str = "") -> Any:
    """Return a sketch of a schema node as JSON values.

    `about` is a description from outside the node. The description of an object becomes its member `//`.
    """
    about = node.get("description", "") or about
    schema = _resolve(spec, node)
    for member in ("anyOf", "allOf"):
        if member in schema:
            inner = [option for option in schema[member] if option.get("type") != "null"]
            return _sketch(spec, inner[0], about)
    # Backticks mean nothing inside JSON.
    about = about.replace("`", "")
    if "properties" in schema:
        required = schema.get("required", [])
        members = {
            name if name in required else f"{name}?": _sketch(spec, inner)
            for name, inner in schema["properties"].items()
        }
        return {"//": about, **members} if about else members
    kind = schema.get("type", "any")
    if kind == "array" or (isinstance(kind, list) and "array" in kind):
        items = schema.get("items", {})
        if "anyOf" in items:
            return [_sketch(spec, option, about) for option in items["anyOf"]]
        return [_sketch(spec, items, about)]
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if "enum" in schema:
        text = " or ".join(_plain(value) for value in schema["enum"])
    if limits := _limits(schema):
        text += f", {limits}"
    if schema.get("default") is not None:
        text += f", default {_plain(schema['default'])}"
    return f"{text}: {about}" if about else text
