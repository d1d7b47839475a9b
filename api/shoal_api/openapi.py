"""Adapter of flask-smorest: typed decorators, strict input, and problem details in the OpenAPI document."""

from __future__ import annotations

import functools
import http
import itertools
import operator
import threading
import typing
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast
from urllib.parse import unquote_to_bytes

import apispec
import flask
import flask_smorest
import marshmallow as ma
from flask_smorest.utils import prepare_response
from marshmallow import fields
from webargs.flaskparser import FlaskParser

from shoal import __version__
from shoal.declared.arguments import Argument, Text
from shoal.declared.operations.operation import PARAMETER, Operation
from shoal.notes.hook_input import EVENT_NAMES
from shoal_api import access, idempotency, limits, problems, service, strict_json
from shoal_api.paths import ID
from shoal_api.schemas.arguments import body_schema, query_schema
from shoal_api.schemas.common import AnyOf, CommaList, ProblemSchema, ResultCount, parameter_hint
from shoal_api.schemas.records import record_schema
from shoal_api.spool import has_body

EVENTS = ", ".join(f"'{event}'" for event in EVENT_NAMES)
CONVERTERS = {"user_id": "user", "event": f"any({EVENTS})", "name": ""}
"""Converters of parameters of paths that are texts, by name."""

Json = dict[str, Any]
View = TypeVar("View", bound=Callable[..., Any])
ResponseSchema = type[ma.Schema] | dict[str, Any] | None

DESCRIPTION = """\
Shoal stores documents, splits them into topic-coherent chunks and finds the chunks that answer a query, with
the reasons for every match. Uploads are accepted as *jobs* and processed in the background.

Errors are `application/problem+json` (RFC 9457) with a `trace_id`. Every response carries the same id in the
header `X-Trace-Id`. `POST`s that start a job accept an `Idempotency-Key`: the same key and body return the
same job. If the service has keys, send one as `Authorization: Bearer KEY`. It returns 401 without a valid
key, 403 if the key lacks the right, and 404 if it does not open the collection. 429 means too many requests
or a full queue; `Retry-After` says when to try again. An invalid `Prefer` header, such as `wait=abc`, is
ignored (RFC 7240).

A service has one library or many *collections*, each a library of its own. Every operation below `/api/v1`,
except those on collections, is also at `/api/v1/collections/{name}/…`, in that collection: `GET
/api/v1/collections/birds/search`. Without the prefix it is in the collection `main`. An unknown collection
returns 404. The second server of this document says the same for generated clients.
"""


FAILURES = {
    400: "The request is malformed: not JSON, or not in the form that its content type declares",
    404: "There is no such document, chunk, job, note or collection",
    409: "The `Idempotency-Key` was used before for another request",
    412: "The document has changed since the version that `If-Match` names",
    413: "The body, or a document in it, is larger than the limit",
    415: "The content type or encoding of the body is not supported",
    422: "A field or parameter is invalid or unknown; `errors` names it and says why",
    503: "A dependency of the service is unavailable, or reading timed out; `detail` says which",
}
"""Descriptions of the errors that operations declare."""

OTHER_FAILURES = (
    "Any other error: 400 for a URL that is not UTF-8, 401 without a valid key if the service has keys, 403 "
    "with a key that lacks the right or from a page of another site, 405 for a wrong method, 429 for too "
    "many requests or a full queue, 500 for an internal error, 503 while the database is busy or unavailable "
    "or when reading times out, 507 without disk space"
)


class StrictParser(FlaskParser):
    """Parser that refuses unknown fields, and a parameter that is given more than once. Unknown parameters
    are refused before: see `Blueprint`."""

    DEFAULT_UNKNOWN_BY_LOCATION: dict[str, str | None] = {  # noqa: RUF012 - as the base class declares it
        **FlaskParser.DEFAULT_UNKNOWN_BY_LOCATION,
        "json": ma.RAISE,
    }

    def load_json(self, req: flask.Request, schema: ma.Schema) -> Any:
        if getattr(schema, "may_be_absent", False) and not has_body(req):
            return {}
        return super().load_json(req, schema)

    def _raw_load_json(self, req: flask.Request) -> Any:
        return read_json_object(req)

    def load_querystring(self, req: flask.Request, schema: ma.Schema) -> Any:
        for name in req.args:
            field = schema.load_fields.get(name)
            if len(req.args.getlist(name)) > 1 and not isinstance(field, fields.List | CommaList):
                raise problems.field_problem(name, "is given more than once")
        return super().load_querystring(req, schema)


