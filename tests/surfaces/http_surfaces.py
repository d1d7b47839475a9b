"""Searches over HTTP, in the console, and saved ones."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import httpx
from parity_world import API, FILTERS, UNITS, Arguments, RefusedError, World, explanation, found_units, plain

from shoal.client.requests import decode
from shoal.declared.search import LIKELY
from shoal.models.explanations import Explanation
from shoal.models.search import SearchResponse


@functools.cache
def openapi(http: httpx.Client) -> dict[str, Any]:
    document: dict[str, Any] = http.get("/openapi.json").json()
    return document


def resolved(document: dict[str, Any], schema: Any) -> dict[str, Any]:
    """Return a schema of an OpenAPI document, its reference followed."""
    for each in (schema, *schema.get("anyOf", ())):
        if "$ref" in each:
            found: dict[str, Any] = document["components"]["schemas"][each["$ref"].rpartition("/")[2]]
            return found
    return dict(schema)


def body_members(path: str, *within: str) -> Callable[[World], Iterable[str]]:
    """Return what reads the arguments of a body from the OpenAPI document."""

    def read(world: World) -> Iterable[str]:
        document = openapi(world.http)
        content = document["paths"][f"{API}{path}"]["post"]["requestBody"]["content"]
        schema = resolved(document, content["application/json"]["schema"])
        for name in within:
            schema = resolved(document, schema["properties"][name])
        filters = resolved(document, schema["properties"].get("filters", {})).get("properties", {})
        return {*schema["properties"], *(f"filters.{name}" for name in filters)}

    return read


def address_members(world: World) -> Iterable[str]:
    parameters = openapi(world.http)["paths"][f"{API}/search"]["get"]["parameters"]
    names = {each["name"] for each in parameters if "name" in each}
    return {*names, *(f"filters.{name}" for name in names)}


def sent(response: httpx.Response) -> Any:
    if response.status_code >= 400:
        raise RefusedError(response.text)
    return response.json()


def post(world: World, path: str, body: Any) -> Any:
    return sent(world.http.post(f"{API}{path}", json=body))


def by_body(world: World, query: str, arguments: Arguments) -> Any:
    return plain(decode(SearchResponse, post(world, "/search", {"query": query, **arguments})))


def explained_by_body(world: World, query: str, arguments: Arguments) -> Any:
    return explanation(decode(Explanation, post(world, "/explain", {"query": query, **arguments})))


def units_by_body(world: World, query: str, arguments: Arguments) -> Any:
    body = {"query": query, "units": UNITS, **arguments}
    return found_units(post(world, "/search", body))


def by_lines(world: World, query: str, arguments: Arguments) -> Any:
    accept = {"Accept": "application/x-ndjson"}
    response = world.http.post(f"{API}/search", json={"query": query, **arguments}, headers=accept)
    if response.status_code >= 400:
        raise RefusedError(response.text)
    members: dict[str, Any] = {"results": []}
    for line in map(json.loads, response.text.splitlines()):
        if "result" in line:
            members["results"].append(line["result"])
        elif "document" in line:
            members.setdefault("documents", []).append(line["document"])
        else:
            members.update(line.get("head") or line["end"])
    if arguments.get("group_by") == "document":
        members.setdefault("documents", [])
    return plain(decode(SearchResponse, members))


def in_address(name: str, value: Any) -> Any:
    """Return the value of a query parameter; a list repeats it."""
    if name == "weights":
        return ",".join(f"{signal}:{weight}" for signal, weight in value.items())
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, list) and name not in ("boosts", "source_path"):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else value


def by_address(world: World, query: str, arguments: Arguments) -> Any:
    return plain(decode(SearchResponse, _by_address(world, query, arguments)))


def units_by_address(world: World, query: str, arguments: Arguments) -> Any:
    return found_units(_by_address(world, query, {"units": UNITS, **arguments}))


def _by_address(world: World, query: str, arguments: Arguments) -> Any:
    flat = {**arguments, **arguments.get("filters", {})}
    parameters = {name: in_address(name, value) for name, value in flat.items() if name != "filters"}
    return sent(world.http.get(f"{API}/search", params={"q": query, **parameters}))


def by_batch(world: World, query: str, arguments: Arguments) -> Any:
    (answer,) = post(world, "/search/batch", {"searches": [{"query": query, **arguments}]})["answers"]
    if answer["problem"] is not None:
        raise RefusedError(answer["problem"])
    return plain(decode(SearchResponse, answer["answer"]))


# The console

IN_FORM = {"boosts": "boost", "filters.document_ids": "document", "query": "q"}


def form_members(world: World) -> Iterable[str]:
    form = world.http.get("/").text.partition("<form")[2].partition("</form>")[0]
    fields = set(re.findall(r'<(?:input|select)[^>]* name="([a-z_]+)"', form))
    names = {renamed: name for name, renamed in IN_FORM.items()}
    filters = {f"filters.{name}" for name in fields} & FILTERS
    # Pages are links below the results.
    return {names.get(name, name) for name in fields} | filters | {"offset"}


def by_console(world: World, query: str, arguments: Arguments) -> Any:
    flat = {**arguments, **{f"filters.{name}": each for name, each in arguments.get("filters", {}).items()}}
    flat.pop("filters", None)
    parameters: dict[str, Any] = {"q": query}
    for name, value in flat.items():
        if name == "offset":
            parameters["page"] = value // 10 + 1
        elif name == "fold_similar":
            parameters["fold_similar"] = "1"
        else:
            field = IN_FORM.get(name, name.removeprefix("filters."))
            parameters[field] = in_address(name, value)
    response = world.http.get("/", params=parameters)
    if response.status_code >= 400:
        raise RefusedError(response.text)
    found = re.findall(r'id="result-([\d-]+)"><a href="/documents/(\d+)\?chunk=(\d+)', response.text)
    # Weaker results are folded after the others, and keep their numbers.
    links = [link for _, *link in sorted(found, key=lambda each: [*map(int, each[0].split("-"))])]
    headings = set(re.findall(r'<h3 id="facet-\d+">([^<]*)</h3>', response.text))
    return [[int(number) for number in link] for link in links], bool(headings & {"year"})


def as_of_console(world: World, query: str, arguments: Arguments) -> Any:
    response = world.engine.search(query, **arguments)
    passages = response.results
    if response.documents is not None:
        passages = [passage for document in response.documents for passage in document.passages]
    fields = {facet.field for facet in response.facets or ()}
    return [[each.document_id, each.chunk_index] for each in passages], "year" in fields


# Saved searches


def webhook_of(world: World, search_id: int) -> Any:
    """Return the passages of a test webhook of a saved search, and delete it."""
    path = f"{API}/saved-searches/{search_id}"
    try:
        delivery = sent(world.http.post(f"{path}/test"))["delivery_id"]
        body = json.loads(sent(world.http.get(f"{path}/deliveries/{delivery}"))["body"])
    finally:
        world.http.delete(path)
    return [passage["chunk_id"] for passage in body["passages"]]


def by_saved_search(world: World, query: str, arguments: Arguments) -> Any:
    body = {"name": "parity", "url": "http://example.org/", "search": {"query": query, **arguments}}
    return webhook_of(world, post(world, "/saved-searches", body)["saved_search"]["id"])


def as_of_saved_search(world: World, query: str, arguments: Arguments) -> Any:
    given = {"min_relevance": LIKELY, **arguments, "top_k": 4, "pins": "off"}
    return [each.chunk_id for each in world.engine.search(query, **given).results][:3]


def by_saved_search_form(world: World, query: str, arguments: Arguments) -> Any:
    form = {"name": "parity", "url": "http://example.org/", "query": query, **arguments}
    response = world.http.post("/saved-searches", data=form)
    if response.status_code >= 400:
        raise RefusedError(response.text)
    (search_id,) = re.findall(r'href="/saved-searches/(\d+)"', response.text)
    return webhook_of(world, int(search_id))


def saved_search_form_members(world: World) -> Iterable[str]:
    page = world.http.get("/saved-searches").text
    return re.findall(r'<input[^>]* name="([a-z_]+)"', page)
