"""The audit log: a line of JSON for every search, with the request, the state of the library and the scores.

A `full` line has the text of the query and is enough to repeat the search (`search_arguments`); in an
unchanged library the ranking is the same to the last digit. A `summary` line has only a hash of the query.
`docs/audit.md` describes the fields."""

from __future__ import annotations

import dataclasses
import enum
import errno
import hashlib
import json
import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.declared.arguments import Audit
from shoal.declared.filters import SearchFilters
from shoal.declared.search import SEARCH
from shoal.filters.tree import text_of
from shoal.models.search import FoldedResult, SearchResponse
from shoal.search.signals import COSINE_UNIT
from shoal.storage import vocabulary
from shoal.support.clock import timestamp
from shoal.support.request_context import KEY_NAME
from shoal.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.search.library_index import LibraryView
    from shoal.search.query_analysis import AnalyzedQuery
    from shoal.search.ranking import Ranked, Ranking
    from shoal.search.request import SearchRequest
    from shoal.search.reranking import Reranking
    from shoal.settings import Settings

ALWAYS = tuple(name for name, argument in SEARCH.items() if argument.audit is Audit.always)
GIVEN = tuple(name for name, argument in SEARCH.items() if argument.audit is Audit.given)
MAX_CANDIDATES = 100
"""Best candidates of each signal that a full line lists."""

LIBRARY = """
    SELECT (SELECT COUNT(*) FROM chunks) AS n_chunks,
           (SELECT COALESCE(MAX(id), 0) FROM chunks) AS last_chunk_id,
           (SELECT revision FROM index_state) AS revision
"""
RANKING_SETTINGS = ("reefs_per_query", "max_query_terms", "learning", "feedback_weight", "presets", "embed")
"""Settings that a ranking depends on, besides the request."""
RESULT_FIELDS = (
    *("chunk_id", "document_id", "score", "lexical", "reef", "field_boost", "lexical_raw", "reef_raw"),
    *("dense", "dense_raw"),
)

log = logging.getLogger(__name__)


class AuditLevel(enum.StrEnum):
    off = "off"
    summary = "summary"
    full = "full"


class AuditLog:
    """Appends lines to a file, or to stderr. Safe to share between threads and processes."""

    def __init__(self, level: AuditLevel, path: Path | None) -> None:
        self.level = level
        self._path = path
        self._lock = threading.Lock()

    @classmethod
    def of(cls, settings: Settings) -> AuditLog:
        """Return the audit log that the settings describe."""
        path = Path(settings.audit_file).absolute() if settings.audit_file else None
        return cls(AuditLevel(settings.audit), path)

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append a line. A failure is logged and does not fail the search."""
        line = json.dumps(entry, ensure_ascii=True, separators=(",", ":")) + "\n"
        try:
            with self._lock:
                if self._path is None:
                    sys.stderr.write(line)
                    sys.stderr.flush()
                else:
                    _append(self._path, line.encode())
        except OSError as error:
            log.error("audit line of %s not written: %s", entry.get("trace_id"), error.strerror or error)


def make_entry(
    level: AuditLevel,
    view: LibraryView,
    request: SearchRequest,
    analyzed_query: AnalyzedQuery,
    ranking: Ranking,
) -> dict[str, Any]:
    """Return the entry of a search without its results. Unless `full`, it has only a hash of the query."""
    snapshot, _, scorer, settings = view
    is_full = level is AuditLevel.full
    library = snapshot.first(LIBRARY)
    entry = {
        "event": "search",
        "shoal": __version__,
        "query_sha256": hashlib.sha256(request.query.encode()).hexdigest(),
        **({"query": request.query} if is_full else {}),
        **{name: getattr(request, name) for name in ALWAYS},
        # Of a page by cursor, so that the entry repeats it.
        "offset": request.start,
        "filters": _filters(request.filters),
        **({} if request.filter is None else {"filter": text_of(request.filter)}),
        **_order_arguments(request),
        "weights_asked": None if request.weights is None else dict(request.weights),
        "weights": analyzed_query.weights._asdict(),
        "settings": {name: getattr(settings, name) for name in RANKING_SETTINGS},
        "vocabulary_version": vocabulary.newest(snapshot).number,
        "data_version": scorer.data_version,
        "data_checksum": scorer.data_checksum,
        "library": {name: library[name] for name in ("n_chunks", "last_chunk_id", "revision")},
        "candidates": {
            "lexical": _candidates(ranking, "lexical_raw", is_full),
            "reef": _candidates(ranking, "reef_raw", is_full),
            **_dense_candidates(ranking, is_full),
            "results": int(ranking.order.is_result.sum()),
        },
    }
    if is_full:
        entry["query_reefs"] = [[reef.reef_id, reef.z_score] for reef in analyzed_query.reefs]
        # Warnings contain words of the query, so only a full line has them (`complete_entry`).
        entry["warnings"] = []
    return entry


def rerank_entry(reranking: Reranking | None, ranked: Sequence[Ranked]) -> dict[str, Any]:
    """Return what an entry says of reranking: what was read, its scores, and the order. `ranked` are the
    results in the order of the blend."""
    if reranking is None:
        return {}
    return {
        "reranking": {
            **dataclasses.asdict(reranking.info),
            "candidates": [
                [chunk.chunk_id, parts.similarity, parts.score]
                for chunk, parts in zip(ranked, reranking.parts, strict=False)
            ],
            "order": [ranked[number].chunk_id for number, _ in reranking.in_order()],
        }
    }


def complete_entry(
    entry: dict[str, Any],
    response: SearchResponse,
    ranked: Sequence[Ranked],
    reranking: Mapping[str, Any] = MappingProxyType({}),
    folded: Mapping[int, Sequence[FoldedResult]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Add what is known after the search: the results `ranked` and their reranking, the time, the trace id,
    the name of the key, and the duration."""
    context = {"at": timestamp(), "trace_id": response.trace_id, "key": KEY_NAME.get()}
    results = [
        {"rank": rank, **_result(chunk), **_folded(folded.get(chunk.chunk_id, ()))}
        for rank, chunk in enumerate(ranked, start=entry["offset"] + 1)
    ]
    warnings = {"warnings": list(response.warnings)} if "warnings" in entry else {}
    return {**context, **entry, "results": results, **reranking, **warnings, "took_ms": response.took_ms}


