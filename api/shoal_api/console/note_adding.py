"""The form that adds a note, and the form that starts a comparison of notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flask
from werkzeug.wrappers import Response

from shoal.declared.notes import MAX_TEXT_CHARS
from shoal.errors import NoteError
from shoal.models.notes import KINDS
from shoal.notes.notes import OwnerNotes
from shoal.notes.prerequisites import GATES
from shoal_api import service
from shoal_api.console.layout import blueprint, page, respond
from shoal_api.console.notes import (
    KEPT,
    kept,
    note_address,
    split,
    typed_lines,
    typed_prerequisites,
    typed_text,
    values_of_note,
)
from shoal_api.notes import notes_of


@blueprint.get("/notes/new")
@page("owner")
def new_note() -> tuple[str, Mapping[str, Any]]:
    """Show the form for a new note."""
    return "note_new.html", _values(notes_of(flask.request.args))


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
    of_owner, form = notes_of(flask.request.args), flask.request.form
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
        notes_of(flask.request.args).owner, recheck="recheck" in flask.request.form
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
