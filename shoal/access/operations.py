"""What every method and path of the service needs: of the declared operations, of pages and of files.

Paths are those of the collection `main`; below `/api/v1/collections/{name}` the same operations of another
collection have the same needs. A test fails when a route of the application has no entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from shoal.declared.operations.documents import (
    AllDocumentOperations,
    OtherDocumentOperations,
    OtherJobOperations,
)
from shoal.declared.operations.drop_in import DifyOperations, OpenAIOperations
from shoal.declared.operations.library import LibraryOperations
from shoal.declared.operations.notes import AllNoteOperations, OtherNoteOperations
from shoal.declared.operations.operation import operations_of
from shoal.declared.operations.searches import OtherSearchOperations, SearchOperations
from shoal.declared.operations.service import AllServiceOperations, OtherServiceOperations
from shoal.declared.operations.sources import SourceOperations
from shoal.models.keys import Needed

DECLARED = (
    AllDocumentOperations,
    OtherDocumentOperations,
    OtherJobOperations,
    *(SearchOperations, OtherSearchOperations, AllNoteOperations, OtherNoteOperations),
    *(LibraryOperations, SourceOperations, AllServiceOperations, OtherServiceOperations),
)

DROP_IN: Mapping[str, type] = {"dify": DifyOperations, "openai": OpenAIOperations}
"""The operations of other programs' interfaces, by their names in `SHOAL_DROP_IN`."""

TABLE: Mapping[Needed, str] = {
    Needed.public: """
        GET /docs
        GET /redoc
        GET /redoc/bundle.js
        GET /openapi.json
        GET /static/{filename}
    """,
    Needed.read: """
        GET /
        GET /documents/{document_id}
        GET /library
        GET /jobs
        GET /jobs/{job_id}
        GET /notes
        GET /notes/{note_id}
        GET /explain
        GET /notes/explain
        GET /notes/new
        GET /notes/proposals
        GET /reefs
        GET /reefs/{reef_id}
        GET /vocabulary
        GET /vocabulary/{word}
        GET /synonyms
        GET /pins
        GET /status
        GET /nearest
        GET /verify
        POST /verify
    """,
    Needed.write: """
        POST /notes/{note_id}/{action}
        POST /notes/dedup
        POST /notes/merges/{merge_id}/undo
        POST /notes/new
        POST /notes/proposals/{proposal_id}/{decision}
        POST /synonyms
        POST /synonyms/{synonym_id}/delete
        POST /synonyms/acronyms/{acronym_id}/{decision}
        POST /synonyms/scan
        POST /pins
        POST /pins/{pin_id}/delete
    """,
    Needed.admin: """
        GET /saved-searches
        POST /saved-searches
        GET /saved-searches/{search_id}
        POST /saved-searches/{search_id}/{change}
        POST /saved-searches/{search_id}/redeliver/{delivery_id}
        GET /queries
        GET /sources
        POST /sources
        GET /sources/{name}
        POST /sources/{name}/{change}
    """,
    Needed.any_key: """
        GET /collections
    """,
    Needed.grant: """
        GET /keys
        POST /keys
        POST /keys/{key_id}/{change}
    """,
}
"""Pages and files by what they need: a method and a path with its parameters in braces on each line."""

MANY_SEGMENTS = frozenset({"{user_id}", "{filename}"})
"""Parameters that may contain slashes."""

_PARAMETER = re.compile(r"<(?:[^<>]*:)?([A-Za-z_]\w*)>")


@dataclass(frozen=True, slots=True)
class Operation:
    """A method and a path with parameters in braces, what it needs, and whether it is for search tokens.

    `names_collection`: as in the terms of a declared operation.
    """

    method: str
    path: str
    needed: Needed
    for_tokens: bool = False
    names_collection: bool = False

    @property
    def needed_first(self) -> Needed:
        """What its request needs before its view lets it into the collection that it names."""
        return Needed.any_key if self.names_collection else self.needed


