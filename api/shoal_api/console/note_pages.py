"""Pages that add notes, compare and merge them, and show a search in notes step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.declared.notes import MAX_TEXT_CHARS
from shoal.errors import NoteError, NoteStateError
from shoal.models.notes import KINDS, PROPOSAL_STATUSES
from shoal.notes.notes import OwnerNotes
from shoal.notes.prerequisites import GATES
from shoal_api import service
from shoal_api.console import layout
from shoal_api.console.layout import blueprint, page, respond
from shoal_api.console.notes import (
    ENVIRONMENT,
    KEPT,
    RESULTS,
    Filters,
    environment_given,
    kept,
    note_address,
    split,
    typed_lines,
    typed_prerequisites,
    typed_text,
    values_of_note,
)
from shoal_api.notes import notes_of
from shoal_api.paths import ID


@blueprint.get("/notes/new")
@page("owner")
def new_note() -> tuple[str, Mapping[str, Any]]:
    """Show the form for a new note."""
    return "note_new.html", _values(notes_of(flask.request.args.to_dict()))


def _values(of_owner: OwnerNotes) -> dict[str, Any]:
    return {
        "owner": of_owner.owner,
        "kinds": KINDS,
        "gate_names": GATES,
        "max_chars": MAX_TEXT_CHARS,
        "problem": None,
        "given": {},
    }


@blueprint.post("/notes/new")
@page(*KEPT)
def add_note() -> Response:
    """Store the note of the form and lead to its page. If there are similar notes, or its text is stored
    already, its page says so at once."""
    of_owner, form = notes_of(flask.request.args.to_dict()), flask.request.form
    try:
        added = of_owner.add(
            typed_text(form["text"]),
            kind=form["kind"],
            title=form["title"],
            tags=split(form["tags"]),
            categories=typed_lines(form["categories"]),
            prerequisites=typed_prerequisites(form),
            verified="verified" in form,
        )
    except NoteError as error:
        values = _values(of_owner) | {"problem": str(error), "given": form}
        return respond("note_new.html", values, status=422)
    if added.is_duplicate or added.similar:
        return respond("note.html", values_of_note(of_owner, added.note.id) | {"added": added})
    return flask.redirect(note_address(added.note.id), 303)


@blueprint.post("/notes/dedup")
@page("owner")
def compare_notes() -> Response:
    """Start a job that compares the notes that wait with the others, and lead to the page of the job."""
    here = service.current()
    job = here.engine.jobs.submit_dedup(
        notes_of(flask.request.args.to_dict()).owner, recheck="recheck" in flask.request.form
    )
    here.notify()
    return flask.redirect(flask.url_for("console.job", job_id=job.id), 303)


@blueprint.app_template_global()
def new_note_address() -> str:
    """Return the URL of the form for a new note of this owner."""
    return flask.url_for("console.new_note", **kept("owner"))


@blueprint.app_template_global()
def compare_address() -> str:
    """Return the URL to which the form that compares the notes of this owner is sent."""
    return flask.url_for("console.compare_notes", **kept("owner"))


PROPOSALS = 20
MERGES = 20
"""Latest merges of the log that are listed."""


@blueprint.get("/notes/proposals")
@page("owner", "status", "page")
def note_proposals() -> tuple[str, Mapping[str, Any]]:
    """List proposals to merge notes, and the latest merges."""
    return "note_proposals.html", _merge_values(notes_of(flask.request.args.to_dict()))


def _merge_values(of_owner: OwnerNotes) -> dict[str, Any]:
    status = flask.request.args.get("status") or PROPOSAL_STATUSES[0]
    number = layout.page_number()
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
    of_owner = notes_of(flask.request.args.to_dict())
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
    of_owner = notes_of(flask.request.args.to_dict())
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
        values = _merge_values(of_owner)
        values |= {"problem": str(error), "given": flask.request.form, "given_for": proposal_id}
        return respond(
            "note_proposals.html", values, status=409 if isinstance(error, NoteStateError) else 422
        )
    return flask.redirect(after, 303)


FILTERS = ("owner", "q", *Filters._fields, *ENVIRONMENT)


@blueprint.get("/notes/explain")
@page(*FILTERS)
def note_search_steps() -> tuple[str, Mapping[str, Any]]:
    """Show what each step of a search contributed, and how it moved the best notes."""
    of_owner, args = notes_of(flask.request.args.to_dict()), flask.request.args
    environment = environment_given()
    query, tag = args.get("q", "").strip(), args.get("tag")
    steps = query and of_owner.search_steps(
        query,
        category=args.get("category") or None,
        kind=args.get("kind") or None,
        tags=[tag] if tag else None,
        environment=environment,
        top_k=RESULTS,
    )
    return "note_search_steps.html", {
        "owner": of_owner.owner,
        "query_params": args,
        "has_environment": environment is not None,
        "steps": steps or None,
    }


@blueprint.app_template_global()
def note_steps_address() -> str:
    """Return the URL of the steps of this search."""
    return flask.url_for("console.note_search_steps", **kept(*FILTERS))


@blueprint.app_template_global()
def note_search_address() -> str:
    """Return the URL of the results of this search."""
    return flask.url_for("console.notes", **kept(*FILTERS))


@blueprint.app_template_global()
def kept_filters() -> list[tuple[str, str]]:
    """Return the owner and the filters that the form of the steps keeps."""
    return list(kept("owner", *Filters._fields).items())
