"""The page of notes that may say the same: proposals to decide on, and the log of merges, which can be
undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.declared.notes import MAX_TEXT_CHARS
from shoal.errors import NoteError, NoteStateError
from shoal.models.notes import PROPOSAL_STATUSES
from shoal.notes.notes import OwnerNotes
from shoal_api.console import query_params
from shoal_api.console.layout import blueprint, page, respond
from shoal_api.console.notes import KEPT, kept, note_address, typed_text
from shoal_api.notes import notes_of
from shoal_api.paths import ID

PROPOSALS = 20
MERGES = 20
"""Latest merges of the log that are listed."""


@blueprint.get("/notes/proposals")
@page("owner", "status", "page")
def note_proposals() -> tuple[str, Mapping[str, Any]]:
    """List proposals to merge notes, and the latest merges."""
    return "note_proposals.html", _values(notes_of(flask.request.args))


def _values(of_owner: OwnerNotes) -> dict[str, Any]:
    status = flask.request.args.get("status") or PROPOSAL_STATUSES[0]
    number = query_params.page_number()
    return {
        "owner": of_owner.owner,
        "status": status,
        "statuses": PROPOSAL_STATUSES,
        "listed": of_owner.proposals(status=status, limit=PROPOSALS, offset=(number - 1) * PROPOSALS),
        "log": of_owner.merges(limit=MERGES),
        "page": number,
        "per_page": PROPOSALS,
        "max_chars": MAX_TEXT_CHARS,
        "problem": None,
        "given": {},
        "given_for": None,
    }


@blueprint.post(f"/notes/proposals/<{ID}:proposal_id>/<any(accept, reject):decision>")
@page("owner", "status")
def decide_proposal(proposal_id: int, decision: str) -> Response:
    """Merge the notes of a proposal, or reject it."""
    of_owner = notes_of(flask.request.args)
    is_accepted = decision == "accept"
    text = typed_text(flask.request.form["canonical_text"]) if is_accepted else None
    return _done(
        of_owner,
        lambda: of_owner.decide(proposal_id, is_accepted, canonical_text=text or None),
        flask.url_for("console.note_proposals", **kept("owner", "status")),
        proposal_id,
    )


@blueprint.post(f"/notes/merges/<{ID}:merge_id>/undo")
@page(*KEPT)
def undo_merge(merge_id: int) -> Response:
    """Undo a merge, and show the note from which the form was sent, or the list of merges."""
    of_owner = notes_of(flask.request.args)
    note_id = flask.request.form.get("note", type=int)
    after = (
        flask.url_for("console.note_proposals", **kept("owner")) if note_id is None else note_address(note_id)
    )
    return _done(of_owner, lambda: of_owner.undo_merge(merge_id), after)


def _done(
    of_owner: OwnerNotes, change: Callable[[], object], after: str, proposal_id: int | None = None
) -> Response:
    """Make a change and lead to the page after it; if it is not possible, say why, with what was sent."""
    try:
        change()
    except (NoteError, NoteStateError) as error:
        values = _values(of_owner)
        values |= {"problem": str(error), "given": flask.request.form, "given_for": proposal_id}
        return respond(
            "note_proposals.html", values, status=409 if isinstance(error, NoteStateError) else 422
        )
    return flask.redirect(after, 303)
