"""The tools for notes: short lessons of one owner, and the memory of users.

Parameters are those of the documents that the tools come from; only the name of a note's id depends on the
prefix of the tools.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import anyio.from_thread
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from shoal.declared.arguments import MAX_ID, MAX_PAGE
from shoal.declared.notes import DEFAULT_TOP_K, RECALL_THRESHOLD
from shoal.declared.operations.notes import AgentOperations
from shoal.errors import NoteError
from shoal.mcp.backend import Backend
from shoal.mcp.results import (
    DEFAULT_TOKENS,
    NOTICE,
    AddedNoteView,
    Budget,
    CategoryView,
    ChangedMemory,
    ChangedNote,
    DecidedProposal,
    FoundNote,
    FoundNotes,
    MaxTokens,
    NoteList,
    NotePlace,
    NoteStatus,
    NoteView,
    Page,
    ProposalList,
    ProposalView,
    RecalledItem,
    RecalledItems,
    RememberedItem,
    RememberedItems,
    SimilarNoteView,
    answer,
    count,
    of_argument,
    quoted,
    shortened,
    start_of,
    tokens_of,
)
from shoal.models.notes import (
    AddedNote,
    MergeProposal,
    Note,
    NoteOutcome,
    NotePage,
    RecalledNote,
    SimilarNote,
)
from shoal.notes.drafts import MAX_OWNER_CHARS, checked_categories
from shoal.notes.environment import Environment
from shoal.notes.merging import AGENT
from shoal.notes.searching import described
from shoal.support.plain_text import in_line

NOTE_ID = "note_id"
PREFIX = "note"
OTHER_ID = {"engrammar": "engram_id"}
"""Names of a note's id under other prefixes than PREFIX."""

MAX_FOUND = 50
MAX_LISTED = 200
MAX_ITEMS = 1_000
ITEMS_PER_STEP = 20
"""Items of `remember` after which the progress is reported."""
CATEGORIES_SHOWN = 100

Id = Annotated[int, Field(ge=1, le=MAX_ID, description="Id of the note.")]
Text = Annotated[str, Field(min_length=1, description="The lesson in one or two sentences.")]
Category = Annotated[str | None, Field(description="A path such as `build/docker`.")]
Tags = Annotated[
    list[str] | None, Field(description="Where the lesson matters, such as `python`, `frontend`.")
]
Prerequisites = Annotated[
    dict[str, list[str] | str] | None,
    Field(description="Where it applies: lists of `os`, `repos`, `paths`, `mcp_servers`, `tags`."),
]
Why = Annotated[str | None, Field(description="Why, in a sentence.")]
TopK = Annotated[int, Field(ge=1, le=MAX_FOUND, description="Most results.")]
User = Annotated[str, Field(min_length=1, max_length=MAX_OWNER_CHARS, description="Whose memory it is.")]
Item = Annotated[
    dict[str, Any],
    Field(
        description="`content`, `topic` (not `general`), `confidence` (above 0.8), and, "
        "if wanted, `said_at`, `tags`. A turn has `speaker`, `content`, `session_id`, `said_at`."
    ),
]


RECALL = AgentOperations.recall.arguments


