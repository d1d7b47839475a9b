"""The interface of the library: documents go in, explained results come out.

An engine is a database and a scorer. It may be shared between threads. Every method opens its own
transaction, so what it returns is one consistent state.

What a method needs is imported when it is called: a search from the command line should not wait for the code
that ingests.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from shoal.declared.documents import DocumentFields
from shoal.declared.filters import SearchFilters
from shoal.declared.search import RankingArguments, SearchArguments
from shoal.errors import FilterError, IndexBehindError, QueryError
from shoal.library.library import Library, make_settings
from shoal.models.documents import DocumentDraft, IngestResult, UrlDraft
from shoal.models.files import FileDraft
from shoal.models.jobs import OnConflict
from shoal.models.queries import Suggestions
from shoal.models.scores import NearestSentence
from shoal.models.search import Retrieval, SearchResponse
from shoal.scorer import Scorer
from shoal.settings import Settings
from shoal.storage import index_records, migrate

if TYPE_CHECKING:
    from shoal.encoders.encoder import Encoder, PairScorer
    from shoal.filters.visibility import Viewer
    from shoal.grounding.references import CitedPassage
    from shoal.jobs.in_process import IngestSession
    from shoal.jobs.jobs import Jobs
    from shoal.library.documents import Documents
    from shoal.library.pins import PinTable
    from shoal.library.visible_library import VisibleLibrary
    from shoal.library.vocabulary import Vocabulary
    from shoal.maintenance.maintenance import Maintenance
    from shoal.models.explanations import Explanation
    from shoal.models.notes import Similarity, UnitResponse
    from shoal.models.responses import Status
    from shoal.models.search import BatchAnswer, BatchResponse, LibraryFacets
    from shoal.models.verdicts import Verification
    from shoal.notes.notes import Notes, VisibleNotes
    from shoal.query_log.query_log import QueryLog
    from shoal.saved_searches.saved_searches import SavedSearches
    from shoal.search.request import SearchRequest
    from shoal.search.similar_chunks import SimilarChunk
    from shoal.sources.sources import Sources
    from shoal.storage.index_records import Lag


class Engine:
    """Ingest, search and explain; `with Engine(db_path="shoal.db") as engine:`.

    All else is in its parts: `documents`, `vocabulary`, `pins`, `notes`, `jobs` and `maintenance`.

    Creates or migrates the database at once; loads lagoon's data on first use. `settings` default to the
    environment; `db_path` or `database_url` (`sqlite:///PATH`) override them. `scorer` is any object with
    lagoon's public methods; without it, the data in `lagoon_data_dir` is loaded (None: the packaged data).
    `encoder` is any `shoal.encoders.encoder.Encoder`; without it, that of the settings, if any.
    `pair_scorer` is any `PairScorer` there, a cross-encoder that reranks in place of the encoder.

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
        encoder: Encoder | None = None,
        pair_scorer: PairScorer | None = None,
        shared: Engine | None = None,
    ) -> None:
        """`shared`: see `sibling`."""
        self.settings = make_settings(settings, db_path, database_url, learning)
        self._library: Library = Library(
            self.settings,
            scorer,
            lagoon_data_dir,
            encoder,
            pair_scorer,
            None if shared is None else shared._library,
        )
        self.database = self._library.database

    def sibling(self, settings: Settings) -> Engine:
        """An engine of another library, which shares this one's scorer, encoder and reading time limit."""
        engine = Engine(settings=settings, shared=self)
        engine.database.read_timeout = self.database.read_timeout
        return engine

    def seen_by(self, viewer: Viewer) -> Engine:
        """This library as the bearer of a search token sees it: searches, suggestions, explanations, facets
        and documents, of what the viewer may see, and the notes of its owner, to be read. Anything else
        raises RestrictedError."""
        from shoal.library.visible_library import VisibleLibrary

        return _VisibleEngine(self, VisibleLibrary(self._library, viewer))

    @functools.cached_property
    def documents(self) -> Documents:
        """The stored documents and their chunks: list, read, tag, replace, delete."""
        from shoal.library.documents import Documents

        return Documents(self._library)

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """The learned words, the reefs, and the chunks of both."""
        from shoal.library.vocabulary import Vocabulary

        return Vocabulary(self._library)

    @functools.cached_property
    def pins(self) -> PinTable:
        """What comes first for a query, or is hidden from its results: list, add, replace, delete."""
        from shoal.library.pins import PinTable

        return PinTable(self._library)

    @functools.cached_property
    def jobs(self) -> Jobs:
        """The jobs of the service: submit, look up, wait, cancel, retry."""
        from shoal.jobs.jobs import Jobs

        return Jobs(self.database, self.settings, lambda: self._library.scorer.data_checksum)

    @functools.cached_property
    def notes(self) -> Notes:
        """Notes: `notes.of(owner)` adds, finds and judges those of one owner."""
        from shoal.notes.notes import Notes

        library = self._library
        return Notes(self.database, self.settings, lambda: library.scorer, lambda: library.text_vectors)

    @functools.cached_property
    def saved_searches(self) -> SavedSearches:
        """Searches that report new matches by webhook: create, change, test, and see what was sent."""
        from shoal.saved_searches.saved_searches import SavedSearches

        return SavedSearches(self.database, self.settings, lambda: self._library.searcher)

    @functools.cached_property
    def sources(self) -> Sources:
        """Places that the library follows, such as folders and buckets: add, run, change, remove, preview."""
        from shoal.sources.sources import Sources

        return Sources(self.database, self.settings, self._library.run_job)

    @functools.cached_property
    def queries(self) -> QueryLog:
        """The query log (`SHOAL_QUERY_LOG`): queries, clicks, and judged queries made from both."""
        from shoal.query_log.query_log import QueryLog

        return QueryLog(self.database, self.settings)

    @functools.cached_property
    def maintenance(self) -> Maintenance:
        """Rescore, export, import, sync with a folder, evaluate, check and back up the library."""
        from shoal.maintenance.maintenance import Maintenance

        return Maintenance(self._library, self.search)

    @property
    def scorer(self) -> Scorer:
        """The scorer, loaded on first use. Raises lagoon.LagoonError if its data cannot be used."""
        return self._library.scorer

    @property
    def uses_vectors(self) -> bool:
        """Whether searches may use vectors: there is an encoder, and documents are embedded."""
        return self._library.query_vectors is not None

    def start(self) -> None:
        """Load what the first search needs, so that a service is ready before it answers. A second call is
        cheap."""
        _ = self.scorer
        self._library.index.load()
        # Titles and headings of a large library take seconds; suggestions wait for them, searches do not.
        threading.Thread(target=self._library.load_suggestions, name="suggestions", daemon=True).start()

    def limit_reads(self, seconds: float) -> None:
        """Stop reads that take longer than `seconds`, with ReadTimeoutError; 0 removes the limit."""
        self.database.read_timeout = self._library.read_database.read_timeout = seconds or None

    def follow(self, *, listen: bool = True) -> None:
        """Keep the index of this machine current from now on, in a thread, if writers of the library do not;
        a second call does nothing. Without `listen` it looks for changes once a second."""
        if self._library.follower is not None:
            self._library.follower.start(listen=listen)

    def index_lag(self) -> Lag | None:
        """Return how far the index of this machine is behind the library; None if it never is, because
        writers keep it current. Raises StorageError."""
        follower = self._library.follower
        return None if follower is None else follower.measure()

    def last_index_lag(self) -> Lag | None:
        """Return the lag as it was measured last, without reading the database; None as `index_lag`."""
        follower = self._library.follower
        return None if follower is None else follower.lag

    def check_index(self) -> None:
        """Raise IndexBehindError if the index is behind by more than SHOAL_INDEX_LAG_SECONDS."""
        if self.settings.index_lag_seconds and self._library.follower is not None:
            self._library.follower.check(self.settings.index_lag_seconds)

    def written(self) -> str:
        """Return a token of all that was written until now, for `await_written`. Raises StorageError."""
        return index_records.token_of(self.database)

    def await_written(self, token: str) -> None:
        """Wait until searches see what a token stands for.

        Raises InvalidFieldError, and ReplicaBehindError or IndexBehindError after two seconds.
        """
        from shoal.library.state import await_written

        await_written(self._library, token)

    def _log_query(self, request: SearchRequest, response: SearchResponse | UnitResponse) -> None:
        if self.settings.query_log != "off":
            self.queries.record(request, response)

    def close(self) -> None:
        """Close the database connections."""
        if self.settings.query_log != "off":
            self.queries.close()
        if "notes" in self.__dict__:
            self.notes.close()
        self._library.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Ingest

    def ingest(self, *, content: str | None = None, **fields: Unpack[DocumentFields]) -> IngestResult:
        """Store one document. If its content is stored already, merge the tags and set `duplicate`.

        `DocumentFields` describes the fields. Without `content`, the text is that of `chunks`, passages that
        are cut already. Raises DocumentError with what is wrong with the document;
        nothing is stored then."""
        from shoal.formats.drafts import make_draft

        return self._take_one(make_draft(content=content, settings=self.settings, **fields))

    def ingest_file(self, path: str | Path, **fields: Unpack[DocumentFields]) -> IngestResult:
        """Store the text of a file of any supported kind like `ingest`.

        Raises NotFoundError if there is no such file.
        """
        from shoal.conversion.converted import draft_of_file

        return self._take_one(draft_of_file(path, settings=self.settings, **fields))

    def ingest_url(self, url: str, **fields: Unpack[DocumentFields]) -> IngestResult:
        """Fetch a page or file (`SHOAL_FETCH_URLS`) and store its text; it replaces what was fetched before.

        `fields` are title, tags and metadata. If the server says that nothing has changed, `duplicate` is
        set. Raises FetchError or another DocumentError.
        """
        from shoal.conversion.converted import draft_of_url

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

    def delete_document(self, doc_id: int) -> bool:
        """Delete a document and everything derived from it; False if there is none. The same as
        `documents.delete`."""
        return self.documents.delete(doc_id)

    # Search

    def search(
        self, query: str, *, trace_id: str | None = None, **arguments: Unpack[SearchArguments]
    ) -> SearchResponse:
        """The chunks that match the query best, best first, each with its reasons.

        A query may hold "exact phrases", -excluded words and title:words; no text is an error.
        `SearchArguments` describes the other arguments. `trace_id` identifies the request in the response and
        in the audit log (`SHOAL_AUDIT`).

        Raises QueryError, which names the argument, and EncoderError if the encoder fails in mode `dense`.
        """
        from shoal.search.request import make_request

        request = make_request(query, settings=self.settings, **arguments)
        response = self._library.searcher.search(request, trace_id)
        self._log_query(request, response)
        return response

    def search_many(
        self,
        searches: Iterable[str | Mapping[str, Any]],
        *,
        fused: bool = False,
        trace_id: str | None = None,
        on_answer: Callable[[BatchAnswer], None] | None = None,
        **of_ranking: Unpack[RankingArguments],
    ) -> BatchResponse:
        """The answers to up to 100 searches, from one snapshot of the library.

        A search is a query, or an object with `query` and other arguments of `search`. Each answer is that of
        `search`; a bad search has its error as answer, and the others are answered. Together they ask for at
        most 2,000 results. The time limit is that of a search, times the number of searches, but at most 10.

        `fused=True` makes one ranking of the results, by reciprocal ranks (`shoal.search.batch`): for
        the sub-questions of one question. `of_ranking` are its arguments; each search
        contributes as many results as its own `top_k`. `on_answer` gets each answer as soon as it is
        complete; it runs within the snapshot, so it must not wait.

        Raises QueryError for an invalid argument of the batch itself.
        """
        from shoal.search.batch import answer_batch, make_batch_request

        batch = make_batch_request(searches, settings=self.settings, fused=fused, **of_ranking)
        return answer_batch(self._library.searcher, batch, on_answer or (lambda _: None), trace_id)

    @property
    def can_rerank(self) -> bool:
        """Whether an encoder or a cross-encoder is configured."""
        return self._library.pair_scorer is not None or self._library.encoder is not None

    def facets(
        self,
        facets: Sequence[str | Mapping[str, Any]],
        *,
        facet_limit: int | None = None,
        filters: SearchFilters | Mapping[str, Any] | None = None,
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field
    ) -> LibraryFacets:
        """How many documents and passages of the library have each value of some fields; docs/facets.md.

        A facet is the name of a field, with an interval for a histogram: `tags`, `author.name`,
        `created:month` or `price:10`; or an object with `field`, `interval` and `limit`. `facet_limit` is the
        number of values of facets without their own limit, 1 to 1,000; default 10, and 1,000 for a histogram.

        `filters` and `filter` are as in `search`. A condition on a facet's own field does not apply to its
        counts. Raises QueryError.
        """
        from shoal.facets.requests import make_facets
        from shoal.filters.parsing import make_filter
        from shoal.search.request import make_filters

        return self._library.searcher.facets(
            make_facets(facets, limit=facet_limit), make_filters(filters, self.settings), make_filter(filter)
        )

    def suggest(self, q: str, *, limit: int = 8) -> Suggestions:
        """Queries that may be meant by the beginning of one, best first: titles, headings, learned words,
        compounds, frequent queries if they are logged, and the query with its last word completed.

        Raises QueryError for more than 200 characters, or a limit outside 1 to 20.
        """
        with self._library.index.searching(self._library.read_database) as (snapshot, library):
            return self._library.suggester.suggest(snapshot, library, q, limit)

    def search_units(
        self,
        query: str,
        *,
        units: Sequence[str] = ("chunk", "note"),
        owner: str = "default",
        trace_id: str | None = None,
        **search: Unpack[SearchArguments],
    ) -> UnitResponse:
        """The passages and the owner's notes that match a query best, in one order.

        A note is scored as a document of one passage: by the same formulas, with the statistics of all
        passages and the owner's active notes together, and relative to the best of both. So the scores of
        both kinds can be compared. `units` may be one of them; that changes no score.

        `**search` takes the arguments of `search`. Of its filters, only `tags` can be met by notes; with
        another filter, or a `filter`, no note is found. Nothing is reranked, sorted, boosted or pinned.
        Raises QueryError and NoteError.
        """
        from shoal.notes.unit_search import make_unit_request

        request = make_unit_request(query, self.settings, search)
        response = self.notes.of(owner).search_with_passages(
            self._library.searcher, request, units, trace_id=trace_id
        )
        self._log_query(request, response)
        return response

    def explain(
        self,
        query: str,
        *,
        document_id: int | None = None,
        chunk_id: int | None = None,
        **search: Unpack[SearchArguments],
    ) -> Explanation:
        """The analysis of a query, word by word; with a document or chunk, its rank and what excluded it.

        `**search` takes the arguments of `search`. Raises QueryError, NotFoundError.
        """
        from shoal.search.explanation import explain
        from shoal.search.request import check_id, make_request

        request = make_request(query, settings=self.settings, **search)
        return explain(
            self._library.searcher,
            request,
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
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field
        trace_id: str | None = None,
    ) -> Retrieval:
        """The passages of `search` as plain content with metadata and a similarity, their `relevance`.

        At most 50, each at least `threshold` similar. `filters` are values of the documents' metadata;
        `source` is what a result shows as its source: the path of the document, without one `source` of its
        metadata or its title. Pinned passages come first, then the most similar. `filter` is as in `search`.
        Raises QueryError.
        """
        from shoal.search.retrieval import as_retrieval, own_name, search_arguments

        arguments = search_arguments(top_k, threshold, filters, filter)
        try:
            response = self.search(query, trace_id=trace_id, **arguments)
        except FilterError:
            raise
        except QueryError as error:
            raise QueryError(own_name(error.field), str(error)) from None
        return as_retrieval(query, response.results, threshold)

    def search_and_explain(
        self,
        query: str,
        *,
        trace_id: str | None = None,
        nearest_sentences: bool = True,
        **search: Unpack[SearchArguments],
    ) -> tuple[SearchResponse, Explanation]:
        """The results of `search` and `explain` for one query, analyzed once, from one snapshot of the
        library.

        `**search` takes the arguments of `search`. Without `nearest_sentences`, the encoder does not read the
        sentences of the results; `nearest_sentences` of the engine has them later. Raises QueryError.
        """
        from shoal.search.explanation import search_and_explain
        from shoal.search.request import make_request

        request = make_request(query, settings=self.settings, **search)
        response, explanation = search_and_explain(
            self._library.searcher, request, trace_id=trace_id, with_sentences=nearest_sentences
        )
        self._log_query(request, response)
        return response, explanation

    def nearest_sentences(
        self, query: str, chunk_ids: Sequence[int]
    ) -> dict[int, tuple[NearestSentence, str]]:
        """The sentence of each chunk that is nearest to a query in meaning, and its text, by chunk id, while
        the encoder has time; unknown chunks have none.

        Raises QueryError for an invalid query or without vectors, and EncoderError.
        """
        from shoal.search.nearest_sentences import sentences_of_chunks

        return sentences_of_chunks(
            self.database, self.settings, self._library.query_vectors, query, chunk_ids
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
        return verify(self._library.read_database, request, self._library.index, trace_id=trace_id)

    def cited_passages(
        self, citations: Sequence[str], *, references: Sequence[Mapping[str, Any]] | None = None
    ) -> Mapping[str, CitedPassage]:
        """The passages that the `references` of verdicts stand for, to show them; `references` as in
        `verify`. Citations of what may not be cited are missing. Raises QueryError."""
        from shoal.grounding.references import read_cited

        return read_cited(self.database, citations, references)

    def similar(
        self,
        chunk_id: int,
        *,
        top_k: int = 5,
        filters: SearchFilters | Mapping[str, Any] | None = None,
        filter: str | Mapping[str, Any] | None = None,  # noqa: A002 - the name of the field
    ) -> Sequence[SimilarChunk]:
        """Chunks of other documents with a similar profile, at most one per document, most similar first.

        `filters` and `filter` are as in `search`. Raises NotFoundError and QueryError.
        """
        from shoal.filters.parsing import make_filter
        from shoal.search.filters import compile_filters
        from shoal.search.request import check_page, make_filters
        from shoal.search.similar_chunks import similar
        from shoal.storage.document_queries import checked_id

        checked_id("chunk", chunk_id)
        check_page(top_k, 0)
        return similar(
            self._library.searcher,
            chunk_id,
            top_k=top_k,
            filters=compile_filters(
                make_filters(filters, self.settings),
                self.scorer,
                self.settings.label_threshold,
                make_filter(filter),
            ),
        )

    def similarity(self, a: str, b: str) -> Similarity:
        """How similar two short texts are, from 0 to 1, and whether they may contradict each other.

        From 0.85 on they say the same, unless `is_opposite`; the order of the texts does not matter. Raises
        QueryError for a text that is empty or longer than 20,000 characters.
        """
        from shoal.learning.scorers import scorer_for
        from shoal.notes.note_vectors import with_vectors
        from shoal.notes.similarity import TextFeatures, check_text, similarity

        texts = check_text("a", a), check_text("b", b)
        with self.database.snapshot() as snapshot:
            features = [TextFeatures.of(scorer_for(text, snapshot, self.scorer), text) for text in texts]
        return similarity(*with_vectors(features, texts, lambda: self._library.text_vectors))

    # State

    def status(self, owners: Collection[str] | None = None) -> Status:
        """Counts, versions and sizes of the library. `owners`: only notes of these owners count, and no jobs
        that compare notes of others."""
        from shoal.library.state import status_of

        return status_of(self._library, owners)

    def size(self) -> tuple[int, int]:
        """Number of documents and of chunks."""
        from shoal.library.state import size_of

        return size_of(self._library)

    def count_embedded(self) -> tuple[int, int] | None:
        """Number of chunks with a vector and of all chunks; None if the library has no vectors and
        `SHOAL_EMBED` is not set."""
        from shoal.library.state import count_embedded

        return count_embedded(self._library)

    def check(self) -> None:
        """Raise StorageError unless the database is usable and has this version's schema."""
        migrate.check(self.database)
        self.database.check_usable()


@contextmanager
def _uncounted() -> Iterator[None]:
    """Do not say how many documents an index lacks."""
    try:
        yield
    except IndexBehindError as error:
        raise IndexBehindError(None, error.seconds) from None


class _VisibleEngine(Engine):
    """What a viewer sees of a library."""

    def __init__(self, whole: Engine, library: VisibleLibrary) -> None:
        self.settings = whole.settings
        self._library = library  # type: ignore[assignment]
        self._visible = library
        self._whole = whole
        # What says nothing of documents.
        self._log_query = whole._log_query  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        # Engines have a database, which has everything.
        return getattr(self._visible, name)

    @functools.cached_property
    def documents(self) -> Documents:
        from shoal.library.visible_library import VisibleDocuments

        return VisibleDocuments(self._visible)

    @functools.cached_property
    def notes(self) -> VisibleNotes:  # type: ignore[override]
        return self._whole.notes.seen_by(self._visible.index.viewer.owner)

    def check_index(self) -> None:
        with _uncounted():
            self._whole.check_index()

    def await_written(self, token: str) -> None:
        with _uncounted():
            self._whole.await_written(token)

    def suggest(self, q: str, *, limit: int = 8) -> Suggestions:
        return self._visible.suggest(q, limit)

    def search_units(self, *_: Any, **__: Any) -> NoReturn:
        from shoal.library.visible_library import refuse

        refuse("a search of passages and notes together (units)")

    def seen_by(self, viewer: Viewer) -> NoReturn:
        from shoal.library.visible_library import refuse

        refuse("what a token sees")
