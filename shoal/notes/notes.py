"""`engine.notes`: the notes of each owner, isolated by construction.

Only `OwnerNotes` reads or writes notes, and it is bound to one owner: no method takes an owner, so none can
forget it. To one owner, the notes of another do not exist: their ids raise NotFoundError.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from shoal.declared.arguments import check_names
from shoal.declared.notes import (
    DEFAULT_TOP_K,
    MAX_SHOWN,
    MAX_TOP_K,
    NOTE_CHANGES,
    NOTE_LIST,
    NOTE_SEARCH,
    RECALL,
    RECALL_THRESHOLD,
    AsJson,
    NewNote,
    NoteChanges,
    NoteListArguments,
    NoteSearchArguments,
    RecallArguments,
)
from shoal.errors import InvalidFieldError, NoteError, QueryError, RestrictedError
from shoal.filters.tree import check_characters
from shoal.models.notes import (
    KINDS,
    AddedNote,
    CategoryCount,
    ExtractionStatus,
    Feedback,
    ForgottenNotes,
    HistoryEntry,
    Note,
    NoteExplanation,
    NotePage,
    NoteResponse,
    NoteStatus,
    Recall,
    UnitResponse,
)
from shoal.notes import adding, changing, drafts, forgetting, judging, remembering, searching
from shoal.notes.context import NoteContext
from shoal.notes.environment import Environment
from shoal.notes.index_cache import NoteIndexes
from shoal.notes.keyed_requests import KeyedRequest
from shoal.notes.merge_service import OwnerMerges
from shoal.notes.note_rows import NoteRows
from shoal.notes.note_vectors import GetVectors
from shoal.notes.prerequisites import Prerequisites, split_tags
from shoal.notes.ranking import NoteFilters
from shoal.notes.searching import NoteSearch
from shoal.notes.session_maintenance import Pruned, due_sessions, prune, requests_of
from shoal.notes.session_rows import SessionRows
from shoal.scorer import Scorer
from shoal.search.request import check_page
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.support.clock import timestamp

if TYPE_CHECKING:
    from shoal.notes.extraction import Extracted
    from shoal.notes.unit_search import NoteSearchSteps
    from shoal.search.request import SearchRequest
    from shoal.search.searcher import Searcher

EXTRACT = "extract"
"""Name of the lock that one process holds while it asks the chat endpoint."""
MAX_EVENT_CHARS = 50
"""Most notes of one `record_shown`."""
READING = frozenset(
    {"owner", "list", "get", "categories", "history", "feedbacks", "pinned", "search", "explain", "recall"}
)
"""Methods of `OwnerNotes` that write nothing and read nothing but the notes of their owner."""


class Notes:
    """`engine.notes`. `of` gives the notes of one owner; nothing else reads or writes notes."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        get_scorer: Callable[[], Scorer],
        get_vectors: GetVectors = lambda: None,
    ) -> None:
        """`get_scorer` loads lagoon's data on first use, and `get_vectors` opens the encoder."""
        indexes = NoteIndexes(settings.note_index_bytes)
        self._context = NoteContext(database, settings, get_scorer, indexes, get_vectors)

    def of(self, owner: str) -> OwnerNotes:
        """The notes of an owner, who need not have any yet. Raises NoteError for an invalid name."""
        return OwnerNotes(self._context, drafts.checked_owner(owner))

    def seen_by(self, owner: str | None) -> VisibleNotes:
        """What the bearer of a search token may read: the notes of the owner that it names, if any."""

        return VisibleNotes(self._context, owner)

    def embed(self) -> int:
        """Embed the active notes of all owners that lack a vector of the encoder, and return their number; 0
        without an encoder. Searches begin this in the background. Raises EncoderError."""
        return self._context.embedder.embed()

    def close(self) -> None:
        """End what goes on in the background."""
        self._context.embedder.close()

    def extract_waiting(
        self, *, any_time: bool = False, stopping: Callable[[], bool] = lambda: False
    ) -> list[Extracted]:
        """Extract lessons from the transcripts that wait, of all owners, with the chat endpoint.

        Does nothing while another process does it. `any_time`: also those that wait after a failure.
        `stopping` ends it after a transcript. Raises ChatEndpointError if no endpoint is configured.
        """
        from shoal.notes import extraction
        from shoal.notes.chat_endpoint import ChatEndpoint

        database = self._context.database
        with database.snapshot() as snapshot:
            if not due_sessions(snapshot, timestamp(), any_time=any_time, limit=1):
                return []
        with database.alone_if_free(EXTRACT) as is_free:
            if not is_free:
                return []
            with ChatEndpoint(self._context.settings, database) as endpoint:
                return extraction.extract_waiting(
                    self._context, endpoint.ask, any_time=any_time, stopping=stopping
                )

    def prune(self) -> Pruned:
        """Delete old events, sessions and idempotency keys, as the settings `hook_event_days`,
        `agent_session_days` and `job_retention` say."""
        return prune(self._context.database, self._context.settings)


