"""The values of single fields of all documents or chunks, for filters, and which documents changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from shoal.storage.chunk_queries import AUDIO, IMAGE, TEXT_TYPES, VIDEO, is_of_type
from shoal.storage.column_values import compact_json, packed_columns, packed_ids
from shoal.storage.database import Snapshot
from shoal.storage.profiles import MILLIONTHS
from shoal.storage.totals import N_DOCUMENTS

SAMPLE = 1000
"""Documents whose keys are read for suggestions."""

REVISION = "SELECT COALESCE((SELECT revision FROM field_state), 0)"
CHANGED_SINCE = "SELECT document_id AS id FROM changed_fields WHERE revision > :revision"
IDS_AFTER = "SELECT id FROM documents WHERE id > :last"
METADATA_KEYS = """
    SELECT DISTINCT m.key
    FROM (SELECT metadata FROM documents WHERE metadata <> '{{}}'{among} LIMIT :n) d, json_each(d.metadata) m
    LIMIT :n
"""
_AMONG = " AND {id} IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))"

# Statements end with a condition, so that a further one can follow.
OF_DOCUMENTS = {
    "title": "SELECT id, title FROM documents WHERE TRUE",
    "source_path": "SELECT id, source_path FROM documents WHERE source_path IS NOT NULL",
    "folder": "SELECT id, source_path FROM documents WHERE source_path IS NOT NULL",
    "format": "SELECT id, format FROM documents WHERE TRUE",
    "created": "SELECT id, created_at FROM documents WHERE TRUE",
    "updated": "SELECT id, updated_at FROM documents WHERE TRUE",
    "date": """SELECT id, created_at, CASE WHEN metadata <> '{}' THEN json_extract(metadata, '$.date') END
        FROM documents WHERE TRUE""",
    "tags": "SELECT document_id, tag FROM document_tags WHERE TRUE",
    "allow": "SELECT id, rights FROM documents WHERE rights IS NOT NULL",
    "deny": "SELECT id, rights FROM documents WHERE rights IS NOT NULL",
    "metadata": "SELECT id, metadata FROM documents WHERE metadata <> '{}' AND INSTR(metadata, :key) > 0",
    "key": "SELECT id, metadata -> :path FROM documents WHERE metadata <> '{}' AND INSTR(metadata, :key) > 0",
    "file_type": f"""SELECT d.id, d.format, f.kind, d.source_path, {is_of_type(AUDIO, "")[0]},
            {is_of_type(VIDEO, "")[0]}, COALESCE({is_of_type(IMAGE, "")[0]}, FALSE)
        FROM documents d LEFT JOIN document_files f ON f.document_id = d.id WHERE TRUE""",
}
_ID_OF = {"tags": "document_id", "file_type": "d.id"}
_IS_STRONGEST = [
    " AND ".join(f"c.arch_score_{each} > c.arch_score_{other}" for other in range(4) if other != each)
    for each in range(4)
]
_STRONGEST = " ".join(f"WHEN {is_strongest} THEN {each}" for each, is_strongest in enumerate(_IS_STRONGEST))
NUMBERS_OF_CHUNKS = {
    "coverage": f"""SELECT c.id, CAST(ROUND(c.coverage * {MILLIONTHS}) AS BIGINT) AS number
        FROM chunks c WHERE TRUE""",
    # Both columns are in one index.
    "reef": """SELECT c.id, c.top_reef_id AS number FROM chunks c
        WHERE c.top_reef_probability >= :label_threshold AND c.top_reef_id IS NOT NULL""",
    # Two equal scores are no strongest.
    "archipelago": f"SELECT c.id, CASE {_STRONGEST} ELSE -1 END AS number FROM chunks c WHERE TRUE",
}
"""Fields with at most one number for each chunk, a whole one from 0. Coverage has six digits behind
the point, and is in millionths."""
MIN_SCANNED = 20_000
"""For this many chunks, all chunks are read, which is faster than looking up each."""
OF_CHUNKS = {
    "section": "SELECT c.id, s.path",
    "language": "SELECT c.id, c.language",
    "place": """SELECT c.id, json_extract(c.locator, '$.kind'),
        CAST(json_extract(c.locator, '$.first') AS DOUBLE PRECISION),
        CAST(json_extract(c.locator, '$.last') AS DOUBLE PRECISION)""",
}
_CHUNKS = " FROM json_each(:ids) j JOIN chunks c ON c.id = CAST(j.value AS BIGINT)"
_SECTIONS = " JOIN sections s ON s.id = c.section_id WHERE s.path <> '[]'"
_LOCATED = " WHERE c.locator IS NOT NULL"

KIND_OF_FORMAT = {doc_format.value: kind for kind, doc_format in TEXT_TYPES.items()}
Row = tuple[object, ...]


def revision(snapshot: Snapshot) -> int:
    """Read the revision of the documents: equal revisions mean equal fields of the same documents."""
    number: int = snapshot.value(REVISION)
    return number


def count(snapshot: Snapshot) -> int:
    """Count the documents."""
    number: int = snapshot.value(N_DOCUMENTS)
    return number


def changed_since(snapshot: Snapshot, revision: int) -> NDArray[np.int64]:
    """Return the ids of the documents whose fields changed after a revision, ascending."""
    return packed_ids(snapshot, CHANGED_SINCE, {"revision": revision})


def ids_after(snapshot: Snapshot, last: int) -> NDArray[np.int64]:
    """Return the ids of the documents stored after one, ascending."""
    return packed_ids(snapshot, IDS_AFTER, {"last": last})


def metadata_keys(snapshot: Snapshot, among: Sequence[int] | None = None) -> list[str]:
    """Read the keys of the top level of the metadata of some documents, or of some among these."""
    condition = "" if among is None else _AMONG.format(id="id")
    values = {"n": SAMPLE} if among is None else {"n": SAMPLE, "ids": json.dumps(list(among))}
    return [row[0] for row in snapshot.rows(METADATA_KEYS.format(among=condition), values)]


def of_documents(
    snapshot: Snapshot, name: str, *, key: str | None = None, among: Sequence[int] | None = None
) -> Iterator[Row]:
    """Yield a row for each document with a value, its id first; several for tags.

    `key`: of `metadata`, one that the top level must have; of `key`, the one whose value is read, as JSON. It
    has word characters only. `among`: only these documents.
    """
    statement = OF_DOCUMENTS[name]
    parameters = {"key": f"{compact_json(key)}:", "path": f'$."{key}"'} if key is not None else {}
    if among is not None:
        statement += _AMONG.format(id=_ID_OF.get(name, "id"))
        parameters["ids"] = json.dumps(list(among))
    return snapshot.tuples(statement, parameters)


def numbers_of_chunks(
    snapshot: Snapshot, name: str, chunk_ids: NDArray[np.int64], label_threshold: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (ids, numbers) of those of these chunks, or of more, that have a number, by ascending id. A
    number below 0 is none."""
    statement = NUMBERS_OF_CHUNKS[name]
    parameters: dict[str, object] = {"label_threshold": label_threshold} if name == "reef" else {}
    if len(chunk_ids) < MIN_SCANNED:
        statement += _AMONG.format(id="c.id")
        parameters["ids"] = json.dumps(chunk_ids.tolist())
    packed = f"SELECT group_concat(id), group_concat(number) FROM ({statement}) found"
    ids, numbers = packed_columns(snapshot, packed, parameters)
    return ids, numbers


def of_chunks(snapshot: Snapshot, name: str, chunk_ids: Iterable[int]) -> Iterator[Row]:
    """Yield a row for each of these chunks with a value, its id first."""
    statement = OF_CHUNKS[name] + _CHUNKS
    statement += {"section": _SECTIONS, "place": _LOCATED}.get(name, "")
    return snapshot.tuples(statement, {"ids": json.dumps(list(chunk_ids))})
