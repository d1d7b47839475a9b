"""Filters: conditions in SQL on the chunks, and terms that a result must or must not contain.

Each filter has a name, so that an explanation can name the filters that a chunk does not meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import QueryError
from shoal.index.matching import Matches
from shoal.models import SearchFilters, TagsMatch
from shoal.scorer import Scorer
from shoal.search.lexical_ranking import find_matches
from shoal.search.library_index import LibraryIndex
from shoal.search.query_language import ParsedQuery, Term
from shoal.search.request import N_ARCHIPELAGOS
from shoal.storage.database import Snapshot, listed
from shoal.storage.file_types import IS_NAMED, is_of_type, name_pattern
from shoal.storage.json_text import compact_json
from shoal.storage.packed_columns import packed_ids

IS_LABELED = "c.top_reef_id IN ({reefs}) AND c.top_reef_probability >= :label_threshold"
OF_DOCUMENT = "c.document_id IN (SELECT d.id FROM documents d WHERE {})"
WITH_TAGS = """c.document_id IN (
    SELECT t.document_id FROM document_tags t WHERE t.tag IN ({tags})
    GROUP BY t.document_id HAVING COUNT(*) >= :n_tags)"""
# Uses the index of documents with metadata. Metadata is stored as `compact_json` writes it, so the text
# search rules out most documents; only the others are parsed as JSON, which takes far longer.
WITH_METADATA = """c.document_id IN (
    SELECT d.id FROM documents d
    WHERE d.metadata <> '{{}}' AND INSTR(d.metadata, :{name}_text) > 0
      AND EXISTS (SELECT 1 FROM json_each(d.metadata) m WHERE m.key = :{name}_key AND {value}))"""

ELIGIBLE_DOCUMENTS = "SELECT eligible.id FROM documents eligible WHERE "
DOCUMENT_OF_CHUNK, DOCUMENT_ITSELF = "c.document_id", "eligible.id"

CONFIDENCE = "min_confidence"
"""Name of a filter that the index can answer."""
PHRASE, TITLE, EXCLUDED = "phrase", "title", "excluded"
"""Names, among the filters, of the conditions that the query itself sets."""


@dataclass(frozen=True, slots=True)
class CompiledFilters:
    """Conditions by the name of their filter.

    by_filter   conditions in SQL on a chunk `c`
    parameters  of the conditions
    required    terms that a chunk must contain, by PHRASE and TITLE
    excluded    terms that it must not contain
    """

    by_filter: Mapping[str, str]
    parameters: Mapping[str, Any]
    required: Mapping[str, tuple[Term, ...]] = field(default_factory=dict)
    excluded: tuple[Term, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.by_filter or self.required or self.excluded)

    @property
    def eligible(self) -> str:
        """A SELECT of the ids of the chunks that meet all conditions in SQL."""
        return "SELECT c.id FROM chunks c WHERE " + " AND ".join(self.by_filter.values())

    def met_by(
        self, snapshot: Snapshot, library: LibraryIndex, matches: Mapping[Term, Matches] | None = None
    ) -> NDArray[np.bool_]:
        """Return, for each place of the index, whether its chunk meets all conditions. `matches`: of terms
        that were looked up already."""
        is_met = library.index.live()
        known = matches or {}
        terms = [term for required in self.required.values() for term in required]
        known = {**find_matches(library, [term for term in terms if term not in known]), **known}
        for term in terms:
            is_met &= known[term].mask()
        for found in find_matches(library, self.excluded).values():
            is_met &= ~found.mask()
        of_documents = [c for c in self.by_filter.values() if c.startswith(DOCUMENT_OF_CHUNK)]
        of_chunks = {
            name: condition
            for name, condition in self.by_filter.items()
            if not condition.startswith(DOCUMENT_OF_CHUNK) and name != CONFIDENCE
        }
        if CONFIDENCE in self.by_filter:
            is_met &= library.index.of_confidence(self.parameters[CONFIDENCE])
        if of_documents:
            # Reads documents instead of their many chunks.
            conditions = (DOCUMENT_ITSELF + c.removeprefix(DOCUMENT_OF_CHUNK) for c in of_documents)
            ids = packed_ids(snapshot, ELIGIBLE_DOCUMENTS + " AND ".join(conditions), self.parameters)
            is_met &= library.index.of_documents(ids)
        if of_chunks:
            eligible = CompiledFilters(of_chunks, {}).eligible
            is_met &= library.index.of_chunks(packed_ids(snapshot, eligible, self.parameters))
        return is_met

    def and_of_query(self, parsed: ParsedQuery, *, with_required: bool) -> CompiledFilters:
        """Add the conditions of the query: its excluded terms and, if `with_required`, its phrases and title
        terms."""
        required = {}
        if with_required:
            by_place = (
                (PHRASE, tuple(term for term in parsed.required if not term.in_title)),
                (TITLE, tuple(term for term in parsed.required if term.in_title)),
            )
            required = {name: terms for name, terms in by_place if terms}
        return CompiledFilters(self.by_filter, self.parameters, required, parsed.excluded)


def compile_filters(filters: SearchFilters, scorer: Scorer, label_threshold: float) -> CompiledFilters:
    """Compile filters to conditions. Raises QueryError for a reef or island that does not exist."""
    conditions: dict[str, str] = {}
    parameters: dict[str, Any] = {}

    def require(name: str, condition: str, **values: Any) -> None:
        conditions[name] = condition
        parameters.update(values)

    if filters.tags:
        tags, values = listed("tag", filters.tags)
        n_tags = len(filters.tags) if filters.tags_match is TagsMatch.all else 1
        require("tags", WITH_TAGS.format(tags=tags), **values, n_tags=n_tags)
    if filters.min_confidence is not None:
        require(CONFIDENCE, f"c.confidence >= :{CONFIDENCE}", **{CONFIDENCE: filters.min_confidence})
    if filters.min_coverage is not None:
        require("min_coverage", "c.coverage >= :min_coverage", min_coverage=filters.min_coverage)
    if filters.reef_ids is not None:
        _check_exist("reef_ids", filters.reef_ids, (reef.id for reef in scorer.reefs))
        reefs, values = listed("reef", filters.reef_ids)
        require("reef_ids", IS_LABELED.format(reefs=reefs), **values, label_threshold=label_threshold)
    if filters.island_ids is not None:
        _check_exist("island_ids", filters.island_ids, (island.id for island in scorer.islands))
        islands = set(filters.island_ids)
        reefs, values = listed("island_reef", (r.id for r in scorer.reefs if r.island_id in islands))
        require("island_ids", IS_LABELED.format(reefs=reefs), **values, label_threshold=label_threshold)
    if filters.archipelago is not None:
        require("archipelago", _is_strongest(filters.archipelago))
    for name, condition, values in document_conditions(filters):
        require(name, condition, **values)
    return CompiledFilters(conditions, parameters)


def document_conditions(filters: SearchFilters) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (name of the filter, condition, parameters) for each filter on a chunk's document."""
    if filters.document_ids is not None:
        documents, values = listed("document", filters.document_ids)
        yield "document_ids", f"c.document_id IN ({documents})", values
    for name, condition in (
        ("format", "d.format = :format"),
        ("created_after", "d.created_at >= :created_after"),
        ("created_before", "d.created_at < :created_before"),
    ):
        value = getattr(filters, name)
        if value is not None:
            yield name, OF_DOCUMENT.format(condition), {name: str(value)}
    if filters.source_path is not None:
        paths, values = listed("source_path", filters.source_path)
        yield "source_path", OF_DOCUMENT.format(f"d.source_path IN ({paths})"), values
    if filters.name_contains is not None:
        condition = OF_DOCUMENT.format(IS_NAMED.format(name="name_contains"))
        yield "name_contains", condition, {"name_contains": name_pattern(filters.name_contains)}
    if filters.file_type is not None:
        is_type, type_values = is_of_type(filters.file_type, "file_type")
        yield "file_type", OF_DOCUMENT.format(is_type), type_values
    yield from metadata_conditions(filters.metadata or {})