def check_query(request: flask.Request, known: Sequence[str], of_body: Sequence[str] = ()) -> None:
    """Raise a 422 problem for query parameters that are not `known`, 400 if the query string is not UTF-8.

    `of_body`: the fields of the body of such a request, for suggestions.
    """
    try:
        unquote_to_bytes(request.query_string).decode()
    except UnicodeDecodeError:
        raise problems.ProblemError(400, "the URL is not UTF-8") from None
    unknown = [name for name in request.args if name not in known]
    if unknown:
        # A hint costs a comparison with every known name, and only the first are shown.
        hints = {
            name: parameter_hint(name, known, of_body, _TAKERS.get(name, ()))
            for name in unknown[: problems.MAX_ERRORS]
        }
        raise problems.fields_problem({name: [hints.get(name, "is not known")] for name in unknown})


def read_json_object(request: flask.Request) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises ProblemError: 415 for another content type, 400 for malformed JSON, 413 for too much of it.
    """
    check_charset(request)
    if not request.is_json:
        raise problems.ProblemError(415, "send the body as `Content-Type: application/json`")
    try:
        value = strict_json.parse(
            request.get_data(cache=False), limits.max_beside_content(service.current().settings)
        )
        if isinstance(value, dict):
            # Not in the text of a document: there, characters that cannot be stored become spaces.
            strict_json.check_surrogates(value, exempt=frozenset({"content"}))
    except strict_json.OversizedJSONError as error:
        raise problems.ProblemError(413, f"the body {error}") from None
    except strict_json.MalformedJSONError as error:
        raise problems.ProblemError(400, f"the body {error}") from None
    except strict_json.LoneSurrogateError as error:
        raise problems.field_problem(error.field, error.message) from None
    if not isinstance(value, dict):
        raise problems.field_problem("body", "must be a JSON object")
    return value


def check_charset(request: flask.Request) -> None:
    """Raise a 415 problem if the content type names an encoding other than UTF-8."""
    charset = request.mimetype_params.get("charset", "utf-8")
    if charset.lower() not in ("utf-8", "utf8", "us-ascii"):
        raise problems.ProblemError(415, "send the body as UTF-8")


def _operation_id(name: str) -> str:
    """Return the operation id for generated clients: the name of the view in camel case."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def rule_of(operation: Operation[..., Any], name: str) -> str:
    """Return a parameter of the path of an operation as a rule of Flask has it."""
    kind = operation.types[operation.in_path[name]]
    is_text = getattr(kind, "__origin__", kind) is str
    converter = CONVERTERS.get(name, "string(minlength=1, maxlength=64)") if is_text else ID
    return f"<{converter}:{name}>".replace("<:", "<")


def path_parameter(name: str, kind: Text, about: str) -> dict[str, Any]:
    """Return the description of a parameter of a path, which is a text."""
    schema = {"type": "string", "pattern": f"^{kind.pattern}$", "maxLength": kind.most}
    return {"in": "path", "name": name, "required": True, "schema": schema, "description": about}


HEADERS = "headers"
"""What `_apidoc` of a view calls the headers of its requests."""


def _add_headers(doc: Json, doc_info: Json, **_: Any) -> Json:
    """Add the headers of an operation to its parameters, which follow from its arguments."""
    if headers := doc_info.get(HEADERS):
        doc["parameters"] = [*doc.get("parameters", ()), *headers]
    return doc


_TAKERS: dict[str, list[str]] = {}
"""The operations that declare each query parameter."""


def _checking_query(view: View, operation: str) -> View:
    """Return the view of an operation with a check of the query parameters against those that it declares."""
    declared = view._apidoc.get("arguments", {}).get("parameters", ())  # type: ignore[attr-defined]
    fields_in = {each["in"]: tuple(each["schema"].load_fields) for each in declared}
    known, of_body = fields_in.get("query", ()), fields_in.get("json", ())
    for name in known:
        _TAKERS.setdefault(name, []).append(operation)

    @functools.wraps(view)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_query(flask.request, known, of_body)
        return view(*args, **kwargs)

    return cast("View", checked)


def _view_of(
    operation: Operation[..., Any], on: Callable[..., Any], method: Callable[[Any], Callable[..., Any]]
) -> Callable[..., Any]:
    """Return the view of an operation whose record a method returns, or what its record has first."""
    answer = operation.terms.answer
    first = None if answer is None else next(iter(typing.get_type_hints(answer)))

    def view(*loaded: Json, **in_path: Any) -> Any:
        does = method(on(*loaded))
        value = does(*in_path.values(), **dict(itertools.chain.from_iterable(map(dict.items, loaded))))
        if operation.record is None:
            return None
        return value if first is None or isinstance(value, dict) else {first: value}

    return view


