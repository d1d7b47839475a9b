"""Filters as SQL: the subquery of the chunks that may be results at all.

Each filter is one condition on a chunk `c`, so that an explanation can ask which of them kept a chunk out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import QueryError
from shoal.models import SearchFilters, TagsMatch
from shoal.search.lexical_ranking import all_of, any_of
from shoal.search.query_language import ParsedQuery
from shoal.search.request import N_ARCHIPELAGOS
from shoal.storage.database import Snapshot, listed
from shoal.storage.json_text import compact_json
from shoal.storage.packed_columns import packed_ids

OF_DOCUMENT = "c.document_id IN (SELECT d.id FROM documents d WHERE {})"
WITH_TAGS = """c.document_id IN (
    SELECT t.document_id FROM document_tags t WHERE t.tag IN ({tags})
    GROUP BY t.document_id HAVING COUNT(*) >= :n_tags)"""
# By the index of documents that have any. Metadata is stored as `compact_json` writes it, so what is looked for stands in
# its text; only where it does is the JSON read, which takes far longer.
WITH_METADATA = """c.document_id IN (
    SELECT d.id FROM documents d
    WHERE d.metadata <> '{{}}' AND INSTR(d.metadata, :{name}_text) > 0
      AND EXISTS (SELECT 1 FROM json_each(d.metadata) m WHERE m.key = :{name}_key AND {value}))"""
CURRENT_DATA = "current data"
"""Stands among the filters for the condition that no one asked for."""
OF_CURRENT_DATA = "c.data_checksum = :data_checksum"

PHRASE, TITLE, EXCLUDED = "phrase", "title", "excluded"
"""Stand among the filters for what the query itself demands."""
WITH_TERMS = "c.id IN (SELECT rowid FROM chunk_fts WHERE chunk_fts MATCH :{name})"
LEFT_OUT = "SELECT rowid AS id FROM chunk_fts WHERE chunk_fts MATCH :excluded"
WITHOUT_TERMS = f"c.id NOT IN ({LEFT_OUT})"


@dataclass(frozen=True, slots=True)
class CompiledFilters:
    """Conditions on a chunk `c` by the name of their filter, and the parameters they use."""

    by_filter: Mapping[str, str]
    parameters: Mapping[str, Any]

    def __bool__(self) -> bool:
        return bool(self.by_filter)

    @property
    def eligible(self) -> str:
        """A query of the ids of the chunks that meet all conditions."""
        return "SELECT c.id FROM chunks c WHERE " + " AND ".join(self.by_filter.values())

    def met_by(self, snapshot: Snapshot, chunk_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the chunks meet all conditions."""
        met = np.ones(len(chunk_ids), dtype=np.bool_)
        demanding = {name: one for name, one in self.by_filter.items() if name != EXCLUDED}
        if demanding:
            met &= np.isin(
                chunk_ids, packed_ids(snapshot, CompiledFilters(demanding, {}).eligible, self.parameters)
            )
        if EXCLUDED in self.by_filter:
            # The few that go, rather than all that stay.
            met &= ~np.isin(chunk_ids, packed_ids(snapshot, LEFT_OUT, self.parameters))
        return met

    def and_of_query(self, parsed: ParsedQuery, *, with_required: bool) -> CompiledFilters:
        """These, and what a query demands: without its excluded terms and, if so wanted, with its phrases and title
        terms."""
        found, parameters = dict(self.by_filter), dict(self.parameters)
        phrases = [term for term in parsed.required if not term.in_title]
        titles = [term for term in parsed.required if term.in_title]
        for name, terms in ((PHRASE, phrases), (TITLE, titles)):
            if terms and with_required:
                found[name], parameters[name] = WITH_TERMS.format(name=name), all_of(terms)
        if parsed.excluded:
            found[EXCLUDED], parameters[EXCLUDED] = WITHOUT_TERMS, any_of(parsed.excluded)
        return CompiledFilters(found, parameters)

    def and_current_data(self, data_checksum: str) -> CompiledFilters:
        """These, and that the chunk was scored with the build of lagoon's data that has this checksum."""
        return CompiledFilters(
            {**self.by_filter, CURRENT_DATA: OF_CURRENT_DATA},
            {**self.parameters, "data_checksum": data_checksum},
        )


def compile_filters(filters: SearchFilters, scorer: Any) -> CompiledFilters:
    """The conditions of filters. Raises QueryError for a reef or island that lagoon's data doesn't have."""
    found: dict[str, str] = {}
    parameters: dict[str, Any] = {}

    def require(name: str, condition: str, **values: Any) -> None:
        found[name] = condition
        parameters.update(values)

    if filters.tags:
        tags, values = listed("tag", filters.tags)
        n_tags = len(filters.tags) if filters.tags_match is TagsMatch.all else 1
        require("tags", WITH_TAGS.format(tags=tags), **values, n_tags=n_tags)
    if filters.min_confidence is not None:
        require("min_confidence", "c.confidence >= :min_confidence", min_confidence=filters.min_confidence)
    if filters.min_coverage is not None:
        require("min_coverage", "c.coverage >= :min_coverage", min_coverage=filters.min_coverage)
    if filters.reef_ids is not None:
        _check_known("reef_ids", filters.reef_ids, (reef.id for reef in scorer.reefs))
        reefs, values = listed("reef", filters.reef_ids)
        require("reef_ids", f"c.top_reef_id IN ({reefs})", **values)
    if filters.island_ids is not None:
        _check_known("island_ids", filters.island_ids, (island.id for island in scorer.islands))
        islands = set(filters.island_ids)
        reefs, values = listed("island_reef", (r.id for r in scorer.reefs if r.island_id in islands))
        require("island_ids", f"c.top_reef_id IN ({reefs})", **values)
    if filters.archipelago is not None:
        require("archipelago", _strongest(filters.archipelago))
    for name, condition, values in _of_documents(filters):
        require(name, condition, **values)
    return CompiledFilters(found, parameters)


def _of_documents(filters: SearchFilters) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Conditions on a chunk's document, by the name of their filter, with the parameters of each."""
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
    yield from of_metadata(filters.metadata or {})


def of_metadata(wanted: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """A condition for each key, which an explanation names."""
    for i, (key, value) in enumerate(wanted.items()):
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
            # Read from its digits as what is stored is, so that both are rounded alike. 1 may be stored as 1.0.
            test = f"m.type IN ('integer', 'real') AND m.atom = CAST(:{name}_value AS NUMERIC)"
            values[f"{name}_value"] = repr(value)
        values[f"{name}_text"] = pair
        yield f"metadata.{key}", WITH_METADATA.format(name=name, value=test), values


def _strongest(archipelago: int) -> str:
    """That no other archipelago is as strong; of a tie, or a chunk without known words, none is."""
    others = (other for other in range(N_ARCHIPELAGOS) if other != archipelago)
    return " AND ".join(f"c.arch_score_{archipelago} > c.arch_score_{other}" for other in others)


def _check_known(name: str, ids: Iterable[int], known: Iterable[int]) -> None:
    unknown = sorted(set(ids) - set(known))
    if unknown:
        raise QueryError(f"filters.{name}", f"there is no {name.split('_', maxsplit=1)[0]} {unknown[0]}")