class NoteTools:
    """The tools, over the notes of an owner and the memory of users in a backend."""

    def __init__(self, backend: Backend, owner: str, environment: Environment | None = None) -> None:
        """`environment`: where the agent works, None if that is unknown. Raises NoteError for an invalid
        owner."""
        self._backend = backend
        self._notes = backend.notes(owner)
        self._environment = environment

    def search_notes(
        self,
        query: Annotated[str, Field(min_length=1, description="The task or problem at hand, in words.")],
        category: Category = None,
        tags: Annotated[list[str] | None, Field(description="Only notes with all of these tags.")] = None,
        top_k: TopK = 3,
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, FoundNotes]:
        """Search the notes: lessons that were learned earlier. Use it before a task that may have been done
        before, and when something fails. For questions about documents, use search_chunks instead."""
        response = self._notes.search(
            query, top_k=top_k, category=category or None, tags=tags or None, environment=self._environment
        )
        warnings = [f"Warning: {in_line(warning)}" for warning in response.warnings]
        budget, lines, results = Budget(max_tokens, NOTICE, *warnings), [], []
        for result in response.results:
            line = _line(result.note, budget.left)
            found = FoundNote(
                id=result.note.id, score=round(result.score, 3), similarity=round(result.similarity, 2)
            )
            if not budget.fits(line, found):
                break
            lines.append(line)
            results.append(found)
        n_left_out = len(response.results) - len(results)
        left_out = [f"{n_left_out} more did not fit in max_tokens of {max_tokens:,}"] if n_left_out else []
        texts = [NOTICE, "", *lines, *left_out] if response.results else ["No note matches."]
        return answer(
            "\n".join([*texts, *warnings]),
            FoundNotes(
                status="ok" if response.results else "no_results",
                n_results=len(results),
                n_left_out=n_left_out,
                results=results,
            ),
        )

    def add_note(
        self,
        text: Text,
        category: Category = None,
        tags: Tags = None,
        prerequisites: Prerequisites = None,
        source: Annotated[
            str | None, Field(description="`manual`, `agent` (default), `mcp`, `extraction` or `import`.")
        ] = None,
    ) -> Annotated[CallToolResult, AddedNoteView]:
        """Add a note: a lesson for later sessions, such as a correction, a convention or a pitfall of a tool.
        Not for summaries of a task. The same text is counted, not stored twice; similar notes are named."""
        added = self._notes.add(
            text,
            categories=[category] if category else (),
            tags=tags or (),
            prerequisites=prerequisites,
            source=source or "agent",
        )
        view, message = _added(added)
        opposite = " It may contradict a similar note." if any(n.is_opposite for n in view.similar) else ""
        lines = [
            f"similar ({other.similarity:.2f}{', maybe opposite' if other.is_opposite else ''}): "
            f"[{other.id}] {shortened_quote(other.text, SIMILAR_TOKENS)}"
            for other in added.similar
            if not other.change
        ]
        lines += [f"It {says}" for other in added.similar if other.change and (says := _warning(other))]
        return answer("\n".join([message + opposite, *lines]), view)

    def update_note(
        self,
        note_id: Id,
        text: Annotated[str | None, Field(description="The new text.")] = None,
        category: Annotated[str | None, Field(description="The only category from now on.")] = None,
        prerequisites: Prerequisites = None,
    ) -> Annotated[CallToolResult, ChangedNote]:
        """Change the text, the category or the prerequisites of a note. What is not given stays."""
        if not (text or category or prerequisites is not None):
            raise NoteError("text", "is missing; give what to change: text, category or prerequisites")
        # Before the first change: of a refused one, nothing is done.
        categories = checked_categories([category] if category else [], "category")
        notes = self._notes
        note = notes.get(note_id)
        if text or prerequisites is not None:
            tags = (prerequisites or {}).get("tags")
            gates = {name: values for name, values in (prerequisites or {}).items() if name != "tags"}
            note = notes.update(
                note_id,
                text=text or None,
                tags=None
                if tags is None
                else sorted({*note.tags, *([tags] if isinstance(tags, str) else tags)}),
                prerequisites=None if prerequisites is None else gates,
            )
        if categories:
            note = notes.categorize(
                note_id, add=categories, remove=[path for path in note.categories if path not in categories]
            )
        return _changed(note, "Changed")

    def deprecate_note(self, note_id: Id, reason: Why = None) -> Annotated[CallToolResult, ChangedNote]:
        """Deprecate a note that is wrong or outdated: it is no longer found, but not deleted."""
        return _changed(self._notes.deprecate(note_id, reason=reason or ""), "Deprecated")

    def judge_note(
        self,
        note_id: Id,
        applicable: Annotated[bool, Field(description="Whether the note helped where you work.")],
        reason: Why = None,
        tag_scores: Annotated[
            dict[str, Annotated[float, Field(ge=-1, le=1)]] | None,
            Field(description="For single tags, -1 (does not apply) to 1."),
        ] = None,
        add_prerequisites: Prerequisites = None,
    ) -> Annotated[CallToolResult, ChangedNote]:
        """Say whether a note was applicable. Use it after a note was shown to you: later searches learn where
        the note helps."""
        note = self._notes.feedback(
            note_id,
            applicable=applicable,
            reason=reason or "",
            tag_scores=tag_scores,
            add_prerequisites=add_prerequisites,
            environment=self._environment,
        )
        return _changed(note, "Noted the feedback on")

    def categorize_note(
        self,
        note_id: Id,
        add: Annotated[list[str] | None, Field(description="Category paths to add.")] = None,
        remove: Annotated[list[str] | None, Field(description="Category paths to remove.")] = None,
    ) -> Annotated[CallToolResult, ChangedNote]:
        """Add a note to categories or remove it from some; a note can be in several."""
        return _changed(self._notes.categorize(note_id, add=add or (), remove=remove or ()), "Categorized")

    def pin_note(
        self, note_id: Id, prerequisites: Prerequisites = None
    ) -> Annotated[CallToolResult, ChangedNote]:
        """Pin a note: it is shown at the start of every session, or of those where the prerequisites hold."""
        return _changed(self._notes.pin(note_id, prerequisites=prerequisites), "Pinned")

    def unpin_note(self, note_id: Id) -> Annotated[CallToolResult, ChangedNote]:
        """Take the pin of a note back. The note stays."""
        return _changed(self._notes.unpin(note_id), "Unpinned")

    def list_notes(
        self,
        category: Category = None,
        include_deprecated: Annotated[bool, Field(description="Also deprecated notes.")] = False,
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED, description="Notes on a page.")] = 50,
        offset: Annotated[int, Field(ge=0, le=MAX_PAGE, description="`next_offset` of the page before.")] = 0,
    ) -> Annotated[CallToolResult, NoteList]:
        """List the notes, by id, page by page; a category includes its subcategories. To find the notes that
        matter for a task, search them instead."""
        page = self._notes.list(
            category=category or None, include_deprecated=include_deprecated, limit=limit, offset=offset
        )
        return _listed(page, offset)

    def note_status(self) -> Annotated[CallToolResult, NoteStatus]:
        """Say how many notes there are, by kind and category."""
        notes = self._notes
        counts = notes.status()
        categories = [
            CategoryView(path=in_line(category.path), n_notes=category.n_notes)
            for category in notes.categories()[:CATEGORIES_SHOWN]
        ]
        status = NoteStatus(
            owner=in_line(counts.owner),
            n_active=counts.n_active,
            n_deprecated=counts.n_deprecated,
            n_pinned=counts.n_pinned,
            by_kind=dict(counts.by_kind),
            categories=categories,
        )
        summary = (
            f"{count(status.n_active, 'note')} of {status.owner}, {status.n_pinned} pinned, "
            f"{status.n_deprecated} deprecated"
        )
        lines = [f"{category.path}: {category.n_notes}" for category in categories]
        return answer("\n".join([summary, *lines]), status)

    def list_proposals(
        self,
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED, description="Proposals on a page.")] = 20,
        offset: Annotated[int, Field(ge=0, le=MAX_PAGE, description="`next_offset` of the page before.")] = 0,
    ) -> Annotated[CallToolResult, ProposalList]:
        """List notes that may say the same and wait for a decision. Read both texts before you decide."""
        page = self._notes.proposals(limit=limit, offset=offset)
        budget, lines = Budget(DEFAULT_TOKENS, NOTICE), []
        views: list[ProposalView] = []
        for each in page.proposals:
            view, described = _proposal(each), _proposal_lines(each)
            if not budget.fits(*described, view) and views:
                break
            lines += described
            views.append(view)
        page_of = Page.of("proposal", page.total, offset, len(views))
        listed = ProposalList(
            status=page_of.status, total=page.total, next_offset=page_of.next_offset, proposals=views
        )
        return answer("\n".join([page_of.message, *([NOTICE, "", *lines] if lines else [])]), listed)

    def decide_proposal(
        self,
        proposal_id: Annotated[int, Field(ge=1, le=MAX_ID, description="Id of the proposal.")],
        accept: Annotated[bool, Field(description="True: merge its notes. False: keep them apart.")],
        canonical_text: Annotated[
            str | None, Field(description="The text of the merged note; needed if they may contradict.")
        ] = None,
    ) -> Annotated[CallToolResult, DecidedProposal]:
        """Merge the notes of a proposal, or reject it: they are not proposed together again. Merge only notes
        that say the same; a merge can be undone."""
        decided = self._notes.decide(
            proposal_id, accept, canonical_text=canonical_text or None, decided_by=AGENT
        )
        done = "Merged the notes of" if accept else "Rejected"
        return answer(
            "\n".join([f"{done} proposal {decided.id}.", *_proposal_lines(decided)]),
            DecidedProposal(proposal=_proposal(decided)),
        )

    def recall(
        self,
        query: Annotated[str, Field(min_length=1, description="What to remember, in words.")],
        user_id: User,
        top_k: TopK = DEFAULT_TOP_K,
        threshold: Annotated[
            float, of_argument(RECALL["threshold"], "Lowest similarity of an item.")
        ] = RECALL_THRESHOLD,
        valid_at: Annotated[str, Field(description="What held on this day.")] = "",
        max_tokens: MaxTokens = DEFAULT_TOKENS,
    ) -> Annotated[CallToolResult, RecalledItems]:
        """Recall what earlier conversations with a user taught, what holds now first. Only the memory of
        this user is searched. For documents, use search_chunks; for lessons about tools and code, search the
        notes."""
        recalled = self._backend.notes(user_id).recall(
            query,
            top_k=top_k,
            threshold=threshold,
            valid_at=valid_at or None,
        )
        budget, lines, results = Budget(max_tokens, NOTICE, query[:QUERY_SHOWN]), [], []
        near = recalled.nearest
        for number, item in enumerate(recalled.results or ([] if near is None else [near]), start=1):
            line, found = _recalled_line(item, budget.left), _recalled(item)
            if not budget.fits(f"{number}. ", line, found):
                break
            lines.append(line)
            results.append(found)
        response = _recall_text(query, lines, is_answer=bool(recalled.results))
        n_left_out = max(len(recalled.results) - len(results), 0)
        if n_left_out:
            response += f"\n{n_left_out} more did not fit in max_tokens of {max_tokens:,}"
        answers = results if recalled.results else []
        items = RecalledItems(
            status="ok" if answers else "no_answer" if results else "no_results",
            count=len(answers),
            n_left_out=n_left_out,
            results=answers,
            nearest=results[0] if results and not recalled.results else None,
        )
        return answer("\n\n".join([response, *([NOTICE] if lines else [])]), items)

    def list_memories(
        self,
        user_id: User,
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED, description="Memories on a page.")] = 20,
        offset: Annotated[int, Field(ge=0, le=MAX_ID, description="`next_offset` of the page before.")] = 0,
    ) -> Annotated[CallToolResult, NoteList]:
        """List what is remembered of a user, oldest first. To find something, use recall."""
        page = self._backend.notes(user_id).list(limit=limit, offset=offset)
        return _listed(page, offset)

    def change_memory(
        self,
        user_id: User,
        note_id: Id,
        text: Annotated[
            str | None, Field(description="What is so now; left out, the memory is forgotten.")
        ] = None,
    ) -> Annotated[CallToolResult, ChangedMemory]:
        """Correct a memory of a user, or forget it for good. Ids are in what recall and list_memories
        return."""
        notes = self._backend.notes(user_id)
        if text:
            return _changed(notes.update(note_id, text=text), "Changed")
        ids = list(notes.forget(note_id).note_ids)
        names = ", ".join(f"note {each}" for each in ids)
        return answer(f"Forgot {names}.", ChangedMemory(forgotten_ids=ids))

    def remember(
        self,
        user_id: User,
        items: Annotated[
            list[Item], Field(min_length=1, max_length=MAX_ITEMS, description="What to remember.")
        ],
        context: Context[Any, Any],
    ) -> Annotated[CallToolResult, RememberedItems]:
        """Remember what a conversation with a user taught, for recall: facts, or turns. Items without a
        subject or with low confidence are refused; a repeated one is counted."""
        outcomes: list[RememberedItem] = []
        warnings: list[list[str]] = []
        for start in range(0, len(items), ITEMS_PER_STEP):
            step = self._backend.remember(user_id, items[start : start + ITEMS_PER_STEP])
            outcomes += map(_remembered, step.results)
            warnings += map(_warnings, step.results)
            anyio.from_thread.run(context.report_progress, len(outcomes), len(items))
        stored = [item for item in outcomes if item.error is None]
        n_duplicates = sum(item.is_duplicate for item in stored)
        remembered = RememberedItems(
            n_stored=len(stored) - n_duplicates,
            n_duplicates=n_duplicates,
            n_refused=len(outcomes) - len(stored),
            items=outcomes,
        )
        reasons = [f"item {i}: {item.error}" for i, item in enumerate(outcomes, 1) if item.error]
        reasons += [f"item {i} {warning}" for i, found in enumerate(warnings, 1) for warning in found]
        summary = (
            f"Stored {remembered.n_stored}, known already {remembered.n_duplicates}, "
            f"refused {remembered.n_refused}."
        )
        return answer("\n".join([summary, *reasons]), remembered)


