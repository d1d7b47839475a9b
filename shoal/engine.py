"""The interface of the library: documents go in, explained results come out.

An engine is a database and a scorer. It may be shared between threads. Every method opens its own
transaction, so what it returns is one consistent state.

What a method needs is imported when it is called: a search from the command line should not wait for the code
that ingests.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from shoal.errors import NotFoundError, QueryError, SettingsError
from shoal.models import (
    DocFormat,
    DocumentDraft,
    IngestResult,
    RescoreResult,
    SearchFilters,
    SearchMode,
    SearchResponse,
)
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import chunk_queries, document_queries, migrate
from shoal.storage.database import MAX_ID, Database
from shoal.support.clock import timestamp

if TYPE_CHECKING:
    from shoal.charts.ribbon import Ribbon
    from shoal.jobs.embedded import Watcher
    from shoal.jobs.ingestion import IngestSession
    from shoal.jobs.service import Jobs
    from shoal.jobs.stages.contract import Handlers
    from shoal.learning.word_details import LearnedWord, WordPage
    from shoal.search.audit import AuditLog
    from shoal.search.explain.explanation import Explanation
    from shoal.search.postings import PostingsCache
    from shoal.search.similar_chunks import SimilarChunk
    from shoal.storage.catalog import Catalog
    from shoal.storage.records import ChunkDetail, ChunkPage, DocumentDetail, DocumentPage

SQLITE = "sqlite:///"
MAX_PAGE = 2**31 - 1
"""Largest limit and offset of a listing."""


class Engine:
    """Ingest, search and explain; `with Engine(db_path="shoal.db") as engine:`.

    Creates or migrates the database at once; loads lagoon's data on first use. `settings` default to the
    environment; `db_path` or `database_url` (`sqlite:///PATH`) override them. `scorer` is any object with
    lagoon's public methods; without it, the data in `lagoon_data_dir` is loaded (None: the packaged data).

    Raises SettingsError, SchemaError (a newer or foreign database) or DatabaseUnavailableError.
    """

    settings: Settings
    database: Database

    def __init__(
        self,
        db_path: str | Path | None = None,
        *,
        database_url: str | None = None,
        lagoon_data_dir: str | Path | None = None,
        scorer: Scorer | None = None,
        settings: Settings | None = None,
        learning: bool | None = None,
    ) -> None:
        self.settings = _settings(settings, db_path, database_url, learning)
        self._lagoon_data_dir = lagoon_data_dir
        self._scorer = scorer
        self._loading = threading.Lock()
        self.database = Database(self.settings.database_url)
        migrate.upgrade(self.database)

    @functools.cached_property
    def _postings(self) -> PostingsCache:
        from shoal.search.postings import PostingsCache

        return PostingsCache(self.database)

    @functools.cached_property
    def jobs(self) -> Jobs:
        """The jobs of the service: submit, look up, wait, cancel, retry."""
        from shoal.jobs.service import Jobs

        return Jobs(self.database, self.settings)

    @functools.cached_property
    def catalog(self) -> Catalog:
        """Documents by reference, tags, and the chunks of a reef or word."""
        from shoal.storage.catalog import Catalog

        return Catalog(self.database)

    @functools.cached_property
    def _audit(self) -> AuditLog | None:
        if self.settings.audit == "off":
            return None
        from shoal.search.audit import AuditLog

        return AuditLog.of(self.settings)

    @property
    def scorer(self) -> Scorer:
        """The scorer, loaded on first use. Raises lagoon.LagoonError if its data cannot be used."""
        if self._scorer is None:
            with self._loading:
                if self._scorer is None:
                    import lagoon

                    self._scorer = lagoon.load(self._lagoon_data_dir)
        return self._scorer

    def start(self) -> None:
        """Load what the first search needs, so that a service is ready before it answers. A second call is
        cheap."""
        with self.database.snapshot(limited=False) as snapshot:
            self._postings.load(snapshot, self.scorer.n_reefs)

    def limit_reads(self, seconds: float) -> None:
        """Stop reads that take longer than `seconds`, with ReadTimeoutError; 0 removes the limit."""
        self.database.read_timeout = seconds or None

    def close(self) -> None:
        """Close the database connections."""
        self.database.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Ingest

    def ingest(
        self,
        *,
        content: str,
        title: str | None = None,
        format: DocFormat | str | None = None,  # noqa: A002 - the name users know from the API
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        source_path: str | None = None,
    ) -> IngestResult:
        """Store one document. If its content is stored already, merge the tags and set `duplicate`.

        Format and title default to those found in `source_path` and the text. Raises DocumentError with what
        is wrong with the document; nothing is stored then."""
        from shoal.formats.drafts import make_draft

        return self._take_one(
            make_draft(
                title=title,
                content=content,
                format=format,
                tags=tags,
                metadata=metadata,
                source_path=source_path,
                settings=self.settings,
            )
        )

    def ingest_file(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        format: DocFormat | str | None = None,  # noqa: A002
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> IngestResult:
        """Store the text of a file like `ingest`; its path becomes `source_path`.

        Raises NotFoundError if there is no such file.
        """
        from shoal.formats.drafts import draft_from_file

        return self._take_one(
            draft_from_file(
                path, title=title, format=format, tags=tags, metadata=metadata, settings=self.settings
            )
        )

    def ingest_many(self, documents: Iterable[Mapping[str, Any]]) -> list[IngestResult]:
        """Store documents given as the arguments of `ingest`; one result for each, in order.

        A bad document does not raise: its result has `error`. The library learns from all documents together,
        in waves of `wave_bytes`."""
        with self.ingest_session() as ingest_session:
            for document in documents:
                ingest_session.add(document)
            return ingest_session.finish()

    def replace(
        self,
        document_id: int,
        *,
        content: str,
        title: str | None = None,
        format: DocFormat | str | None = None,  # noqa: A002
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        source_path: str | None = None,
    ) -> IngestResult:
        """Give a document new content under its id.

        Arguments that are None keep their stored value; chunks with the same text keep their ids. A search
        sees either the old document or the new one. If content, title and format are the same, nothing is
        scored. Raises NotFoundError, DuplicateContentError if another document has this content, or another
        DocumentError; the document then stays as it was."""
        from shoal.jobs.stages.replace import new_content

        with self.database.snapshot() as snapshot:
            draft = new_content(
                snapshot,
                _checked_id(document_id),
                self.settings,
                content=content,
                title=title,
                format=format,
                tags=tags,
                metadata=metadata,
                source_path=source_path,
            )
        return self._replace(document_id, draft)

    def replace_file(
        self,
        document_id: int,
        path: str | Path,
        *,
        title: str | None = None,
        format: DocFormat | str | None = None,  # noqa: A002
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> IngestResult:
        """Replace with the text of a file; its path becomes `source_path` and determines the format."""
        from shoal.formats.drafts import draft_from_file

        stored = self.document(document_id).document
        draft = draft_from_file(
            path,
            title=stored.title if title is None else title,
            format=format,
            tags=stored.tags if tags is None else tags,
            metadata=stored.metadata if metadata is None else metadata,
            settings=self.settings,
        )
        return self._replace(document_id, draft)

    def _replace(self, document_id: int, draft: DocumentDraft) -> IngestResult:
        from shoal.jobs.stages.replace import update_without_scoring

        if update_without_scoring(self.database, document_id, draft):
            detail = self.document(document_id)
            stored = detail.document
            return IngestResult(
                document_id, stored.title, stored.n_chunks, stored.tags, warnings=detail.report.warnings
            )
        with self.ingest_session() as ingest_session:
            ingest_session.replace(document_id, draft)
            return ingest_session.finish_one()

    def ingest_session(self) -> IngestSession:
        """A session that takes documents one by one and reports progress."""
        from shoal.jobs.ingestion import IngestSession

        return IngestSession(self.database, self._handlers, self.settings)

    def _take_one(self, draft: DocumentDraft) -> IngestResult:
        with self.ingest_session() as ingest_session:
            ingest_session.add_draft(draft)
            return ingest_session.finish_one()

    @functools.cached_property
    def _handlers(self) -> Handlers:
        from shoal.jobs.stages.runner import handlers_for

        return handlers_for(self.database, self.scorer, self.settings)

    # Search and read

    def search(
        self,
        query: str,
        *,
        top_k: int = 10,
        mode: SearchMode | str = SearchMode.hybrid,
        tags: Sequence[str] | None = None,
        min_confidence: float | None = None,
        filters: SearchFilters | Mapping[str, Any] | None = None,
        max_per_document: int | None = 3,
        include_scores: bool = False,
        offset: int = 0,
        context: int = 0,
        preset: str = "balanced",
        weights: Mapping[str, float] | None = None,
        fusion: str = "blend",
        trace_id: str | None = None,
    ) -> SearchResponse:
        """The chunks that match the query best, best first, each with its reasons.

        `mode` is `hybrid` (words and reefs), `lexical` or `reef`. A query may hold "exact phrases", -excluded
        words and title:words; no text is an error. A `preset` (`balanced`, `precise`, `conceptual`) or
        `weights` for `lexical`, `reef` and `field_boost` set the share of each signal; `fusion` is `blend` or
        `rrf`.

        `tags` and `min_confidence` are shorthands for the filters of the same name; giving both is an error.
        `max_per_document=None` removes that limit. `include_scores` fills `shared_reefs`; `context` adds that
        many neighbours before and after each result. `trace_id` identifies the request in the response and in
        the audit log (`SHOAL_AUDIT`).

        Raises QueryError, which names the argument.
        """
        from shoal.search.request import make_request
        from shoal.search.searching import answer

        request = make_request(
            query,
            settings=self.settings,
            top_k=top_k,
            mode=mode,
            tags=tags,
            min_confidence=min_confidence,
            filters=filters,
            max_per_document=max_per_document,
            include_scores=include_scores,
            offset=offset,
            context=context,
            preset=preset,
            weights=weights,
            fusion=fusion,
        )
        return answer(
            self.database,
            self.scorer,
            self.settings,
            request,
            self._postings,
            trace_id=trace_id,
            audit=self._audit,
        )

    def explain(
        self,
        query: str,
        *,
        document_id: int | None = None,
        chunk_id: int | None = None,
        **search: Any,
    ) -> Explanation:
        """The analysis of a query, word by word; with a document or chunk, its rank and what excluded it.

        `**search` takes the arguments of `search`. Raises QueryError, NotFoundError.
        """
        from shoal.search.explain.explanation import explain
        from shoal.search.request import check_id, make_request

        return explain(
            self.database,
            self.scorer,
            self.settings,
            make_request(query, settings=self.settings, **search),
            self._postings,
            document_id=check_id("document_id", document_id),
            chunk_id=check_id("chunk_id", chunk_id),
        )

    def search_and_explain(
        self, query: str, *, trace_id: str | None = None, **search: Any
    ) -> tuple[SearchResponse, Explanation]:
        """The results of `search` and `explain` for one query, analyzed once, from one snapshot of the
        library.

        `**search` takes the arguments of `search`. Raises QueryError.
        """
        from shoal.search.explain.explanation import search_and_explain
        from shoal.search.request import make_request

        return search_and_explain(
            self.database,
            self.scorer,
            self.settings,
            make_request(query, settings=self.settings, **search),
            self._postings,
            trace_id=trace_id,
            audit=self._audit,
        )

    def similar(self, chunk_id: int, *, top_k: int = 5) -> Sequence[SimilarChunk]:
        """Chunks of other documents with a similar profile, at most one per document, most similar first.

        Raises NotFoundError.
        """
        from shoal.search.similar_chunks import similar

        if not 0 < chunk_id <= MAX_ID:
            raise NotFoundError(f"there is no chunk {chunk_id}")
        _check_page(top_k, 0)
        return similar(self.database, self._postings, chunk_id, n_reefs=self.scorer.n_reefs, top_k=top_k)

    def documents(
        self,
        *,
        tag: str | None = None,
        q: str | None = None,
        source_path: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> DocumentPage:
        """Documents by id: those with `tag`, with exactly this `source_path`, and with `q` in title or source
        path.

        `q` ignores the case of ASCII letters. Raises QueryError for a negative limit or offset.
        """
        from shoal.search.request import check_characters

        _check_page(limit, offset)
        for field, text in (("tag", tag), ("q", q), ("source_path", source_path)):
            check_characters(field, text or "")
        with self.database.snapshot() as snapshot:
            return document_queries.list_documents(
                snapshot, tag=tag, q=q, source_path=source_path, limit=limit, offset=offset
            )

    def document(self, document_id: int) -> DocumentDetail:
        """A document with its sections and report. Raises NotFoundError."""
        with self.database.snapshot() as snapshot:
            return document_queries.get_detail(snapshot, _checked_id(document_id))

    def chunks(
        self,
        document_id: int,
        *,
        limit: int | None = None,
        offset: int = 0,
        n_reefs: int = chunk_queries.ALL_REEFS,
    ) -> ChunkPage:
        """Chunks of a document in order, with their `n_reefs` strongest reefs and islands. Raises
        NotFoundError."""
        _check_page(0 if limit is None else limit, offset)
        with self.database.snapshot() as snapshot:
            return chunk_queries.get_chunks(
                snapshot, _checked_id(document_id), limit=limit, offset=offset, n_reefs=n_reefs
            )

    def chunk(self, chunk_id: int, *, context: int = 0) -> ChunkDetail:
        """A chunk by its id, with its document and `context` neighbours on each side.

        Raises NotFoundError, QueryError.
        """
        from shoal.search.request import check_context

        context = check_context(context)
        if not 0 < chunk_id <= MAX_ID:
            raise NotFoundError(f"there is no chunk {chunk_id}")
        with self.database.snapshot() as snapshot:
            return chunk_queries.get_chunk(snapshot, chunk_id, context=context)

    def content(self, document_id: int) -> str:
        """The text of a document as it was stored. Raises NotFoundError."""
        with self.database.snapshot() as snapshot:
            return document_queries.get_content(snapshot, _checked_id(document_id))

    def status(self) -> dict[str, Any]:
        """Counts, versions and sizes of the library.

        Keys: `status`, `n_documents`, `n_chunks`, `lagoon_version`, `lagoon_n_reefs`, `lagoon_checksum`,
        `vocabulary_version`, `n_custom_words`, `n_stale_chunks`, `content_bytes`, `jobs` (by status),
        `workers` (with a recent heartbeat), `schema`, `db_path`, `db_bytes`, and `postings` (`n_chunks` and
        `bytes` that this process keeps in memory)."""
        from shoal.storage.statistics import get_counts, size_on_disk

        with self.database.snapshot() as snapshot:
            counts = get_counts(snapshot, data_checksum=self.scorer.data_checksum)
        return {
            "status": "ok",
            **counts,
            "lagoon_version": self.scorer.data_version,
            "lagoon_n_reefs": self.scorer.n_reefs,
            "lagoon_checksum": self.scorer.data_checksum,
            "schema": migrate.HEAD,
            "db_path": str(self.database.path),
            "db_bytes": size_on_disk(self.database),
            "postings": dict(zip(("n_chunks", "bytes"), self.postings_in_memory(), strict=True)),
        }

    def postings_in_memory(self) -> tuple[int, int]:
        """Number of chunks whose postings this process keeps in memory, and their bytes."""
        return self._postings.in_memory

    def check(self) -> None:
        """Raise StorageError unless the database is usable and has this version's schema."""
        migrate.check(self.database)
        self.database.check_files()

    def ribbon(self, document_id: int) -> Ribbon:
        """A document as a strip of its topics. Raises NotFoundError."""
        from shoal.charts.ribbon import read_ribbon

        with self.database.snapshot() as snapshot:
            return read_ribbon(snapshot, _checked_id(document_id), self.scorer)

    def reefs(self) -> dict[str, Any]:
        """The hierarchy of archipelagos, islands and reefs.

        A reef has its typical words and `n_chunks`, the number of chunks whose strongest reef it is.
        """
        from shoal.storage.statistics import chunks_by_reef

        with self.database.snapshot() as snapshot:
            n_chunks = chunks_by_reef(snapshot)
        return {
            "archipelagos": [{"id": arch.id, "name": arch.name} for arch in self.scorer.archipelagos],
            "islands": [
                {"id": island.id, "name": island.name, "archipelago_id": island.archipelago_id}
                for island in self.scorer.islands
            ],
            "reefs": [
                {
                    "id": reef.id,
                    "name": reef.name,
                    "island_id": reef.island_id,
                    "typical_words": list(reef.typical_words),
                    "n_chunks": n_chunks.get(reef.id, 0),
                }
                for reef in self.scorer.reefs
            ],
        }

    def vocabulary(self, *, q: str | None = None, limit: int = 50, offset: int = 0) -> WordPage:
        """Learned words with their reefs and evidence, most frequent first; with `q`, those that contain it.

        Raises QueryError for a negative limit or offset.
        """
        from shoal.learning.word_details import list_words
        from shoal.search.request import check_characters

        _check_page(limit, offset)
        check_characters("q", q or "")
        with self.database.snapshot() as snapshot:
            return list_words(snapshot, self.scorer, q=q, limit=limit, offset=offset)

    def learned_word(self, word: str) -> LearnedWord:
        """One learned word, in any case, in singular or plural.

        Raises NotFoundError, which says whether the dictionary has the word, or QueryError.
        """
        from shoal.learning.word_details import find_learned_word
        from shoal.search.request import check_characters

        with self.database.snapshot() as snapshot:
            return find_learned_word(snapshot, self.scorer, check_characters("word", word))

    def export(self, *, canonical: bool = False) -> Iterator[str]:
        """The whole library as lines of JSON. `canonical` omits ids, times and versions."""
        from shoal.storage.export import export

        return export(self.database, canonical=canonical)

    # Change

    def set_tags(self, document_id: int, tags: Sequence[str]) -> tuple[str, ...]:
        """Replace a document's tags; return them as stored. Raises NotFoundError, InvalidFieldError."""
        from shoal.formats.drafts import checked_tags
        from shoal.storage import document_writer

        checked = checked_tags(tags, self.settings)
        with self.database.write() as connection:
            document_writer.set_tags(connection, _checked_id(document_id), checked, now=timestamp())
        with self.database.snapshot() as snapshot:
            return document_queries.get_document(snapshot, document_id).tags

    def change_tags(
        self, document_id: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Add and remove tags of a document in one transaction; return the tags as stored.

        Raises NotFoundError, InvalidFieldError.
        """
        from shoal.formats.drafts import checked_tags
        from shoal.storage import document_writer

        with self.database.write() as connection:
            if not document_writer.exists(connection, _checked_id(document_id)):
                raise NotFoundError(f"there is no document {document_id}")
            _, _, before = document_writer.summary(connection, document_id)
            kept = [tag for tag in before if tag not in remove]
            after = checked_tags([*kept, *add], self.settings) if add else kept
            if set(after) != set(before):
                document_writer.set_tags(connection, document_id, after, now=timestamp())
            _, _, stored = document_writer.summary(connection, document_id)
        return stored

    def rescore(self, watch: Watcher | None = None) -> RescoreResult:
        """Learn again from all stored documents and update the scores of every chunk; chunks keep their ids.

        After an interruption, the next call resumes.
        """
        from shoal.jobs.rescoring import rescore

        return rescore(self.database, self._handlers, self.settings, watch or (lambda _: None))

    def delete_document(self, document_id: int) -> bool:
        """Delete a document and everything derived from it; False if there is none.

        The next learn or rescore forgets words that only this document supported.
        """
        from shoal.jobs.stages.discover import Discovery, delete_document, rows_to_withdraw

        if not 0 < document_id <= MAX_ID:
            return False
        rows = rows_to_withdraw(self.database, lambda: Discovery(self.scorer, self.settings), document_id)
        with self.database.write() as connection:
            found = delete_document(connection, document_id, rows)
        # In steps, so that other writers get their turn.
        while found and self.database.incremental_vacuum():
            pass
        return found


def _settings(
    given: Settings | None, db_path: str | Path | None, database_url: str | None, learning: bool | None
) -> Settings:
    if db_path is not None and database_url is not None:
        raise SettingsError("db_path and database_url mean the same; give only one of them")
    url = database_url if db_path is None else f"{SQLITE}{db_path}"
    if given is None:
        return Settings.from_environment(database_url=url, learning=learning)
    if url is not None and not url.startswith(SQLITE):
        raise SettingsError(f"database_url must begin with {SQLITE}")
    changed: dict[str, Any] = {"database_url": url, "learning": learning}
    return dataclasses.replace(given, **{name: value for name, value in changed.items() if value is not None})


def _checked_id(document_id: int) -> int:
    """The id, if a document can have it. Raises NotFoundError otherwise."""
    if not 0 < document_id <= MAX_ID:
        raise NotFoundError(f"there is no document {document_id}")
    return document_id


def _check_page(limit: int, offset: int) -> None:
    for field, value in (("limit", limit), ("offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_PAGE:
            raise QueryError(field, f"must be a whole number from 0 to {MAX_PAGE:,}")
