"""The commands `shoal note dedup|merge|proposals|accept|reject|merges|undo`: notes that say the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.jobs import dedup_on
from shoal.cli.search_options import given, of_operation, options_of
from shoal.cli.session import Key, Limit, Offset, Session, command, printed_by
from shoal.declared.operations.notes import NoteMergeOperations
from shoal.errors import NoteError
from shoal.models.notes import MergePage, MergeProposal, NoteMerge, ProposalPage

if TYPE_CHECKING:
    from shoal.notes.notes import OwnerNotes

DEFAULT_OWNER = "default"

Owner = Annotated[
    str,
    typer.Option("--owner", metavar="NAME", help="Whose notes. To one owner, those of another do not exist."),
]
DedupServer = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="Address of a service that does it; otherwise, this command does."
    ),
]
PROPOSALS = of_operation(NoteMergeOperations.merge_proposals)
MERGES = of_operation(NoteMergeOperations.note_merges)
ProposalId = Annotated[int, typer.Argument(metavar="PROPOSAL", help="Number of the proposal.", min=1)]
CanonicalText = Annotated[
    str | None,
    typer.Option("--text", metavar="TEXT", help="The text of the merged note; default: the proposed one."),
]


def register(group: typer.Typer) -> None:
    """Add the commands of this module to the group `note`."""
    for name, function, shown in (
        ("dedup", dedup, ""),
        ("proposals", proposals, printed_by("note_lines", "print_proposals")),
        ("accept", accept, ""),
        ("reject", reject, "proposal {id} is rejected"),
        ("merge", merge, _say_merge),
        ("merges", merges, printed_by("note_lines", "print_merges")),
        ("undo", undo, _say_undo),
    ):
        declared = {"proposals": options_of(PROPOSALS), "merges": options_of(MERGES)}.get(name, ())
        command(group, name, declared, shown=shown)(function)


@contextmanager
def _notes(session: Session, owner: str) -> Iterator[OwnerNotes]:
    with session.engine() as engine:
        try:
            yield engine.notes.of(owner)
        except NoteError as error:
            if error.field != "canonical_text":
                raise
            raise NoteError("--text", error.message) from error


def dedup(
    session: Session,
    owner: Owner = DEFAULT_OWNER,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Also compare notes that were compared before.")
    ] = False,
    server: DedupServer = None,
    key: Key = None,
) -> None:
    """Find notes that say the same.

    Similar notes become proposals, which `shoal note accept` merges. With a chat endpoint (SHOAL_LLM_URL), it
    decides, and what is in doubt becomes a proposal. If it fails, notes wait for the next run, and the exit
    code is 1.

    With --server, the workers of a service do it, as a job, and the command follows it to its end.

    \b
        shoal note dedup
        shoal note dedup --recheck --owner ann
        shoal note dedup --server http://127.0.0.1:8000
    """
    from shoal.cli.terminal import quantity
    from shoal.support.plain_text import one_line

    if server is not None:
        dedup_on(session, server, key, owner=owner, recheck=recheck)
        return
    with _notes(session, owner) as notes:
        result = notes.dedup(recheck=recheck)
    session.show(result, "")
    session.say(
        f"{quantity(result.n_compared, 'note')} compared, {result.n_merged:,} merged into others, "
        f"{quantity(result.n_proposed, 'proposal')}"
    )
    if result.n_proposed:
        session.say("shoal note proposals shows them")
    if result.error:
        session.err.print(
            f"{quantity(result.n_queued, 'note')} still waiting: {one_line(result.error)}",
            markup=False,
            highlight=False,
        )
        raise typer.Exit(1)


def proposals(
    session: Session, owner: Owner = DEFAULT_OWNER, limit: Limit = 50, offset: Offset = 0, **options: Any
) -> ProposalPage:
    """List notes that may say the same and wait for a decision.

    \b
        shoal note proposals
        shoal note proposals --status rejected
    """
    with _notes(session, owner) as notes:
        return notes.proposals(limit=limit, offset=offset, **given(PROPOSALS, options))


def accept(
    session: Session, proposal: ProposalId, owner: Owner = DEFAULT_OWNER, text: CanonicalText = None
) -> MergeProposal:
    """Merge the notes of a proposal.

    Notes that may contradict each other need --text: the text that holds. `shoal note undo` takes a merge
    back.

    \b
        shoal note accept 3
        shoal note accept 4 --text "Use pnpm; npm breaks the lock file."
    """
    with _notes(session, owner) as notes:
        decided = notes.decide(proposal, True, canonical_text=text)
        done = notes.merges(note_id=decided.note_ids[0], limit=1).merges[0]
    _say_merge(session, done)
    return decided


def reject(session: Session, proposal: ProposalId, owner: Owner = DEFAULT_OWNER) -> MergeProposal:
    """Reject a proposal: its notes are not proposed together again.

    \b
        shoal note reject 3
    """
    with _notes(session, owner) as notes:
        return notes.decide(proposal, False)


def merge(
    session: Session,
    notes: Annotated[list[int], typer.Argument(metavar="NOTE...", help="Numbers of 2 to 20 notes.", min=1)],
    owner: Owner = DEFAULT_OWNER,
    text: CanonicalText = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="For the log.")] = "",
) -> NoteMerge:
    """Merge notes that say the same.

    One note survives with the evidence of all; the others are deprecated. Notes that may contradict each
    other need --text.

    \b
        shoal note merge 3 8 --text "Run make migrate before the tests."
    """
    with _notes(session, owner) as owned:
        return owned.merge(notes, canonical_text=text, reason=reason)


def merges(
    session: Session, owner: Owner = DEFAULT_OWNER, limit: Limit = 50, offset: Offset = 0, **options: Any
) -> MergePage:
    """List merges of notes, newest first.

    \b
        shoal note merges
    """
    with _notes(session, owner) as notes:
        return notes.merges(limit=limit, offset=offset, **given(MERGES, options))


def undo(
    session: Session,
    merge: Annotated[int, typer.Argument(metavar="MERGE", help="Number of the merge.", min=1)],
    owner: Owner = DEFAULT_OWNER,
) -> NoteMerge:
    """Undo a merge of notes.

    The absorbed notes are active again, and the survivor is as it was, with the evidence since.

    \b
        shoal note undo 2
    """
    with _notes(session, owner) as notes:
        return notes.undo_merge(merge)


def _say_undo(session: Session, undone: NoteMerge) -> None:
    session.say(f"merge {undone.id} is undone; active again: {', '.join(map(str, undone.absorbed_ids))}")


def _say_merge(session: Session, done: NoteMerge) -> None:
    ids = ", ".join(map(str, done.absorbed_ids))
    session.say(f"note {done.survivor_id} has absorbed {ids} (merge {done.id})")