def with_id_name(function: Callable[..., Any], prefix: str) -> Callable[..., Any]:
    """Return a tool whose parameter for the id of a note has the name that belongs to a prefix."""
    name = OTHER_ID.get(prefix, NOTE_ID)
    signature = inspect.signature(function, eval_str=True)
    if name == NOTE_ID or NOTE_ID not in signature.parameters:
        return function

    @functools.wraps(function)
    def renamed(**arguments: Any) -> Any:
        return function(**{NOTE_ID if key == name else key: value for key, value in arguments.items()})

    parameters = [
        parameter.replace(name=name) if parameter.name == NOTE_ID else parameter
        for parameter in signature.parameters.values()
    ]
    renamed.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return renamed


def _listed(page: NotePage, offset: int) -> CallToolResult:
    budget, lines = Budget(DEFAULT_TOKENS, NOTICE), []
    notes: list[NotePlace] = []
    for note in page.notes:
        line, place = _line(note, budget.limit // 2), NotePlace(id=note.id)
        if not budget.fits(line, place) and notes:
            break
        lines.append(line)
        notes.append(place)
    page_of = Page.of("note", page.total, offset, len(notes))
    listed = NoteList(status=page_of.status, total=page.total, next_offset=page_of.next_offset, notes=notes)
    return answer("\n".join([page_of.message, *([NOTICE, "", *lines] if lines else [])]), listed)


def _view(note: Note) -> NoteView:
    return NoteView(
        id=note.id,
        kind=note.kind,
        domain=in_line(note.domain),
        tags=list(map(in_line, note.tags)),
        categories=list(map(in_line, note.categories)),
        prerequisites={
            gate: list(map(in_line, values)) for gate, values in note.prerequisites.items() if values
        },
        source=note.source,
        verified=note.verified,
        pinned_by=note.pinned_by,
        pin_tags=list(map(in_line, note.pin_tags)),
        occurrence_count=note.occurrence_count,
        times_matched=note.times_matched,
        deprecated=not note.is_active,
        deprecated_reason=None if note.deprecated_reason is None else in_line(note.deprecated_reason),
        merged_into=note.merged_into,
        created_at=note.created_at,
        updated_at=note.updated_at,
    )


SIMILAR_TOKENS = 100
"""Most tokens of each note that is similar to a new one, and of those of a proposal."""


def shortened_quote(text: str, max_tokens: int) -> str:
    """Clean text on one line in quotation marks; of one with more tokens, the start."""
    return quoted(start_of(in_line(text), max(max_tokens, LEAST_OF_NOTE)))


LEAST_OF_NOTE = 20


def _line(note: Note, max_tokens: int) -> str:
    """A note on one line, its text in quotation marks, cut to about `max_tokens`."""
    facts = [
        *map(in_line, note.categories),
        f"tags {', '.join(map(in_line, note.tags))}" if note.tags else "",
        "pinned" if note.pinned_by else "",
        "verified" if note.verified else "unverified",
        "" if note.is_active else "deprecated",
    ]
    title = f"{in_line(note.title)}: " if note.title else ""
    described = f"({'; '.join(fact for fact in facts if fact)})"
    text = shortened_quote(note.text, max_tokens - tokens_of(title, described) - ID_TOKENS)
    return f"[{note.id}] {title}{text} {described}"


ID_TOKENS = 40
"""Of the id of a note in the text, and of its id and scores beside it."""


def _proposal(proposal: MergeProposal) -> ProposalView:
    return ProposalView(
        id=proposal.id,
        notes=[NotePlace(id=note.id) for note in proposal.notes],
        similarity=proposal.similarity,
        is_opposite=proposal.is_opposite,
        status=proposal.status,
    )


def _proposal_lines(proposal: MergeProposal) -> list[str]:
    opposite = ", may contradict each other" if proposal.is_opposite else ""
    head = f"proposal {proposal.id} ({proposal.status}, similarity {proposal.similarity:.2f}{opposite}):"
    proposed = [
        f"  {name}: {shortened_quote(text, SIMILAR_TOKENS)}"
        for name, text in (("proposed text", proposal.canonical_text), ("reason", proposal.reason))
        if text
    ]
    notes = [f"  [{note.id}] {shortened_quote(note.text, SIMILAR_TOKENS)}" for note in proposal.notes]
    return [head, *notes, *proposed]


def _added(added: AddedNote) -> tuple[AddedNoteView, str]:
    note = added.note
    message = (
        f"Note {note.id} has this text already; it was submitted {count(note.occurrence_count, 'time')}."
        if added.is_duplicate
        else f"Added note {note.id}."
    )
    similar = [
        SimilarNoteView(id=other.id, similarity=other.similarity, is_opposite=other.is_opposite)
        for other in added.similar
    ]
    return AddedNoteView(note=_view(note), is_duplicate=added.is_duplicate, similar=similar), message


def _changed(note: Note, verb: str) -> CallToolResult:
    return answer(
        f"{verb} note {note.id}.\n{_line(note, DEFAULT_TOKENS // 2)}", ChangedNote(note=_view(note))
    )


def _recalled(item: RecalledNote) -> RecalledItem:
    return RecalledItem(note_id=item.metadata["note_id"], similarity=item.similarity)


def _recalled_line(item: RecalledNote, max_tokens: int) -> str:
    topic = in_line(str(item.metadata.get("topic") or "note"))
    facts = f"({described(item, lambda text: shortened_quote(text, SIMILAR_TOKENS))})"
    text = shortened_quote(item.content, max_tokens - tokens_of(topic, facts) - ID_TOKENS)
    context = [
        f"\n   [{turn.note_id}] {in_line(turn.speaker)}: {shortened_quote(turn.text, SIMILAR_TOKENS)}"
        for turn in item.context
    ]
    return "".join([f"**{topic}**: {text} {facts}", *context])


QUERY_SHOWN = 200
"""Characters of a query that an answer repeats."""


def _recall_text(query: str, lines: Sequence[str], *, is_answer: bool) -> str:
    shown = shortened(query, QUERY_SHOWN)
    if not is_answer:
        found = f"No relevant knowledge found for '{shown}'."
        return f"{found} Nothing here answers this; the nearest is {lines[0]}" if lines else found
    numbered = [f"{number}. {line}" for number, line in enumerate(lines, start=1)]
    found = count(len(lines), "relevant knowledge item")
    return "\n".join([f"## 🧠 Memory Recall: '{shown}'", f"Found {found}:", *numbered])


def _remembered(outcome: NoteOutcome) -> RememberedItem:
    error = None if outcome.error is None else in_line(f"{outcome.field}: {outcome.error}")
    return RememberedItem(note_id=outcome.note_id, is_duplicate=outcome.is_duplicate, error=error)


def _warnings(outcome: NoteOutcome) -> list[str]:
    """What a new note replaces or may contradict."""
    if outcome.is_duplicate:
        return []
    return [warning for other in outcome.similar if (warning := _warning(other))]


def _warning(other: SimilarNote) -> str | None:
    if other.is_superseded:
        says = "replaces"
    elif other.change:
        says = "may replace"
    elif other.is_opposite:
        says = "may contradict"
    else:
        return None
    return f"{says} note {other.id}: {shortened_quote(other.text, SIMILAR_TOKENS)}"
