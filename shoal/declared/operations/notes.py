# mypy: disable-error-code="empty-body"
"""Operations on the notes of an owner, their duplicates, and what agents learn for a user."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Unpack

from shoal.declared import notes as of_notes
from shoal.declared.arguments import (
    MAX_ID,
    OBJECT,
    Argument,
    Choice,
    Flag,
    Many,
    Members,
    Moment,
    Number,
    Text,
    Whole,
)
from shoal.declared.notes import (
    ABOUT_ENVIRONMENT,
    CATEGORY,
    DEFAULT_OWNER,
    ENVIRONMENT,
    PREREQUISITES,
    AsJson,
    NewNote,
    NoteChanges,
    NoteListArguments,
    NoteSearchArguments,
    RecallArguments,
)
from shoal.declared.operations.operation import (
    SAME_JOB,
    SAME_OUTCOME,
    Limit,
    Offset,
    delete,
    each,
    get,
    patch,
    post,
    put,
)
from shoal.models.keys import Needed
from shoal.models.notes import (
    DECIDED_BY,
    PROPOSAL_STATUSES,
    AddedNote,
    CategoryCount,
    Feedback,
    ForgottenNotes,
    HistoryEntry,
    HookAnswer,
    MergePage,
    MergeProposal,
    Note,
    NoteCategories,
    NoteExplanation,
    NoteFeedback,
    NoteHistory,
    NoteMerge,
    NoteOutcomes,
    NotePage,
    NoteResponse,
    NoteStatus,
    ProposalPage,
    PurgedNotes,
    Recall,
)
from shoal.models.responses import Accepted, Job

NOTES = "/notes"
ONE = "/notes/{note_id}"
CONFLICT = "An active note has the same text, or a deprecated note cannot be pinned"
MERGE_CONFLICT = "The state of a note, proposal or merge does not allow it; the message says why"

_TEXTS = Many()
_NEWEST = "only merges of this note"

Owner = Annotated[
    str,
    Argument(
        kind=Text(),
        about="whose notes these are, 1 to 200 characters; to one owner, the notes of another do not exist. "
        f"Default: `{DEFAULT_OWNER}`",
        body=". May be a query parameter instead",
        is_anywhere=True,
    ),
]
Query = Annotated[
    str,
    Argument(
        kind=Text(),
        about="what you want to know; it has no operators, so it may be a prompt or a command",
    ),
]
Session = Annotated[AsJson | Mapping[str, Any] | None, Argument(kind=ENVIRONMENT, about=ABOUT_ENVIRONMENT)]
Why = Annotated[str, Argument(kind=Text(), about="why, up to 1,000 characters")]
NoteText = Argument(kind=Text(), about=of_notes.ABOUT_TEXT)


class NoteOperations:
    """Operations on notes. Arguments and results are those of `shoal.notes.notes.OwnerNotes`.

    To one owner, the notes of another do not exist: their ids raise NotFoundError. Invalid arguments raise
    InvalidError.
    """

    @post(
        NOTES,
        Needed.write,
        status=201,
        about="Stored",
        fails=(404, 409, 503),
        fills=False,
        key=SAME_OUTCOME,
        command="note add",
        tool="note_add",
    )
    def add_note(
        self,
        text: Annotated[str, NoteText],
        *,
        owner: Owner = DEFAULT_OWNER,
        idempotency_key: str | None = None,
        **fields: Unpack[NewNote],
    ) -> AddedNote:
        """Add a note

        `similar` warns of notes that say nearly the same, or the opposite. A text that is stored already is
        counted again instead, so that a repeated request stores nothing twice. With an idempotency key, a
        repeated request is not counted either; it returns 404 if the note was purged since.
        """

    @get(NOTES, Needed.read, for_tokens=True, command="note list", tool="note_list")
    def notes(
        self,
        *,
        owner: Owner = DEFAULT_OWNER,
        limit: Limit = 50,
        offset: Offset = 0,
        **filters: Unpack[NoteListArguments],
    ) -> NotePage:
        """List notes"""

    @each(notes)
    def each_note(
        self, *, owner: str = DEFAULT_OWNER, **filters: Unpack[NoteListArguments]
    ) -> Iterable[Note]:
        """All notes of an owner that pass the filters, read page by page"""

    @get(
        f"{NOTES}/categories", Needed.read, for_tokens=True, answer=NoteCategories, command="note categories"
    )
    def note_categories(self, *, owner: Owner = DEFAULT_OWNER) -> tuple[CategoryCount, ...]:
        """List categories with their numbers of notes"""

    @get(f"{NOTES}/status", Needed.read, command="note status", tool="note_status")
    def note_status(self, *, owner: Owner = DEFAULT_OWNER) -> NoteStatus:
        """Count notes"""

    @post(
        f"{NOTES}/search",
        Needed.read,
        for_tokens=True,
        fails=(503,),
        command="note search",
        tool="note_search",
    )
    def search_notes(
        self, query: Query, *, owner: Owner = DEFAULT_OWNER, **given: Unpack[NoteSearchArguments]
    ) -> NoteResponse:
        """Search notes

        The best notes for a question, a prompt or a command. Notes whose prerequisites do not hold in the
        environment, or that were judged not applicable there, are left out.
        """

    @post(f"{NOTES}/pinned", Needed.read, for_tokens=True, answer=NotePage, fills=False)
    def pinned_notes(
        self,
        environment: Annotated[
            AsJson | Mapping[str, Any] | None, Argument(kind=ENVIRONMENT, about="where the session works")
        ] = None,
        *,
        owner: Owner = DEFAULT_OWNER,
    ) -> tuple[Note, ...]:
        """List the pinned notes that apply to an environment"""

    @post(f"{NOTES}/shown", Needed.write, fails=(404,), fills=False, may_repeat=False)
    def record_shown_notes(
        self,
        session_id: Annotated[str, Argument(kind=Text(), about="the session that was shown the notes")],
        note_ids: Annotated[
            Sequence[int],
            Argument(
                kind=Many(Whole(1, MAX_ID), of_notes.MAX_SHOWN),
                about=f"ids of the notes, at most {of_notes.MAX_SHOWN}",
            ),
        ],
        *,
        event: Annotated[
            str,
            Argument(kind=Text(), default="", about="what caused it, such as `prompt` or `session-start`"),
        ],
        owner: Owner = DEFAULT_OWNER,
        environment: Session = None,
        context: Annotated[str, Argument(kind=Text(), about="what was searched for")] = "",
    ) -> None:
        """Record that a session was shown notes

        A search of this session leaves them out from now on. A note that is shown often enough in an
        environment is pinned there.
        """

    @post(
        f"{NOTES}/purge",
        Needed.write,
        answer=PurgedNotes,
        fills=False,
        needs_body=False,
        command="note purge",
    )
    def purge_notes(
        self,
        *,
        owner: Owner = DEFAULT_OWNER,
        before: Annotated[
            dt.datetime | None,
            Argument(
                kind=Moment(),
                about="only notes deprecated before this time (ISO 8601); default: all deprecated",
            ),
        ] = None,
    ) -> int:
        """Delete deprecated notes for good"""

    @get(ONE, Needed.read, for_tokens=True, fails=(404,), command="note show")
    def note(self, note_id: int, *, owner: Owner = DEFAULT_OWNER) -> Note:
        """Get a note with its evidence"""

    @patch(ONE, Needed.write, fails=(404,), fills=False, command="note update", tool="note_update")
    def update_note(
        self,
        note_id: int,
        *,
        owner: Owner = DEFAULT_OWNER,
        text: Annotated[str | None, NoteText] = None,
        **changes: Unpack[NoteChanges],
    ) -> Note:
        """Change fields of a note"""

    @get(f"{ONE}/history", Needed.read, for_tokens=True, answer=NoteHistory, fails=(404,))
    def note_history(self, note_id: int, *, owner: Owner = DEFAULT_OWNER) -> tuple[HistoryEntry, ...]:
        """List the changes of a note"""

    @get(f"{ONE}/feedback", Needed.read, for_tokens=True, answer=NoteFeedback, fails=(404,))
    def note_judgements(self, note_id: int, *, owner: Owner = DEFAULT_OWNER) -> tuple[Feedback, ...]:
        """List the judgements of a note"""

    @post(
        f"{ONE}/feedback",
        Needed.write,
        fails=(404,),
        fills=False,
        may_repeat=False,
        command="note feedback",
        tool="note_feedback",
    )
    def judge_note(
        self,
        note_id: int,
        *,
        applicable: Annotated[bool, Argument(kind=Flag(), about="whether the note helped")],
        owner: Owner = DEFAULT_OWNER,
        reason: Why = "",
        tag_scores: Annotated[
            Mapping[str, float] | None,
            Argument(
                kind=OBJECT,
                about="judges single tags, -1 to 1; default: 1 or -1 for the tags of the environment, else "
                "of the session, else of the note",
            ),
        ] = None,
        add_prerequisites: Annotated[
            AsJson | Mapping[str, Any] | None,
            Argument(kind=PREREQUISITES, about="added to those of the note"),
        ] = None,
        session_id: Annotated[str, Argument(kind=Text(), about="the session that judges")] = "",
        environment: Session = None,
    ) -> Note:
        """Judge whether a note was applicable

        Changes its relevance for the tags of the environment, and maybe its pin.
        """

    @post(
        f"{ONE}/deprecate",
        Needed.write,
        fails=(404,),
        fills=False,
        needs_body=False,
        command="note deprecate",
        tool="note_deprecate",
    )
    def deprecate_note(self, note_id: int, *, owner: Owner = DEFAULT_OWNER, reason: Why = "") -> Note:
        """Hide a note from searches and pins

        `restore` takes this back, until a purge. The body may be left out.
        """

    @post(
        f"{ONE}/restore",
        Needed.write,
        conflict=CONFLICT,
        fails=(404,),
        needs_body=False,
        command="note restore",
    )
    def restore_note(self, note_id: int, *, owner: Owner = DEFAULT_OWNER) -> Note:
        """Make a deprecated note active again

        The body may be left out.
        """

    @post(f"{ONE}/forget", Needed.write, fails=(404,), needs_body=False, command="note forget")
    def forget_note(self, note_id: int, *, owner: Owner = DEFAULT_OWNER) -> ForgottenNotes:
        """Delete a note for good, and refuse its text from then on

        Notes of the owner with the same text, and those merged into one of them, are deleted with it. A
        digest of each text stays. Nothing takes this back; a repeated request gives the same answer. The
        body may be left out.
        """

    @put(
        f"{ONE}/pin",
        Needed.write,
        conflict=CONFLICT,
        fails=(404,),
        fills=False,
        needs_body=False,
        command="note pin",
        tool="note_pin",
    )
    def pin_note(
        self,
        note_id: int,
        *,
        owner: Owner = DEFAULT_OWNER,
        tags: Annotated[
            Iterable[str] | None,
            Argument(
                kind=_TEXTS,
                about="the pin counts where all of these hold; default: the tags of `prerequisites`, else "
                "none",
            ),
        ] = None,
        prerequisites: Annotated[
            AsJson | Mapping[str, Any] | None,
            Argument(kind=PREREQUISITES, about="replace those of the note"),
        ] = None,
    ) -> Note:
        """Pin a note

        It is shown at the start of every session whose environment has all `tags`. The body may be left out.
        """

    @delete(f"{ONE}/pin", Needed.write, fails=(404,), command="note unpin", tool="note_unpin")
    def unpin_note(self, note_id: int, *, owner: Owner = DEFAULT_OWNER) -> Note:
        """Take the pin of a note back"""

    @patch(
        f"{ONE}/categories",
        Needed.write,
        fails=(404,),
        fills=False,
        command="note categorize",
        tool="note_categorize",
    )
    def categorize_note(
        self,
        note_id: int,
        *,
        owner: Owner = DEFAULT_OWNER,
        add: Annotated[
            Iterable[str], Argument(kind=_TEXTS, about=f"categories to add; each {CATEGORY}")
        ] = (),
        remove: Annotated[Iterable[str], Argument(kind=_TEXTS, about="categories to remove")] = (),
    ) -> Note:
        """Add a note to categories, and remove it from others"""

    @post(
        f"{ONE}/explain", Needed.read, for_tokens=True, fails=(404, 503), fills=False, command="note explain"
    )
    def explain_note(
        self, note_id: int, query: Query, *, owner: Owner = DEFAULT_OWNER, environment: Session = None
    ) -> NoteExplanation:
        """Explain step by step why a note is shown for a query, or why not"""


Canonical = Annotated[
    str | None,
    Argument(
        kind=Text(),
        about="the text of the merged note; required if notes may contradict each other. Default: the "
        "proposed text, else that of the note that survives",
    ),
]
DecidedBy = Annotated[
    str | None,
    Argument(kind=Choice(DECIDED_BY[:2]), about=f"who decides; default `{DECIDED_BY[0]}`"),
]


class NoteMergeOperations:
    """Operations on duplicates and merges. Arguments and results are those of `shoal.notes.merge_service`.

    Ids of another owner raise NotFoundError. A state that does not allow an operation raises ConflictError.
    """

    @post(
        f"{NOTES}/dedup",
        Needed.write,
        answer=Accepted,
        status=202,
        fails=(409,),
        fills=False,
        needs_body=False,
        key=SAME_JOB,
        command="note dedup",
    )
    def dedup_notes(
        self,
        *,
        owner: Owner = DEFAULT_OWNER,
        recheck: Annotated[
            bool | None,
            Argument(kind=Flag(), about="also compare notes that were compared before; default false"),
        ] = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Find duplicates among notes

        Starts a job that compares the notes that wait with the others. Similar notes become proposals; with a
        chat endpoint (`SHOAL_LLM_URL`), it decides, and what is in doubt becomes a proposal. While a job for
        the owner is open, the same job is returned. The body may be left out.
        """

    @get(f"{NOTES}/proposals", Needed.read, command="note proposals", tool="note_proposals")
    def merge_proposals(
        self,
        *,
        owner: Owner = DEFAULT_OWNER,
        status: Annotated[
            str | None,
            Argument(kind=Choice(PROPOSAL_STATUSES), about="only proposals with this status; default `open`"),
        ] = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> ProposalPage:
        """List proposals to merge notes"""

    @each(merge_proposals)
    def each_merge_proposal(
        self, *, owner: str = DEFAULT_OWNER, status: str | None = None
    ) -> Iterable[MergeProposal]:
        """All open proposals, or those with another status, read page by page"""

    @post(
        f"{NOTES}/proposals/{{proposal_id}}/accept",
        Needed.write,
        conflict=MERGE_CONFLICT,
        fails=(404,),
        fills=False,
        needs_body=False,
        may_repeat=False,
        command="note accept",
        tool="note_decide",
    )
    def accept_merge_proposal(
        self,
        proposal_id: int,
        *,
        owner: Owner = DEFAULT_OWNER,
        canonical_text: Canonical = None,
        decided_by: DecidedBy = None,
    ) -> MergeProposal:
        """Merge the notes of a proposal

        A proposal whose texts may contradict each other needs a `canonical_text`. Otherwise the body may be
        left out.
        """

    @post(
        f"{NOTES}/proposals/{{proposal_id}}/reject",
        Needed.write,
        conflict=MERGE_CONFLICT,
        fails=(404,),
        needs_body=False,
        may_repeat=False,
        command="note reject",
        tool="note_decide",
    )
    def reject_merge_proposal(self, proposal_id: int, *, owner: Owner = DEFAULT_OWNER) -> MergeProposal:
        """Reject a proposal to merge notes

        No two of its notes are proposed together again, nor merged by a chat endpoint. The body may be left
        out.
        """

    @get(f"{NOTES}/merges", Needed.read, fails=(404,), command="note merges")
    def note_merges(
        self,
        *,
        owner: Owner = DEFAULT_OWNER,
        note_id: Annotated[
            int | None, Argument(kind=Whole(1, MAX_ID), option="note", metavar="NOTE", about=_NEWEST)
        ] = None,
        limit: Limit = 50,
        offset: Offset = 0,
    ) -> MergePage:
        """List merges of notes, newest first"""

    @each(note_merges)
    def each_note_merge(
        self, *, owner: str = DEFAULT_OWNER, note_id: int | None = None
    ) -> Iterable[NoteMerge]:
        """All merges, newest first, read page by page"""

    @post(
        f"{NOTES}/merges",
        Needed.write,
        status=201,
        about="Merged",
        conflict=MERGE_CONFLICT,
        fails=(404,),
        fills=False,
        may_repeat=False,
        command="note merge",
    )
    def merge_notes(
        self,
        note_ids: Annotated[
            Iterable[int],
            Argument(kind=Many(Whole(0)), about=f"2 to {of_notes.MAX_MERGED} active notes that say the same"),
        ],
        *,
        owner: Owner = DEFAULT_OWNER,
        canonical_text: Canonical = None,
        confidence: Annotated[
            float | None, Argument(kind=Number(0, 1), about="how sure you are; default 1")
        ] = None,
        reason: Annotated[str | None, Argument(kind=Text(), about="for the log; default empty")] = None,
        decided_by: DecidedBy = None,
    ) -> NoteMerge:
        """Merge notes that say the same

        One note survives with the evidence of all; the others are deprecated.
        """

    @post(
        f"{NOTES}/merges/{{merge_id}}/undo",
        Needed.write,
        conflict=MERGE_CONFLICT,
        fails=(404,),
        needs_body=False,
        may_repeat=False,
        command="note undo",
    )
    def undo_note_merge(self, merge_id: int, *, owner: Owner = DEFAULT_OWNER) -> NoteMerge:
        """Undo a merge of notes

        The absorbed notes are active again, and the survivor is as it was, with the evidence since. These
        notes are not proposed together again. The body may be left out.
        """


class AgentOperations:
    """What agents learned for a user. Invalid arguments raise InvalidError."""

    @post(
        "/users/{user_id}/remember",
        Needed.write,
        fails=(409, 503),
        key=SAME_OUTCOME,
        command="note remember",
        tool="remember",
    )
    def remember(
        self,
        user_id: str,
        items: Annotated[
            Iterable[Mapping[str, Any]],
            Argument(
                kind=Many(Members(of_notes.RememberedItem, is_checked=False), of_notes.MAX_ITEMS),
                about=f"at most {of_notes.MAX_ITEMS}; an invalid item does not stop the others",
            ),
        ],
        *,
        idempotency_key: str | None = None,
    ) -> NoteOutcomes:
        """Store what an agent learned for a user, and turns of conversations

        An item with a `speaker` is a turn (`speaker`, `content`, `session_id`, and if wanted `said_at`): it
        is kept word for word. Of other items, short, doubtful and unspecific ones are refused, and each
        outcome says why. One that says nearly the same as a stored note counts as another occurrence of it.
        """

    @post(
        "/users/{user_id}/recall",
        Needed.read,
        for_tokens=True,
        fails=(503,),
        command="note recall",
        tool="recall",
    )
    def recall(
        self,
        user_id: str,
        query: Query,
        **given: Unpack[RecallArguments],
    ) -> Recall:
        """Recall what is known for a user

        Notes and turns of conversations in one order; only those of this user are searched. Of a fact that
        changed, the note that holds comes, with those that it replaced.
        """


class OtherNoteOperations:
    """What the client does in a way of its own, and `shoal hook` without it."""

    @post(f"{NOTES}/bulk", Needed.write, fails=(400, 409, 413, 415), own_body=True, key=SAME_OUTCOME)
    def add_notes(self, *, owner: Owner = DEFAULT_OWNER) -> NoteOutcomes:
        """Add many notes

        A bad note does not stop the others; its outcome says why it was refused. Each element or line has the
        fields of `POST /notes`; the owner is the query parameter. A repeated request stores nothing twice.
        With an idempotency key, it is not counted either, and an interrupted one continues where it ended.
        """

    @post("/hooks/{event}", Needed.write, fails=(404, 503), command="hook")
    def answer_hook(
        self,
        event: str,
        *,
        input: Annotated[  # noqa: A002 - the name of the member
            Mapping[str, Any],
            Argument(
                kind=OBJECT,
                about="the object that the agent sends: `session_id`, `cwd`, `transcript_path`, and by event "
                "`source`, `prompt`, or `tool_name` and `tool_input`; other members are ignored",
            ),
        ],
        environment: Annotated[
            Mapping[str, Any] | None,
            Argument(
                kind=OBJECT,
                about="`os`, `repo`, `cwd`, `mcp_servers` and `tags` of the session; by default, the service "
                "detects them from `cwd`, if the request comes from its own machine",
            ),
        ] = None,
    ) -> HookAnswer:
        """Answer a hook of an agent

        Returns the notes for the event as quoted data, and writes that the session was shown them; an empty
        object without notes. `stop` queues the transcript of the session for the extraction of lessons.
        `shoal hook` sends these requests.
        """


class AllNoteOperations(NoteOperations, NoteMergeOperations, AgentOperations):
    """All that both clients have as they are declared."""