class Blueprint(flask_smorest.Blueprint):  # type: ignore[misc]
    """The decorators of flask-smorest, typed so that they keep the types of the views.

    Every route refuses query parameters that its view does not declare: a misspelt `tags` must not widen a
    delete, and no parameter may be ignored.
    """

    ARGUMENTS_PARSER = StrictParser()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._prepare_doc_cbks.append(_add_headers)

    def serves(
        self,
        operation: Operation[..., Any],
        *,
        query: type[ma.Schema] | None = None,
        body: type[ma.Schema] | None = None,
        special: Mapping[str, Callable[..., fields.Field[Any]]] = MappingProxyType({}),
        named: str = "",
        describe: Mapping[str, Any] = MappingProxyType({}),
        schema: ResponseSchema = None,
        **options: Any,
    ) -> Callable[[View], View]:
        """Make a view what an operation does. It gets the loaded query string, the loaded body, and by name
        what the path has; what it returns is serialized as the record of the operation.

        `query`, `body`: schemas in place of those that follow from the arguments; `special`: what makes some
        fields of the body, and `named` the name of its schema; `describe`: members of the operation object,
        and as `parameters` its headers;
        `schema`: that of the response. `options` are those of the documented response.
        """
        terms = operation.terms
        query, body = query or query_schema(operation), body or body_schema(operation, special, named)
        rule = PARAMETER.sub(lambda found: rule_of(operation, found[1]), operation.address)

        def decorate(view: View) -> View:
            view.__doc__ = operation.function.__doc__
            if body is not None:
                view = self.body(body)(view)
            if query is not None:
                view = self.parameters(query)(view)
            headers = [*describe.get("parameters", ())]
            if terms.key:
                headers.append({**idempotency.PARAMETER, "description": terms.key})
            view = self.describe(**{name: each for name, each in describe.items() if name != "parameters"})(
                view
            )
            view._apidoc[HEADERS] = headers  # type: ignore[attr-defined]
            if terms.conflict:
                view = self.conflicts(terms.conflict)(view)
            about = {"description": terms.about} if terms.about else {}
            record = operation.record
            answer = schema or (None if record is None else record_schema(record))
            status = 204 if answer is None else terms.status
            view = self.responds(status, answer, **about, **options)(self.fails(*terms.fails)(view))
            in_path = [
                path_parameter(name, note.kind, note.about)
                for name, parameter in operation.in_path.items()
                for note in getattr(operation.types[parameter], "__metadata__", ())
                if isinstance(note, Argument) and isinstance(note.kind, Text)
            ]
            return self._typed_route(terms.method, rule, {"parameters": in_path} if in_path else {})(view)

        return decorate

    def serves_all(self, on: Callable[..., Any], **views: tuple[Any, ...]) -> None:
        """Serve operations by methods of the object that `on` returns for what was loaded.

        `views`: by the name of each view the operation, its method with dots or a function of the object, and
        perhaps options of `serves`. A method gets what the path has, in its order, and what was loaded.
        """
        for name, (operation, does, *options) in views.items():
            view = _view_of(operation, on, operator.attrgetter(does) if isinstance(does, str) else does)
            view.__name__ = name
            self.serves(operation, **(options[0] if options else {}))(view)

    def get(self, rule: str, **options: Any) -> Callable[[View], View]:
        return self._typed_route("GET", rule, options)

    def post(self, rule: str, **options: Any) -> Callable[[View], View]:
        return self._typed_route("POST", rule, options)

    def put(self, rule: str, **options: Any) -> Callable[[View], View]:
        return self._typed_route("PUT", rule, options)

    def patch(self, rule: str, **options: Any) -> Callable[[View], View]:
        return self._typed_route("PATCH", rule, options)

    def delete(self, rule: str, **options: Any) -> Callable[[View], View]:
        return self._typed_route("DELETE", rule, options)

    def _typed_route(self, method: str, rule: str, options: dict[str, Any]) -> Callable[[View], View]:
        route: Callable[[View], View] = self.route(rule, methods=[method], **options)

        def decorate(view: View) -> View:
            described = self.describe(operationId=_operation_id(view.__name__))(view)
            operation = f"{method} {self.url_prefix or ''}{rule}"
            return route(self.fails(422)(_checking_query(described, operation)))

        return decorate

    def body(self, schema: type[ma.Schema], **options: Any) -> Callable[[View], View]:
        """Pass the loaded JSON body to the view as its next argument, and document the errors of bodies."""
        # An instance, because webargs would build one of a class for every request.
        options = {"required": not getattr(schema, "may_be_absent", False), **options}
        decorator: Callable[[View], View] = self.arguments(schema(), location="json", **options)
        return lambda view: decorator(self.fails(400, 413, 415)(view))

    def parameters(self, schema: type[ma.Schema], **options: Any) -> Callable[[View], View]:
        """Pass the loaded query string to the view as its next argument."""
        decorator: Callable[[View], View] = self.arguments(schema(), location="query", **options)
        return decorator

    def responds(self, status: int, schema: ResponseSchema = None, **options: Any) -> Callable[[View], View]:
        """Serialize the return value of the view with `schema`."""
        decorator: Callable[[View], View] = self.response(status, schema, **options)
        return decorator

    def also_responds(
        self, status: int, schema: ResponseSchema = None, *, record: type | None = None, **options: Any
    ) -> Callable[[View], View]:
        """Document a response that the view builds itself; it may show a record."""
        schema = schema if record is None else record_schema(record)
        decorator: Callable[[View], View] = self.alt_response(status, schema=schema, **options)
        return decorator

    def fails(self, *statuses: int) -> Callable[[View], View]:
        """Document errors as problem details, with the descriptions in FAILURES."""

        def decorate(view: View) -> View:
            for status in statuses:
                view = self.alt_response(status, http.HTTPStatus(status).name)(view)
            return view

        return decorate

    def conflicts(self, description: str) -> Callable[[View], View]:
        """Document the conflict that the view reports as a problem."""
        return self.also_responds(
            409, ProblemSchema, content_type=problems.CONTENT_TYPE, description=description
        )

    def describe(self, **members: Any) -> Callable[[View], View]:
        """Add members to the operation object, unchanged."""
        decorator: Callable[[View], View] = self.doc(**members)
        return decorator