class OwnerNotes(OwnerMerges):
    """The notes of one owner. Each method reads one snapshot or writes one transaction.

    Every method that takes the id of a note raises NotFoundError if the owner has none with it. NoteError and
    QueryError name the invalid field or argument.
    """

    @functools.cached_property
    def _threshold(self) -> float:
        return self._context.settings.label_threshold

    # Writing

    def add(self, text: str, **fields: Unpack[NewNote]) -> AddedNote:
        """Store a note; `shoal.models.notes.Note` describes the fields.

        If an active note has the same text, its `occurrence_count` goes up instead, and `is_duplicate` is
        set. `similar` warns of notes that say nearly the same, or the opposite. Raises NoteError.
        """
        given = {name: value for name, value in fields.items() if value is not None}
        draft = drafts.make_draft(self._context.settings, {"text": text, **given})
        return adding.add(self._context, self.owner, draft)

    def once(self, idempotency_key: str, request_hash: str) -> KeyedRequest:
        """Return a request that adds notes once, however often it is repeated with this key; `request_hash`
        (SHA-256, hex) says what it asks for. Keys are kept as long as jobs."""
        return KeyedRequest(self._context, self.owner, idempotency_key, request_hash)

    def add_many(
        self, items: Iterable[Mapping[str, Any] | NoteError], *, find_similar: bool = False
    ) -> list[AddedNote | NoteError]:
        """Store notes given as the arguments of `add`; one result for each, in order.

        An item that could not be read is a NoteError, which is its result.

        A bad item does not stop the others. The notes are stored in short transactions: after a crash, the
        first of them are there. Without `find_similar`, results have no `similar` notes, which takes a search
        for each.
        """
        return list(adding.add_many(self._context, self.owner, items, find_similar=find_similar))

    def remember(self, items: Iterable[Mapping[str, Any]]) -> list[AddedNote | NoteError]:
        """Store what an agent learned as notes of kind `knowledge`; one result for each item, in order.

        An item has `content` (or `text`), `topic`, `confidence` and, if wanted, `metadata`, `session_id` and
        `tags`. Refused with a NoteError: texts without two words that carry a meaning, a confidence of at
        most 0.8, topics without meaning, and what was forgotten (`forget`). An item that is at least 0.85
        similar to a stored note counts as another occurrence of that note, unless the two may contradict each
        other.
        """
        return remembering.remember(self._context, self.owner, items)

    def update(self, note_id: int, *, text: str | None = None, **changes: Unpack[NoteChanges]) -> Note:
        """Change the given fields of a note; None leaves a field as it is. Raises NoteError."""
        given = {"text": text, **changes}
        check_names("update", changes, NOTE_CHANGES)
        fields = {name: value for name, value in given.items() if value is not None}
        return changing.update(self._context, self.owner, note_id, fields)

    def deprecate(self, note_id: int, *, reason: str = "") -> Note:
        """Hide a note from searches and pins. `restore` takes this back, until a `purge`."""
        checked = drafts.checked_line("reason", reason, drafts.MAX_REASON_CHARS)
        return changing.deprecate(self._context, self.owner, note_id, checked)

    def forget(self, note_id: int) -> ForgottenNotes:
        """Delete a note for good, with those of the same text and those merged into them; keep a digest of
        the text, by which the text is refused from then on. Nothing takes this back. A repeated call gives
        the same result."""
        return forgetting.forget(self._context, self.owner, note_id)

    def restore(self, note_id: int) -> Note:
        """Make a deprecated note active again. Raises NoteStateError if an active note has its text."""
        return changing.restore(self._context, self.owner, note_id)

    def purge(self, *, before: datetime | None = None) -> int:
        """Delete notes that were deprecated before a time (default: all deprecated ones) for good; return
        their number."""
        if before is not None and not isinstance(before, datetime):
            raise NoteError("before", "must be a date and time")
        moment = datetime.max.replace(tzinfo=UTC) if before is None else before
        return changing.purge(self._context, self.owner, timestamp(moment))

    def categorize(self, note_id: int, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Note:
        """Add a note to categories, and remove it from others. Raises NoteError."""
        added = drafts.checked_categories(add, "add")
        removed = drafts.checked_categories(remove, "remove")
        return changing.categorize(self._context, self.owner, note_id, added, removed)

    def pin(
        self,
        note_id: int,
        *,
        tags: Iterable[str] | None = None,
        prerequisites: Mapping[str, Any] | Prerequisites | None = None,
    ) -> Note:
        """Show a note at the start of every session whose environment has all `tags` (default: those of the
        prerequisites, else none). `prerequisites` replace those of the note. Raises NoteStateError for a
        deprecated note."""
        gates, pin_tags = _split(prerequisites)
        chosen = drafts.checked_tags(pin_tags if tags is None else tags)
        return changing.pin(
            self._context, self.owner, note_id, chosen, None if prerequisites is None else gates
        )

    def unpin(self, note_id: int) -> Note:
        """Take the pin of a note back."""
        return changing.unpin(self._context, self.owner, note_id)

    def feedback(
        self,
        note_id: int,
        *,
        applicable: bool,
        reason: str = "",
        tag_scores: Mapping[str, float] | None = None,
        add_prerequisites: Mapping[str, Any] | Prerequisites | None = None,
        session_id: str = "",
        environment: Environment | Mapping[str, Any] | None = None,
    ) -> Note:
        """Judge whether a note was applicable: its relevance for the tags of the environment changes, and its
        pin may.

        `tag_scores` judge single tags, from -1 to 1. `add_prerequisites` adds to the gates of the note, and
        its `tags` to the tags.
        """
        if not isinstance(applicable, bool):
            raise NoteError("applicable", "must be true or false")
        if tag_scores is not None and not isinstance(tag_scores, Mapping):
            raise NoteError("tag_scores", "must be an object with numbers by tag")
        if tag_scores:
            drafts.checked_tags(list(tag_scores), "tag_scores")
        gates, tags = _split(add_prerequisites, "add_prerequisites")
        try:
            return judging.feedback(
                self._context,
                self.owner,
                note_id,
                is_applicable=applicable,
                reason=drafts.checked_line("reason", reason, drafts.MAX_REASON_CHARS),
                tag_scores=tag_scores,
                add_prerequisites=gates,
                add_tags=tags,
                session_id=_session(session_id),
                environment=_environment(environment),
            )
        except InvalidFieldError as error:
            raise NoteError(error.field, error.message) from error

    def record_shown(
        self,
        session_id: str,
        note_ids: Sequence[int],
        *,
        event: str,
        environment: Environment | Mapping[str, Any] | None = None,
        context: str = "",
        only_new: bool = False,
        seconds: float | None = None,
    ) -> Sequence[int]:
        """Write that a session was shown notes: their statistics, pins that follow from these, and the log of
        events. A search of this session leaves the notes out from now on.

        Return the ids of these notes; with `only_new`, without those that the session was shown before, so
        that of two callers at the same time only one shows a note. `seconds`: longest wait for other writers,
        by default half a minute.
        """
        session = _session(session_id)
        if not session:
            raise NoteError("session_id", "is empty")
        ids = list(dict.fromkeys(note_ids))
        if len(ids) > MAX_SHOWN:
            raise NoteError("note_ids", f"are {len(ids):,}; the limit is {MAX_SHOWN}")
        return judging.record_shown(
            self._context,
            self.owner,
            session,
            ids,
            event=drafts.checked_line("event", event, MAX_EVENT_CHARS),
            environment=_environment(environment),
            searched_for=drafts.cleaned("context", context),
            only_new=only_new,
            seconds=seconds,
        )

    def record_stop(
        self,
        session_id: str,
        *,
        environment: Environment | Mapping[str, Any] | None = None,
        transcript_path: str = "",
    ) -> None:
        """Write where a session works and, if it has a transcript, that there is more to extract from it."""
        session = _session(session_id)
        if not session:
            raise NoteError("session_id", "is empty")
        path = drafts.checked_path(transcript_path)
        judging.record_stop(self._context, self.owner, session, _environment(environment), path)

    def extract(
        self, transcript: str | Path, *, session_id: str = "", answer: str | None = None
    ) -> Extracted:
        """Extract lessons from what is new in a transcript of a coding agent (JSON Lines).

        Asks the chat endpoint; or, with the `answer` to `extraction_request`, stores the lessons of one part.
        `session_id`: default is the one that the transcript names. Raises ChatEndpointError, NoteError,
        OSError; what was extracted before stays.
        """
        from shoal.notes import extraction
        from shoal.notes.chat_endpoint import ChatEndpoint

        session = extraction.queue_transcript(self._context, self.owner, Path(transcript), session_id)
        run = functools.partial(
            extraction.extract_session, self._context, self.owner, session, only_own=False
        )
        with self._context.database.alone(EXTRACT):
            if answer is not None:
                return run(lambda _messages, _schema: answer, max_parts=1)
            with ChatEndpoint(self._context.settings, self._context.database) as endpoint:
                return run(endpoint.ask)

    def extraction_request(self, transcript: str | Path, *, session_id: str = "") -> dict[str, Any]:
        """The `messages` that ask for the lessons of the next part of a transcript, and the JSON `schema` of
        the answer, for a caller that answers them itself. Without enough new text, there are no messages.

        Raises NoteError, OSError.
        """
        from shoal.notes import extraction

        session = extraction.queue_transcript(self._context, self.owner, Path(transcript), session_id)
        messages = extraction.next_request(self._context, self.owner, session)
        return {"session_id": session, "messages": messages, "schema": extraction.SCHEMA}

    # Reading

    def shown(self, session_id: str) -> Sequence[int]:
        """The ids of the notes that a session was shown."""
        with self._context.database.snapshot() as snapshot:
            return SessionRows(snapshot, self.owner).shown(_session(session_id))

    def get(self, note_id: int) -> Note:
        """One note, deprecated or not."""
        with self._context.database.snapshot() as snapshot:
            return NoteRows(snapshot, self.owner).get(note_id, label_threshold=self._threshold)

    def list(self, *, limit: int = 50, offset: int = 0, **given: Unpack[NoteListArguments]) -> NotePage:
        """Notes by id; `category` includes its subcategories."""
        check_names("list", given, NOTE_LIST)
        check_page(limit, offset)
        category, kind, tag = (given.get(name) for name in ("category", "kind", "tag"))
        with self._context.database.snapshot() as snapshot:
            return NoteRows(snapshot, self.owner).list(
                label_threshold=self._threshold,
                category=None if category is None else drafts.checked_category(category),
                kind=None if kind is None else drafts.checked_choice("kind", kind, KINDS),
                tag=None if tag is None else drafts.checked_tag(tag),
                include_deprecated=given.get("include_deprecated", False),
                pinned=given.get("pinned"),
                limit=limit,
                offset=offset,
            )

    def categories(self, *, limit: int | None = None) -> Sequence[CategoryCount]:
        """The categories in use and those above them, by path, with their numbers of active notes; with a
        `limit`, the first of them."""
        with self._context.database.snapshot() as snapshot:
            return NoteRows(snapshot, self.owner).categories(limit)

    def history(self, note_id: int) -> Sequence[HistoryEntry]:
        """The changes of a note, oldest first."""
        with self._context.database.snapshot() as snapshot:
            rows = NoteRows(snapshot, self.owner)
            rows.check(note_id)
            return rows.history(note_id)

    def feedbacks(self, note_id: int) -> Sequence[Feedback]:
        """The judgements of a note, oldest first."""
        with self._context.database.snapshot() as snapshot:
            rows = NoteRows(snapshot, self.owner)
            rows.check(note_id)
            return rows.feedbacks(note_id)

    def status(self) -> NoteStatus:
        """How many notes the owner has, and how many transcripts wait."""
        with self._context.database.snapshot() as snapshot:
            rows = NoteRows(snapshot, self.owner)
            n_active, n_deprecated = rows.counts()
            return NoteStatus(
                owner=self.owner,
                n_active=n_active,
                n_deprecated=n_deprecated,
                n_pinned=rows.count_pinned(),
                n_categories=rows.count_categories(),
                by_kind=rows.count_by_kind(),
                extraction=ExtractionStatus(
                    **SessionRows(snapshot, self.owner).waiting(),
                    endpoint=bool(self._context.settings.llm_url and self._context.settings.llm_model),
                    requests_today=requests_of(snapshot, datetime.now(UTC).date().isoformat()),
                    daily_requests=self._context.settings.llm_daily_requests,
                ),
            )

    def pinned(self, environment: Environment | Mapping[str, Any]) -> Sequence[Note]:
        """The pinned notes that apply to an environment, by id: their pin counts there, their prerequisites
        hold, and feedback does not speak against them."""
        where = _environment(environment)
        assert where is not None, "given"
        with self._context.database.snapshot() as snapshot:
            notes = NoteRows(snapshot, self.owner).pinned(label_threshold=self._threshold)
        return [note for note in notes if judging.applies(note, where, self._context.settings)]

    # Search

    def search(self, query: str, **given: Unpack[NoteSearchArguments]) -> NoteResponse:
        """The active notes that match a query best, best first (`shoal.notes.ranking`).

        The environment decides which prerequisites hold; its tags weigh notes, and never exclude one that was
        not judged. `session_id` leaves out what that session was shown (`record_shown`). `threshold` is the
        least similarity to the query, 0 to 1. `include_scores` adds every step of each score. Raises
        QueryError.
        """
        request = self._search(query, **given)
        return searching.search(self._context, self.owner, request)

    def search_steps(self, query: str, **given: Unpack[NoteSearchArguments]) -> NoteSearchSteps:
        """What each step of a `search` contributes: how many notes match, how many each gate and filter
        leaves out, and how the best notes move. Raises QueryError."""
        from shoal.notes.unit_search import search_steps

        request = self._search(query, **given)
        return search_steps(self._context, self.owner, request)

    def search_with_passages(
        self,
        searcher: Searcher,
        request: SearchRequest,
        units: Iterable[str],
        *,
        trace_id: str | None = None,
    ) -> UnitResponse:
        """The passages and notes that match best, in one order; see `Engine.search_units`."""
        from shoal.notes.unit_search import checked_units, search_units

        return search_units(
            searcher, self._context, self.owner, request, checked_units(units), trace_id=trace_id
        )

    def explain(
        self, note_id: int, query: str, *, environment: Environment | Mapping[str, Any] | None = None
    ) -> NoteExplanation:
        """Why a note is shown for a query, step by step, or why not. Raises QueryError."""
        text = self._checked_query(query)
        return searching.explain(self._context, self.owner, note_id, text, _environment(environment))

    def recall(self, query: str, **given: Unpack[RecallArguments]) -> Recall:
        """The notes and turns that are at least `threshold` similar to a question, best first, also as text
        for a prompt. Raises QueryError."""
        check_names("recall", given, RECALL)
        max_chars = given.get("max_chars")
        if max_chars is not None:
            RECALL["max_chars"].kind.check("max_chars", max_chars)  # type: ignore[union-attr]
        context = given.get("context_turns")
        if context is None:
            context = int(max_chars is None)
        else:
            RECALL["context_turns"].kind.check("context_turns", context)  # type: ignore[union-attr]
        top_k, threshold = given.get("top_k"), given.get("threshold")
        request = NoteSearch(
            self._checked_query(query),
            _checked_top_k((DEFAULT_TOP_K if max_chars is None else MAX_TOP_K) if top_k is None else top_k),
            _time_filters(given),
            threshold=_checked_threshold(RECALL_THRESHOLD if threshold is None else threshold),
            context=context,
            max_chars=max_chars,
        )
        return searching.recall(self._context, self.owner, request)

    def _search(self, query: str, **given: Unpack[NoteSearchArguments]) -> NoteSearch:
        check_names("search", given, NOTE_SEARCH)
        category, kind, tags = given.get("category"), given.get("kind"), given.get("tags")
        filters = NoteFilters(
            environment=_environment(given.get("environment")),
            category=None if category is None else drafts.checked_category(category),
            kind=None if kind is None else drafts.checked_choice("kind", kind, KINDS),
            tags=() if tags is None else drafts.checked_tags(tags),
            turns=False,
        )
        return NoteSearch(
            self._checked_query(query),
            _checked_top_k(given.get("top_k", DEFAULT_TOP_K)),
            filters,
            session_id=_session(given.get("session_id")),
            threshold=_checked_threshold(given.get("threshold", 0.0)),
            include_scores=given.get("include_scores", False),
        )

    def _checked_query(self, query: object) -> str:
        limit = self._context.settings.max_query_chars
        if not isinstance(query, str):
            raise QueryError("query", "must be a string")
        if not query.strip():
            raise QueryError("query", "is empty")
        if len(query) > limit:
            raise QueryError("query", f"is {len(query):,} characters; the limit is {limit:,}")
        return check_characters("query", query)


def _time_filters(given: RecallArguments) -> NoteFilters:
    """What the days of a recall limit its results to."""

    def day(name: str) -> int | None:
        value = given.get(name)
        try:
            return None if value is None else date.fromisoformat(drafts.checked_day(name, value)).toordinal()
        except (NoteError, ValueError):
            raise QueryError(name, "must be a day in ISO 8601, such as 2026-01-31") from None

    after, before, on = day("after"), day("before"), day("on")
    if on is not None and (after is not None or before is not None):
        raise QueryError("on", "cannot be combined with before or after")
    return NoteFilters(
        first_day=after if on is None else on,
        last_day=on if before is None else before - 1,
        valid_at=day("valid_at"),
    )


def _checked_top_k(top_k: object) -> int:
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise QueryError("top_k", f"must be a whole number from 1 to {MAX_TOP_K}")
    return top_k


def _checked_threshold(threshold: object) -> float:
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    if not is_number or not 0 <= threshold <= 1:  # type: ignore[operator]
        raise QueryError("threshold", "must be a number from 0 to 1")
    return float(threshold)  # type: ignore[arg-type]


def _session(session_id: object) -> str:
    return drafts.checked_line("session_id", session_id or "", drafts.MAX_SESSION_CHARS)


def _environment(environment: AsJson | Mapping[str, Any] | None) -> Environment | None:
    if environment is None or isinstance(environment, Environment):
        return environment
    try:
        return Environment.from_json(environment)
    except InvalidFieldError as error:
        raise NoteError(error.field, error.message) from error


def _split(given: object, field: str = "prerequisites") -> tuple[Prerequisites, tuple[str, ...]]:
    """Gates and tags of prerequisites, which may have both."""
    if isinstance(given, Prerequisites):
        return given, ()
    try:
        return split_tags(given, field=field)
    except InvalidFieldError as error:
        raise NoteError(error.field, error.message) from error


class VisibleNotes:
    """`engine.notes` with a search token: the notes of the owner that it names, whatever documents its bearer
    sees. Anything that is not in `READING` raises RestrictedError."""

    def __init__(self, context: NoteContext, owner: str | None) -> None:
        self._context, self._owner = context, owner

    def of(self, owner: str) -> OwnerNotes:
        """The notes of an owner, to be read only. Learned words may come from documents that the bearer does
        not see, so queries do not know them. Raises RestrictedError for any owner but that of the token."""
        if owner != self._owner:
            raise RestrictedError("this search token does not name this owner of notes")
        return _ReadNotes(self._context.without_learned(), drafts.checked_owner(owner))

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(name)


class _ReadNotes(OwnerNotes):
    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in READING:
            _refuse(name)
        return super().__getattribute__(name)


def _refuse(name: str) -> NoReturn:
    raise RestrictedError(f"this is not for search tokens: {name} of notes")