def _operations() -> Iterator[Operation]:
    for declared in operations_of(*DECLARED, *DROP_IN.values()):
        terms = declared.terms
        yield Operation(
            terms.method, declared.address, terms.needed, terms.for_tokens, terms.names_collection
        )
    for needed, lines in TABLE.items():
        for line in lines.split("\n"):
            if line.strip():
                method, path = line.split()
                yield Operation(method, path, needed)


OPERATIONS = tuple(_operations())
_FOR_TOKENS = {(each.method, each.path) for each in OPERATIONS if each.for_tokens}
_NEEDED_FIRST = {(each.method, each.path): each.needed_first for each in OPERATIONS}
_NEEDED = {(operation.method, operation.path): operation.needed for operation in OPERATIONS}


def path_of_rule(rule: str) -> str:
    """Return the path of a Flask rule as the table has it: `/jobs/<int:job_id>` is `/jobs/{job_id}`."""
    return _PARAMETER.sub(r"{\1}", rule)


def needed_by_rule(method: str, rule: str | None) -> Needed:
    """Return what a request needs that Flask has matched to a rule; `rule` is None if it matched none."""
    if rule is None:
        return _needed_elsewhere(method)
    return _needed(method, path_of_rule(rule))


def needed_first(method: str, rule: str | None) -> Needed:
    """Return what a request needs before its view lets it into the collection that it names."""
    found = None if rule is None else _NEEDED_FIRST.get((_method(method), path_of_rule(rule)))
    return needed_by_rule(method, rule) if found is None else found


def is_for_tokens(method: str, rule: str | None) -> bool:
    """Whether a search token may do what Flask has matched to a rule: only what is declared for them."""
    return rule is not None and (_method(method), path_of_rule(rule)) in _FOR_TOKENS


def is_for_tokens_by_path(method: str, path: str) -> bool:
    """The same by the path alone, for requests that no application has seen yet."""
    found = _template_of(method, path)
    return found is not None and (_method(method), found) in _FOR_TOKENS


def needed_by_path(method: str, path: str) -> Needed:
    """Return what a request needs first, by its path alone. For requests that no application has seen yet."""
    found = _template_of(method, path)
    if found is None:
        return _needed_elsewhere(method)
    return _NEEDED_FIRST.get((_method(method), found)) or _needed(method, found)


def _template_of(method: str, path: str) -> str | None:
    segments = _segments(path)
    templates = _TEMPLATES.get(_method(method), ())
    return next((template for template, parts in templates if _is_match(parts, segments)), None)


def _method(method: str) -> str:
    return "GET" if method == "HEAD" else method


def _needed(method: str, path: str) -> Needed:
    found = _NEEDED.get((_method(method), path))
    if found is not None:
        return found
    if method == "OPTIONS":
        return Needed.public if _NEEDED.get(("GET", path)) is Needed.public else Needed.read
    return _needed_elsewhere(method)


def _needed_elsewhere(method: str) -> Needed:
    """What a request needs that matches nothing: enough that its body is not received from anybody."""
    return Needed.read if method in ("GET", "HEAD", "OPTIONS") else Needed.write


def _segments(path: str) -> tuple[str, ...]:
    return tuple(segment for segment in path.split("/") if segment)


def _is_match(parts: tuple[str, ...], segments: tuple[str, ...]) -> bool:
    """Whether segments of a path fit a template; at most one of its parameters takes several."""
    many = next((place for place, part in enumerate(parts) if part in MANY_SEGMENTS), None)
    if many is None:
        return len(parts) == len(segments) and _is_same(parts, segments)
    after = len(parts) - many - 1
    return (
        len(segments) >= len(parts)
        and _is_same(parts[:many], segments[:many])
        and _is_same(parts[many + 1 :], segments[len(segments) - after :])
    )


def _is_same(parts: Iterable[str], segments: Iterable[str]) -> bool:
    return all(part == segment or part.startswith("{") for part, segment in zip(parts, segments, strict=True))


def _templates() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """The templates by method, literal segments before parameters, as Flask prefers them."""
    templates: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for operation in OPERATIONS:
        templates.setdefault(operation.method, []).append((operation.path, _segments(operation.path)))
    for listed in templates.values():
        listed.sort(key=lambda entry: [part.startswith("{") for part in entry[1]])
    return templates


_TEMPLATES = _templates()