def search_arguments(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `Engine.search` that repeat the search of a full entry."""
    return {
        "query": entry["query"],
        # Lines of earlier versions have no `rerank`, and searched for the words as typed without synonyms and
        # pins.
        "typos": "off",
        "synonyms": "off",
        "pins": "off",
        **{name: entry[name] for name in ALWAYS if name in entry},
        "weights": entry["weights_asked"],
        "filters": entry["filters"],
        "filter": entry.get("filter"),
        **{name: entry[name] for name in GIVEN if name in entry},
    }


def _order_arguments(request: SearchRequest) -> dict[str, Any]:
    """What orders the results besides the signals, as arguments of a search; only what was given."""
    parsed = {
        "sort": [key.text for key in request.sort],
        "decay": request.decay and request.decay.members,
        "boosts": [boost.members for boost in request.boosts],
    }
    given = {name: parsed.get(name, getattr(request, name)) for name in GIVEN}
    return {name: value for name, value in given.items() if value and value != SEARCH[name].default}


def _filters(filters: SearchFilters) -> dict[str, Any]:
    """The filters that were set, as JSON."""
    defaults = SearchFilters()
    values = {field.name: getattr(filters, field.name) for field in dataclasses.fields(filters)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value != getattr(defaults, name)
    }


def _candidates(ranking: Ranking, score: str, is_full: bool) -> dict[str, Any]:
    """The number of chunks that a signal matched, its best raw score and, if `full`, the best chunks."""
    raw: NDArray[np.int64] = getattr(ranking, score)
    matches = np.flatnonzero(raw > 0)
    first = matches[np.argsort(-raw[matches], kind="stable")][: MAX_CANDIDATES if is_full else 1]
    scored = [
        [chunk_id, getattr(ranking.of(chunk_id, 0), score)]
        for chunk_id in ranking.library.index.chunk_ids(first).tolist()
    ]
    entry: dict[str, Any] = {"n": len(matches), "best": scored[0][1] if scored else 0.0}
    return {**entry, "first": scored} if is_full else entry


def _dense_candidates(ranking: Ranking, is_full: bool) -> dict[str, Any]:
    """The candidates of the dense signal, if it was used, with the encoder and the floor."""
    if ranking.cosines is None:
        return {}
    candidates = _candidates(ranking, "dense_raw", is_full)
    return {
        "dense": {
            **candidates,
            "floor": ranking.cosines.floor / COSINE_UNIT,
            "encoder": ranking.cosines.encoder,
        }
    }


def _folded(folded: Sequence[FoldedResult]) -> dict[str, Any]:
    return {"folded": [each.chunk_id for each in folded]} if folded else {}


def _result(chunk: Ranked) -> dict[str, Any]:
    added = {
        "decay": chunk.decay,
        "boosts": None if chunk.boosts is None else [boost.value for boost in chunk.boosts],
        "pinned": chunk.is_pinned or None,
        "further": chunk.is_further or None,
    }
    given = {name: value for name, value in added.items() if value is not None}
    return {**{name: getattr(chunk, name) for name in RESULT_FIELDS}, **given}


def _append(path: Path, data: bytes) -> None:
    """Append to a file, created readable for its owner only. Log rotation may move it away at any time."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        # A single write, so that lines of other processes do not interleave.
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)
