"""The interface of the library: documents go in, explained results come out.

An engine is a database and a scorer. It may be shared between threads. Every method opens its own
transaction, so what it returns is one consistent state.

What a method needs is imported when it is called: a search from the command line should not wait for the code
that ingests.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from shoal.errors import QueryError
from shoal.file_models import FileDraft
from shoal.library.library import Library, make_settings
from shoal.models import (
    DocumentDraft,
    DocumentFields,
    IngestResult,
    OnConflict,
    SearchFilters,
    SearchMode,
    SearchResponse,
    UrlDraft,
)
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import migrate

if TYPE_CHECKING:
    from shoal.grounding.verdicts import Verification
    from shoal.jobs.ingestion import IngestSession
    from shoal.jobs.service import Jobs
    from shoal.library.documents import Documents
    from shoal.library.words_and_reefs import Vocabulary
    from shoal.maintenance.service import Maintenance
    from shoal.note_models import UnitResponse
    from shoal.notes.service import Notes
    from shoal.notes.similarity import Similarity
    from shoal.search.audit import AuditLog
    from shoal.search.explain.explanation import Explanation
    from shoal.search.retrieval import Retrieval
    from shoal.search.similar_chunks import SimilarChunk


class Engine:
    """Ingest, search and explain; `with Engine(db_path="shoal.db") as engine:`.

    All else is in its parts: `documents`, `vocabulary`, `notes`, `jobs` and `maintenance`.

    Creates or migrates the database at once; loads lagoon's data on first use. `settings` default to the
    environment; `db_path` or `database_url` (`sqlite:///PATH`) override them. `scorer` is any object with
    lagoon's public methods; without it, the data in `lagoon_data_dir` is loaded (None: the packaged data).

    Raises SettingsError, SchemaError (a newer or foreign database) or DatabaseUnavailableError.
    """

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
        self.settings = make_settings(settings, db_path, database_url, learning)
        self._library = Library(self.settings, scorer, lagoon_data_dir)
        self.database = self._library.database

    @functools.cached_property
    def documents(self) -> Documents:
        """The stored documents and their chunks: list, read, tag, replace, delete."""
        from shoal.library.documents import Documents

        return Documents(self._library)

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """The learned words, the reefs, and the chunks of both."""
        from shoal.library.words_and_reefs import Vocabulary

        return Vocabulary(self._library)

    @functools.cached_property
    def jobs(self) -> Jobs:
        """The jobs of the service: submit, look up, wait, cancel, retry."""
        from shoal.jobs.service import Jobs

        return Jobs(self.database, self.settings, lambda: self._library.scorer.data_checksum)

    @functools.cached_property
    def notes(self) -> Notes:
        """Notes: `notes.of(owner)` adds, finds and judges those of one owner."""
        from shoal.notes.service import Notes

        return Notes(self.database, self.settings, lambda: self._library.scorer)

    @functools.cached_property
    def maintenance(self) -> Maintenance:
        """Rescore, export, import, sync with a folder, evaluate, check and back up the library."""
        from shoal.maintenance.service import Maintenance

        return Maintenance(self._library, self.search)

    @functools.cached_property
    def _audit(self) -> AuditLog | None:
        if self.settings.audit == "off":
            return None
        from shoal.search.audit import AuditLog

        return AuditLog.of(self.settings)

    @property
    def scorer(self) -> Scorer:
        """The scorer, loaded on first use. Raises lagoon.LagoonError if its data cannot be used."""
        return self._library.scorer

    def start(self) -> None:
        """Load what the first search needs, so that a service is ready before it answers. A second call is
        cheap."""
        _ = self.scorer
        self._library.index.load()

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

    def ingest(self, *, content: str, **fields: Unpack[DocumentFields]) -> IngestResult:
        """Store one document. If its content is stored already, merge the tags and set `duplicate`.

        `DocumentFields` describes the fields. Raises DocumentError with what is wrong with the document;
        nothing is stored then."""
        from shoal.formats.drafts import make_draft

        return self._take_one(make_draft(content=content, settings=self.settings, **fields))

    def ingest_file(self, path: str | Path, **fields: Unpack[DocumentFields]) -> IngestResult:
        """Store the text of a file of any supported kind like `ingest`.

        Raises NotFoundError if there is no such file.
        """
        from shoal.conversion.drafts import draft_of_file

        return self._take_one(draft_of_file(path, settings=self.settings, **fields))

    def ingest_url(self, url: str, **fields: Unpack[DocumentFields]) -> IngestResult:
        """Fetch a page or file (`SHOAL_FETCH_URLS`) and store its text; it replaces what was fetched before.

        `fields` are title, tags and metadata. If the server says that nothing has changed, `duplicate` is
        set. Raises FetchError or another DocumentError.
        """
        from shoal.conversion.drafts import draft_of_url

        return self._take_one(draft_of_url(url, settings=self.settings, **fields))

    def ingest_many(
        self,
        documents: Iterable[Mapping[str, Any]],
        *,
        on_conflict: OnConflict | str = OnConflict.keep,
    ) -> list[IngestResult]:
        """Store documents given as the arguments of `ingest`; one result for each, in order.

        With `on_conflict=replace`, a document replaces the content of the stored one with its `source_path`.
        A bad document does not raise: its result has `error`. The library learns from all documents together,
        in waves of `wave_bytes`."""
        with self.ingest_session(on_conflict) as ingest_session:
            for document in documents:
                ingest_session.add(document)
            return ingest_session.finish()

    def ingest_session(self, on_conflict: OnConflict | str = OnConflict.keep) -> IngestSession:
        """A session that takes documents one by one and reports progress; for `on_conflict` see
        `ingest_many`."""
        return self._library.ingest_session(OnConflict(on_conflict))

    def _take_one(self, draft: DocumentDraft | FileDraft | UrlDraft) -> IngestResult:
        with self.ingest_session() as ingest_session:
            ingest_session.add_draft(draft)
            return ingest_session.finish_one()

    # Search

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
        min_relevance: float = 0.0,
        expand: str = "none",
        trace_id: str | None = None,
    ) -> SearchResponse:
        """The chunks that match the query best, best first, each with its reasons.

        `mode` is `hybrid` (words and reefs), `lexical` or `reef`. A query may hold "exact phrases", -excluded
        words and title:words; no text is an error. A `preset` (`balanced`, `precise`, `conceptual`,
        `job_matching`, `corpus`, or one that `SHOAL_PRESETS` defines) or
        `weights` for `lexical`, `reef` and `field_boost` set the share of each signal; `fusion` is `blend` or
        `rrf`.

        `tags` and `min_confidence` are shorthands for the filters of the same name; giving both is an error.
        `max_per_document=None` removes that limit. `include_scores` fills `shared_reefs`; `context` adds that
        many neighbours before and after each result. `expand="time"` adds to each result of a recording its
        `evidence`: what is said and seen around it. `min_relevance` removes less relevant results from the
        page; `offset` counts them. `trace_id` identifies the request in the response and in
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
            min_relevance=min_relevance,
            expand=expand,
        )
        return answer(
            self.database,
            self.scorer,
            self.settings,
            request,
            self._library.index,
            trace_id=trace_id,
            audit=self._audit,
        )

    def search_units(
        self,
        query: str,
        *,
        units: Sequence[str] = ("chunk", "note"),
        owner: str = "default",
        trace_id: str | None = None,
        **search: Any,
    ) -> UnitResponse:
        """The passages and the owner's notes that match a query best, in one order.

        A note is scored as a document of one passage: by the same formulas, with the statistics of all
        passages and the owner's active notes together, and relative to the best of both. So the scores of
        both kinds can be compared. `units` may be one of them; that changes no score.

        `**search` takes the arguments of `search`. Of its filters, only `tags` can be met by notes; with
        another filter, no note is found. Raises QueryError and NoteError.
        """
        from shoal.search.request import make_request

        request = make_request(query, settings=self.settings, **search)
        notes = self.notes.of(owner)
        return notes.search_with_passages(
            request, units, self._library.index, trace_id=trace_id, audit=self._audit
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
            self._library.index,
            document_id=check_id("document_id", document_id),
            chunk_id=check_id("chunk_id", chunk_id),
        )

    def retrieve(
        self,
        query: str,
        *,
        top_k: int = 5,
        threshold: float = 0.0,
        filters: Mapping[str, Any] | None = None,
        trace_id: str | None = None,
    ) -> Retrieval:
        """The passages of `search` as plain content with metadata and a similarity, their `relevance`.

        At most 50, each at least `threshold` similar. `filters` are values of the documents' metadata;
        `source` is their source path. Raises QueryError.
        """
        from shoal.search.retrieval import as_retrieval, own_name, search_arguments

        arguments = search_arguments(top_k, threshold, filters)
        try:
            response = self.search(query, trace_id=trace_id, **arguments)
        except QueryError as error:
            raise QueryError(own_name(error.field), str(error)) from None
        return as_retrieval(query, response.results)

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
            self._library.index,
            trace_id=trace_id,
            audit=self._audit,
        )

    def verify(
        self,
        text: str | None = None,
        *,
        statements: Sequence[str | Mapping[str, Any]] | None = None,
        references: Sequence[Mapping[str, Any]] | None = None,
        format: str = "markdown",  # noqa: A002 - the name of the field
        min_coverage: float = 0.7,
        trace_id: str | None = None,
    ) -> Verification:
        """Check that every claim of a text is supported by the passages that it cites.

        Give a `text` with citations in brackets, or `statements`, each with the `references` that it cites:
        `1` for a label, `chunk 12`, `document 3` or `document 3:120-480` for characters of a document. A text
        has them as `[1]` or `[chunk 12]`. `references` are the passages that may be cited, each with a
        `chunk_id`, or a `document_id` and perhaps `start_char` and `end_char`; its `label` is its position,
        from 1, unless it has one. Without `references`, every chunk and document of the library may be cited.
        `min_coverage` is the share of a statement's words, 0 to 1, that the passages must have.

        Raises QueryError, which names the argument.
        """
        from shoal.grounding.verification import make_verify_request, verify

        request = make_verify_request(
            text, statements=statements, references=references, doc_format=format, min_coverage=min_coverage
        )
        return verify(self.database, request, self._library.index, trace_id=trace_id)

    def similar(self, chunk_id: int, *, top_k: int = 5) -> Sequence[SimilarChunk]:
        """Chunks of other documents with a similar profile, at most one per document, most similar first.

        Raises NotFoundError.
        """
        from shoal.search.request import check_page
        from shoal.search.similar_chunks import similar
        from shoal.storage.document_lookup import checked_id

        checked_id("chunk", chunk_id)
        check_page(top_k, 0)
        return similar(
            self.database,
            self._library.index,
            chunk_id,
            top_k=top_k,
            label_threshold=self.settings.label_threshold,
        )

    def similarity(self, a: str, b: str) -> Similarity:
        """How similar two short texts are, from 0 to 1, and whether they may contradict each other.

        From 0.85 on they say the same, unless `is_opposite`; the order of the texts does not matter. Raises
        QueryError for a text that is empty or longer than 20,000 characters.
        """
        from shoal.learning.scorers import scorer_for
        from shoal.notes.similarity import TextFeatures, check_text, similarity

        texts = check_text("a", a), check_text("b", b)
        with self.database.snapshot() as snapshot:
            features = [TextFeatures.of(scorer_for(text, snapshot, self.scorer), text) for text in texts]
        return similarity(*features)

    # State

    def status(self) -> dict[str, Any]:
        """Counts, versions and sizes of the library.

        Keys: `status`, `n_documents`, `n_chunks`, `n_notes` (active), `lagoon_version`, `lagoon_n_reefs`,
        `lagoon_checksum`,
        `vocabulary_version`, `n_custom_words`, `n_stale_chunks`, `content_bytes`, `jobs` (by status),
        `workers` (with a recent heartbeat), `schema`, `db_path`, `db_bytes`, `index_bytes` and `presets`
        (weights by name)."""
        from shoal.storage.statistics import get_counts, size_on_disk
        from shoal.support.presets import all_presets

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
            "index_bytes": self._library.index.size(),
            "presets": {
                name: preset.weights._asdict() for name, preset in all_presets(self.settings.presets).items()
            },
        }

    def check(self) -> None:
        """Raise StorageError unless the database is usable and has this version's schema."""
        migrate.check(self.database)
        self.database.check_files()