class Api(flask_smorest.Api):  # type: ignore[misc]
    """API that describes errors as problem details; `problems` handles them.

    The OpenAPI document is built when it is first read: it takes half of the time to build an application.
    """

    ERROR_SCHEMA = ProblemSchema

    def __init__(self, app: flask.Flask) -> None:
        self._building = threading.RLock()
        self._undocumented: list[Blueprint] = []
        super().__init__(app)
        self.ma_plugin.converter.add_attribute_function(describe_alternatives)
        self.ma_plugin.converter.add_attribute_function(
            result_limits(app.extensions[service.EXTENSION].settings.max_top_k)
        )

    def register_blueprint(self, blueprint: Blueprint) -> None:
        """Register the routes of a blueprint, and its operations for the document."""
        self._app.extensions["flask-smorest"]["blp_name_to_api"][blueprint.name] = self
        self._app.register_blueprint(blueprint)
        self._undocumented.append(blueprint)

    @property
    def spec(self) -> apispec.APISpec:
        with self._building:
            # Building reads this property again, in the same thread.
            blueprints, self._undocumented = self._undocumented, []
            for blueprint in blueprints:
                blueprint.register_views_in_doc(
                    self, self._app, self._spec, name=blueprint.name, parameters=None
                )
                self._spec.tag({"name": blueprint.name, "description": blueprint.description})
            return self._spec

    @spec.setter
    def spec(self, spec: apispec.APISpec) -> None:
        self._spec = spec

    def _register_error_handlers(self) -> None:
        pass

    def _register_responses(self) -> None:
        for status, description in FAILURES.items():
            self._register_problem(http.HTTPStatus(status).name, description)
        self._register_problem("DEFAULT_ERROR", OTHER_FAILURES)

    def _register_problem(self, name: str, description: str) -> None:
        response = {"description": description, "schema": ProblemSchema}
        prepare_response(response, self.spec, problems.CONTENT_TYPE)
        self.spec.components.response(name, response, lazy=True)


def result_limits(most: int) -> Callable[..., dict[str, Any]]:
    """Return what adds the limits of a number of results, of which a search may ask for `most`."""

    def describe(_: Any, field: Any, *, ret: Mapping[str, Any], **__: Any) -> dict[str, Any]:
        if not isinstance(field, ResultCount):
            return {}
        return {"minimum": 1, "maximum": min(most, ret.get("maximum", most))}

    return describe


def describe_alternatives(converter: Any, field: Any, **_: Any) -> dict[str, Any]:
    """Return the OpenAPI properties of an `AnyOf`; those of other fields follow from their types."""
    if not isinstance(field, AnyOf):
        return {}
    return {"anyOf": [converter.field2property(alternative) for alternative in field.alternatives]}


def configuration() -> Mapping[str, Any]:
    """Return the configuration that flask-smorest reads."""
    return {
        "API_TITLE": "Shoal",
        "API_VERSION": __version__,
        "OPENAPI_VERSION": "3.1.0",
        "OPENAPI_URL_PREFIX": "/",
        "API_SPEC_OPTIONS": {
            "info": {"description": DESCRIPTION},
            "servers": [
                {"url": "/", "description": "the collection `main`"},
                {
                    "url": "/collections/{collection}",
                    "description": "another collection; the same as `/api/v1/collections/{collection}/…`",
                    "variables": {"collection": {"default": "main", "description": "name of the collection"}},
                },
            ],
            "components": {"securitySchemes": {"key": access.DESCRIPTION}},
            # Alternatives, because the document does not depend on whether the service has keys.
            "security": [{"key": []}, {}],
        },
    }
