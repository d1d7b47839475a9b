"""Trees of conditions and libraries, as hypothesis strategies, and the definition of filters in plain Python."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
from generated_libraries import SCORER
from hypothesis import strategies as st
from scored_documents import make_scored

from shoal.filters.evaluation import FilterState
from shoal.filters.parsing import ReefNames
from shoal.filters.tree import (
    TEXT_SEARCHES,
    All,
    Condition,
    Field,
    Kind,
    Node,
    Not,
    Op,
    Scalar,
    Some,
    span_of,
)
from shoal.models.documents import DocFormat
from shoal.search.library_index import IndexCache
from shoal.storage import document_writer
from shoal.storage.database import Database

THRESHOLD = 0.5
ARCHIPELAGOS = [SimpleNamespace(id=i, name=f"archipelago {i}") for i in range(4)]
NAMES = ReefNames.of(SimpleNamespace(**{**vars(SCORER), "archipelagos": ARCHIPELAGOS}), THRESHOLD)
NOW = "2026-01-31T12:00:00.000Z"
BIG = 2**53

keys = st.sampled_from(["year", "draft", "by", "a.b", "", "und"])
scalars = st.sampled_from(
    [0, 1, 1.0, -0.5, 2020, BIG, BIG + 1, -BIG - 1, 10**30, 1e300, True, False, None, "", "1", "sea", "Seagull",
     "2026-01-31", "2026-01", "2026-01-31T12:00:00+01:00", "ß", "a\0b", "x"]
)  # fmt: skip
stored_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "year"]), inner, max_size=2)
    ),
    max_leaves=5,
)
documents = st.tuples(
    st.dictionaries(keys, stored_values, max_size=4),
    st.sets(st.sampled_from(["sea", "wind", "Sea"]), max_size=2),
    st.sampled_from(["The Sea", "SEA", "gull", "Straße"]),
    st.sampled_from([None, "notes/sea.md", "notes/gull.tar.gz", "x"]),
    st.sampled_from(list(DocFormat)),
    st.lists(st.sampled_from([0.1, 0.9, 2.5]), min_size=1, max_size=3),
)
paths = st.sampled_from(
    [("year",), ("draft",), ("by",), ("by", "name"), ("by", "name", "year"), ("a.b",), ("",), ("no",)]
)
numbers = st.sampled_from([0, 1, 2020, BIG, BIG + 1, 2**63 - 1, -0.5, 0.1])
spans = st.sampled_from(["2026-01-31", "2026-01", "2026-01-31T12:00:00Z", "2025-12-31"])
texts = st.sampled_from(["sea", "Sea", "gull", "SS", "s", "notes/sea.md", "1", "\0", "2026"])
literals = numbers | spans | texts | st.sampled_from([True, False, None, ""])


def metadata_conditions() -> st.SearchStrategy[Condition]:
    fields = paths.map(lambda path: Field("metadata", path))
    return st.one_of(
        st.builds(Condition, fields, st.just(Op.eq), st.tuples(literals)),
        st.builds(Condition, fields, st.just(Op.any_of), st.lists(literals, max_size=4).map(tuple)),
        st.builds(Condition, fields, st.just(Op.exists)),
        st.builds(
            Condition, fields, st.sampled_from([Op.lt, Op.le, Op.gt, Op.ge]), st.tuples(numbers | spans)
        ),
        st.builds(Condition, fields, st.sampled_from([Op.prefix, Op.suffix, Op.contains]), st.tuples(texts)),
    )


def field_conditions() -> st.SearchStrategy[Condition]:
    ranges = st.sampled_from([Op.lt, Op.le, Op.gt, Op.ge, Op.eq])

    def named(*names: str) -> st.SearchStrategy[Field]:
        return st.sampled_from(names).map(Field)

    return st.one_of(
        st.builds(
            Condition, named("tags", "title", "source_path", "section"), st.just(Op.eq), st.tuples(texts)
        ),
        st.builds(
            Condition, named("tags", "title"), st.just(Op.any_of), st.lists(texts, max_size=3).map(tuple)
        ),
        st.builds(
            Condition,
            named("title", "source_path", "section", "tags"),
            st.sampled_from([Op.prefix, Op.suffix, Op.contains]),
            st.tuples(texts),
        ),
        st.builds(Condition, named("id"), ranges, st.tuples(st.integers(0, 5))),
        st.builds(
            Condition, named("confidence", "coverage"), ranges, st.tuples(st.sampled_from([0, 0.1, 0.9, 3]))
        ),
        st.builds(Condition, named("created", "date", "updated"), ranges, st.tuples(spans | st.just(2026))),
        st.builds(
            Condition, named("reef", "island", "archipelago"), st.just(Op.eq), st.tuples(st.integers(0, 3))
        ),
        st.builds(
            Condition, named("format"), st.just(Op.eq), st.tuples(st.sampled_from(["markdown", "plaintext"]))
        ),
        st.builds(
            Condition, named("file_type"), st.just(Op.eq), st.tuples(st.sampled_from(["text", ".md", ".gz"]))
        ),
        st.builds(
            Condition, named("source_path", "page", "tags", "time_start", "section"), st.just(Op.exists)
        ),
    )


def trees() -> st.SearchStrategy[Node]:
    def joined(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.builds(All, parts) | st.builds(Some, parts) | st.builds(Not, inner)

    return st.recursive(metadata_conditions() | field_conditions(), joined, max_leaves=5)


# The model: the definition in docs/filters.md, value by value.


def values_at(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    if not path:
        if isinstance(value, list) and value:
            yield from value
        else:
            yield value
    elif isinstance(value, list):
        for element in value:
            if isinstance(element, dict):
                yield from values_at(element, path)
    elif isinstance(value, dict) and path[0] in value:
        yield from values_at(value[path[0]], path[1:])


def values_of(field: Field, row: Mapping[str, Any]) -> list[Any]:
    if field.path:
        if field.path[0] not in row["metadata"]:
            return []
        return list(values_at(row["metadata"][field.path[0]], field.path[1:]))
    value = row[field.name]
    return value if isinstance(value, list) else [] if value is None else [value]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


COMPARE = {Op.lt: operator.lt, Op.le: operator.le, Op.gt: operator.gt, Op.ge: operator.ge}


def compares(value: Any, op: Op, wanted: Scalar, kind: Kind) -> bool:
    if kind is Kind.date:
        wanted = str(wanted)
        span = span_of(wanted) or (moment(wanted, 1, 1), moment(str(int(wanted) + 1), 1, 1))
        begin = span_of(value)[0]
    elif op is Op.eq:
        return (is_number(value) == is_number(wanted)) and (
            value == wanted and (is_number(value) or type(value) is type(wanted))
        )
    elif is_number(wanted):
        return is_number(value) and COMPARE[op](value, wanted)
    else:
        span, stored = span_of(wanted), isinstance(value, str) and span_of(value)
        if not stored:
            return False
        begin = stored[0]
    return {
        Op.lt: begin < span[0],
        Op.le: begin < span[1],
        Op.gt: begin >= span[1],
        Op.ge: begin >= span[0],
        Op.eq: span[0] <= begin < span[1],
    }[op]


def moment(year: str, month: int, day: int) -> int:
    return int(datetime(int(year), month, day, tzinfo=UTC).timestamp() * 1_000_000)


def meets(node: Node, row: Mapping[str, Any]) -> bool:
    match node:
        case All(parts):
            return all(meets(part, row) for part in parts)
        case Some(parts):
            return any(meets(part, row) for part in parts)
        case Not(part):
            return not meets(part, row)
        case Condition(field, op, wanted):
            values = values_of(field, row)
            if op is Op.exists:
                return bool(values)
            if op in TEXT_SEARCHES:
                folded = str(wanted[0]).casefold()
                found = [value.casefold() for value in values if isinstance(value, str)]
                find = {Op.prefix: str.startswith, Op.suffix: str.endswith}.get(op, str.__contains__)
                return any(find(text, folded) for text in found)
            compared = Op.eq if op is Op.any_of else op
            return any(compares(value, compared, each, field.kind) for value in values for each in wanted)
    raise AssertionError(node)


def store(database: Database, stored: list[tuple[Any, ...]]) -> None:
    with database.write() as transaction:
        for i, (metadata, tags, title, path, doc_format, confidence) in enumerate(stored):
            scored = make_scored(
                [f"text {i} {j}" for j in range(len(confidence))],
                [{(i + j) % 4: 2.0} for j in range(len(confidence))],
                confidence=confidence,
                archs=[(1.0, 2.0, 0.0, 0.0) if j else (1.0, 1.0, 0.0, 0.0) for j in range(len(confidence))],
                coverage=round(confidence[0] / 3, 6),
                title=title,
                heading="Sea" if i % 2 else "",
                tags=tuple(tags),
                format=doc_format,
                source_path=path,
                metadata=metadata,
            )
            document_writer.insert_document(transaction, scored, now=NOW)


def rows_of(database: Database) -> list[dict[str, Any]]:
    """What the database says of each chunk, without the index."""
    with database.snapshot() as snapshot:
        rows = []
        for chunk in snapshot.rows(
            "SELECT c.*, s.path, d.title, d.source_path, d.format, d.created_at, d.updated_at, "
            "d.metadata AS about FROM chunks c JOIN documents d ON d.id = c.document_id "
            "JOIN sections s ON s.id = c.section_id ORDER BY c.id"
        ):
            metadata = json.loads(chunk["about"])
            path = chunk["source_path"] or ""
            archs = [chunk[f"arch_score_{i}"] for i in range(4)]
            reef = chunk["top_reef_id"] if chunk["top_reef_probability"] >= THRESHOLD else None
            declared = metadata.get("date")
            kinds = ["text" if chunk["format"] == "plaintext" else "markdown"]
            rows.append(
                {
                    "chunk_id": chunk["id"],
                    "id": chunk["document_id"],
                    "metadata": metadata,
                    "tags": [
                        row[0]
                        for row in snapshot.rows(
                            "SELECT tag FROM document_tags WHERE document_id = :id",
                            {"id": chunk["document_id"]},
                        )
                    ],
                    "title": chunk["title"],
                    "source_path": chunk["source_path"],
                    "format": chunk["format"],
                    "file_type": [*kinds, *(end for end in (".md", ".gz") if path.endswith(end))],
                    "created": chunk["created_at"],
                    "updated": chunk["updated_at"],
                    "date": declared
                    if isinstance(declared, str) and span_of(declared)
                    else chunk["created_at"],
                    "section": json.loads(chunk["path"]),
                    "page": None,
                    "time_start": None,
                    "time_end": None,
                    "reef": reef,
                    "island": None if reef is None else reef // 2,
                    "archipelago": archs.index(max(archs)) if archs.count(max(archs)) == 1 else None,
                    "confidence": chunk["confidence"],
                    "coverage": chunk["coverage"],
                }
            )
        return rows


def met_chunks(database: Database, cache: IndexCache, node: Node) -> list[int]:
    with database.snapshot() as snapshot:
        library = cache.of(snapshot)
        state = FilterState(snapshot, library.index, library.fields, NAMES)
        places = np.flatnonzero(state.met(node) & library.index.live())
        return sorted(library.index.chunk_ids(places).tolist())