def metadata_conditions(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (name, condition, parameters) for each key, so that an explanation can name the key."""
    for i, (key, value) in enumerate(metadata.items()):
        name = f"metadata_{i}"
        pair = f"{compact_json(key)}:"
        values: dict[str, Any] = {f"{name}_key": key}
        if value is None or isinstance(value, bool):
            test = f"m.type = '{compact_json(value)}'"
            pair += compact_json(value)
        elif isinstance(value, str):
            test, values[f"{name}_value"] = f"m.type = 'text' AND m.atom = :{name}_value", value
            pair += compact_json(value)
        else:
            # Parsed by SQLite from its digits, like the stored number, so that both are rounded alike. 1
            # equals 1.0.
            test = f"m.type IN ('integer', 'real') AND m.atom = CAST(:{name}_value AS NUMERIC)"
            values[f"{name}_value"] = repr(value)
        values[f"{name}_text"] = pair
        yield f"metadata.{key}", WITH_METADATA.format(name=name, value=test), values


def _is_strongest(archipelago: int) -> str:
    """The condition that all other archipelagos have lower scores; false for ties and without known words."""
    others = (other for other in range(N_ARCHIPELAGOS) if other != archipelago)
    return " AND ".join(f"c.arch_score_{archipelago} > c.arch_score_{other}" for other in others)


def _check_exist(name: str, ids: Iterable[int], existing: Iterable[int]) -> None:
    unknown = sorted(set(ids) - set(existing))
    if unknown:
        raise QueryError(f"filters.{name}", f"there is no {name.split('_', maxsplit=1)[0]} {unknown[0]}")
