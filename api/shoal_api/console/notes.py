"""Pages of notes: lists and searches, single notes with their evidence, and the forms that change them.

Other pages add notes, compare and merge them, and show a search in notes step by step.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import flask
from markupsafe import Markup
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from shoal.declared.notes import MAX_TEXT_CHARS
from shoal.errors import NoteError, NoteStateError
from shoal.models.notes import KINDS, PROPOSAL_STATUSES, Note, NoteScores
from shoal.notes.notes import OwnerNotes
from shoal.notes.prerequisites import GATES
from shoal.search.matched_terms import Highlighter, find_highlights
from shoal.words.analysis import folded
from shoal_api import service
from shoal_api.console import layout
from shoal_api.console.figures import Share, bar
from shoal_api.console.layout import blueprint, page, respond
from shoal_api.notes import notes_of
from shoal_api.paths import ID

NOTES = 50
RESULTS = 20
CATEGORIES = 300
"""Categories listed beside the notes."""
ENTRIES = 50
"""Latest changes, judgements and merges of a note that are listed."""
COUNTS = 20
"""Most frequent repositories and sets of tags that are listed."""

VERDICTS = {"yes": True, "no": False}
"""Whether a note was applicable, by the value of the button."""
Form = MultiDict[str, str]
ENVIRONMENT = ("os", "repo", "cwd", "mcp_servers", "env_tags")
"""Query parameters that describe an environment."""
KEPT = ("owner", "q", *ENVIRONMENT)
"""Query parameters that go along from a list to a note and back."""
PROPOSALS = 20
MERGES = 20
"""Latest merges of the log that are listed."""


class State(enum.StrEnum):
    """The notes of a list by their state; without one, all active notes."""

    pinned = "pinned"
    not_pinned = "not_pinned"
    all = "all"


STATE_NAMES = {
    State.pinned: "pinned",
    State.not_pinned: "not pinned",
    State.all: "deprecated ones too",
}


class Filters(NamedTuple):
    """Filters of lists and searches; None if not set."""

    category: str | None
    kind: str | None
    tag: str | None


class ScoreStep(NamedTuple):
    """A step of a score: its name, how its value comes about, and the value as text."""

    name: str
    detail: str
    value: str


@blueprint.get("/notes")
@page(*KEPT, *Filters._fields, "state", "page")
def notes() -> tuple[str, Mapping[str, Any]]:
    """List notes of an owner, or search them."""
    of_owner = notes_of(flask.request.args.to_dict())
    args = flask.request.args
    filters = Filters(*(args.get(name) or None for name in Filters._fields))
    categories = of_owner.categories(limit=CATEGORIES + 1)
    query = args.get("q", "").strip()
    find = _results if query else _listed
    return "notes.html", {
        "owner": of_owner.owner,
        "query_params": args,
        "kinds": KINDS,
        "states": [(state.value, name) for state, name in STATE_NAMES.items()],
        "n_proposals": of_owner.proposals(limit=0).total,
        "categories": categories[:CATEGORIES],
        "has_more_categories": len(categories) > CATEGORIES,
        "is_filtered": any(filters) or bool(args.get("state")),
        **find(of_owner, query, filters),
    }


def _listed(of_owner: OwnerNotes, _query: str, filters: Filters) -> Mapping[str, Any]:
    number = layout.page_number()
    state = layout.choice("state", State, "state of notes")
    listed = of_owner.list(
        category=filters.category,
        kind=filters.kind,
        tag=filters.tag,
        include_deprecated=state is State.all,
        pinned={State.pinned: True, State.not_pinned: False}.get(state) if state else None,
        limit=NOTES,
        offset=(number - 1) * NOTES,
    )
    return {"listed": listed, "page": number, "per_page": NOTES, "response": None}


def _results(of_owner: OwnerNotes, query: str, filters: Filters) -> Mapping[str, Any]:
    environment = environment_given()
    response = of_owner.search(
        query,
        category=filters.category,
        kind=filters.kind,
        tags=[filters.tag] if filters.tag else None,
        environment=environment,
        top_k=RESULTS,
        include_scores=True,
    )
    words = frozenset(folded(word) for result in response.results for word in result.matched_words)
    spans = find_highlights([result.note.text for result in response.results], Highlighter(words, ()))
    return {
        "response": response,
        "results": list(zip(response.results, spans, strict=True)),
        "best": max((result.score for result in response.results), default=0.0),
        "has_environment": environment is not None,
    }


@blueprint.get(f"/notes/<{ID}:note_id>")
@page(*KEPT)
def note(note_id: int) -> tuple[str, Mapping[str, Any]]:
    """Show a note with its evidence and, for a query, why it is shown."""
    return "note.html", values_of_note(notes_of(flask.request.args.to_dict()), note_id)


def values_of_note(of_owner: OwnerNotes, note_id: int) -> dict[str, Any]:
    shown = of_owner.get(note_id)
    history, feedback = of_owner.history(note_id), of_owner.feedbacks(note_id)
    query = flask.request.args.get("q", "").strip()
    environment = environment_given()
    return {
        "owner": of_owner.owner,
        "note": shown,
        "query_params": flask.request.args,
        "history": list(reversed(history[-ENTRIES:])),
        "n_history": len(history),
        "feedback": list(reversed(feedback[-ENTRIES:])),
        "n_feedback": len(feedback),
        "repositories": _most_frequent(list(shown.repo_matches.items())),
        "tag_sets": _most_frequent(
            [(", ".join(found.tags), found.n_matches) for found in shown.tag_set_matches]
        ),
        "explanation": of_owner.explain(note_id, query, environment=environment) if query else None,
        "has_environment": environment is not None,
        "merges": of_owner.merges(note_id=note_id, limit=ENTRIES).merges,
        "max_chars": MAX_TEXT_CHARS,
        "problem": None,
        "given": {},
        "added": None,
        "gate_names": GATES,
        "gate_texts": {gate: "\n".join(shown.prerequisites[gate]) for gate in GATES},
    }


def _most_frequent(counts: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    return sorted(counts, key=lambda entry: (-entry[1], entry[0]))[:COUNTS]


def _pin(of_owner: OwnerNotes, note_id: int, form: Form) -> None:
    of_owner.pin(note_id, tags=split(form["tags"]))


def _unpin(of_owner: OwnerNotes, note_id: int, _form: Form) -> None:
    of_owner.unpin(note_id)


def _deprecate(of_owner: OwnerNotes, note_id: int, form: Form) -> None:
    of_owner.deprecate(note_id, reason=form["reason"])


def _restore(of_owner: OwnerNotes, note_id: int, _form: Form) -> None:
    of_owner.restore(note_id)


def _judge(of_owner: OwnerNotes, note_id: int, form: Form) -> None:
    tags = split(form["tags"])
    of_owner.feedback(
        note_id,
        applicable=VERDICTS.get(form["applicable"]),  # type: ignore[arg-type]  # None is refused
        reason=form["reason"],
        environment={"tags": tags} if tags else None,
    )


def _edit(of_owner: OwnerNotes, note_id: int, form: Form) -> None:
    of_owner.update(note_id, title=form["title"], text=typed_text(form["text"]))


def _set_tags(of_owner: OwnerNotes, note_id: int, form: Form) -> None:
    of_owner.update(note_id, tags=[*form.getlist("tag"), *split(form["more"])])


def _set_categories(of_owner: OwnerNotes, note_id: int, form: Form) -> None:
    added, kept_paths = typed_lines(form["more_categories"]), form.getlist("category")
    removed = set(of_owner.get(note_id).categories) - {*kept_paths, *added}
    of_owner.categorize(note_id, add=added, remove=sorted(removed))


def _set_prerequisites(of_owner: OwnerNotes, note_id: int, form: Form) -> None:
    of_owner.update(note_id, prerequisites=typed_prerequisites(form))


ACTIONS: Mapping[str, Callable[[OwnerNotes, int, Form], None]] = {
    "pin": _pin,
    "unpin": _unpin,
    "deprecate": _deprecate,
    "restore": _restore,
    "feedback": _judge,
    "edit": _edit,
    "tags": _set_tags,
    "categories": _set_categories,
    "prerequisites": _set_prerequisites,
}


@blueprint.post(f"/notes/<{ID}:note_id>/<any({', '.join(ACTIONS)}):action>")
@page(*KEPT)
def change_note(note_id: int, action: str) -> Response:
    """Change a note as a form says, and show it again; if that is not possible, with the reason and the
    form as it was sent."""
    of_owner = notes_of(flask.request.args.to_dict())
    try:
        ACTIONS[action](of_owner, note_id, flask.request.form)
    except (NoteError, NoteStateError) as error:
        values = values_of_note(of_owner, note_id)
        values |= {"problem": str(error), "given": flask.request.form}
        return respond("note.html", values, status=409 if isinstance(error, NoteStateError) else 422)
    return flask.redirect(note_address(note_id), 303)


def typed_text(text: str) -> str:
    """Return the text of a form as it was typed: browsers send every line end as CR LF."""
    return text.replace("\r\n", "\n")


def typed_lines(text: str) -> list[str]:
    """Return the lines of a field with one value a line, without blank ones."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def typed_prerequisites(form: Form) -> dict[str, list[str]]:
    """Return the prerequisites of a form, which has a field for each gate."""
    return {gate: typed_lines(form[gate]) for gate in GATES}


def split(text: str) -> list[str]:
    return [part.strip() for part in text.split(layout.LIST_SEPARATOR) if part.strip()]


def environment_given() -> Mapping[str, Any] | None:
    """The environment that the query parameters describe; None if they say nothing."""
    args = flask.request.args
    given = {
        **{name: args.get(name, "").strip() for name in ("os", "repo", "cwd")},
        "mcp_servers": layout.texts("mcp_servers"),
        "tags": layout.texts("env_tags"),
    }
    return {name: value for name, value in given.items() if value} or None


def kept(*names: str) -> dict[str, Any]:
    """Return those of some query parameters that the request has."""
    return {name: value for name in names if (value := flask.request.args.get(name))}


@blueprint.app_template_global()
def note_address(note_id: int) -> str:
    """Return the URL of a note of this owner, for the same query and environment."""
    return flask.url_for("console.note", note_id=note_id, **kept(*KEPT))


@blueprint.app_template_global()
def notes_address(*, tag: str | None = None, category: str | None = None, q: str | None = None) -> str:
    """Return the URL of the list of this owner's notes with a filter or query."""
    return flask.url_for("console.notes", **kept("owner"), tag=tag, category=category, q=q)


@blueprint.app_template_global()
def note_action(note_id: int, action: str) -> str:
    """Return the URL to which a form of a note is sent."""
    return flask.url_for("console.change_note", note_id=note_id, action=action, **kept(*KEPT))


@blueprint.app_template_global()
def proposals_address(status: str | None = None) -> str:
    """Return the URL of the proposals to merge notes of this owner."""
    return flask.url_for("console.note_proposals", **kept("owner"), status=status)


@blueprint.app_template_global()
def decision_address(proposal_id: int, decision: str) -> str:
    """Return the URL to which a decision on a proposal is sent."""
    return flask.url_for(
        "console.decide_proposal",
        proposal_id=proposal_id,
        decision=decision,
        **kept("owner", "status"),
    )


@blueprint.app_template_global()
def undo_address(merge_id: int) -> str:
    """Return the URL to which a form that undoes a merge is sent."""
    return flask.url_for("console.undo_merge", merge_id=merge_id, **kept(*KEPT))


@blueprint.app_template_global()
def kept_query() -> list[tuple[str, str]]:
    """Return the query parameters that the forms of a note keep besides their own."""
    return list(kept("owner").items())


@blueprint.app_template_global()
def note_score_shares(scores: NoteScores) -> list[Share]:
    """Return what words, reefs, similarity and relevance add to the score of a note."""
    shares = [
        Share("lexical", "words", (scores.words_part + scores.passage_part) * scores.affinity),
        Share("reef", "reefs", scores.reefs_part * scores.affinity),
        Share("dense", "vectors", scores.vectors_part * scores.affinity),
        Share("dense", "similarity", scores.similarity_part * scores.affinity),
        Share("boost", "time and speaker", _other_parts(scores) * scores.affinity),
        Share("relevance", "relevance", scores.relevance_part),
    ]
    return [share for share in shares if share.value > 0]


def _other_parts(scores: NoteScores) -> float:
    return scores.turn_part + scores.recency_part + scores.fact_part


@blueprint.app_template_global()
def note_score_bar(scores: NoteScores, best: float) -> Markup:
    """Draw the parts of a note's score, in proportion to `best`."""
    shares = note_score_shares(scores)
    total = sum(share.value for share in shares)
    if best <= 0 or not total:
        return bar([])
    scale = max(0.0, scores.final) / best / total
    return bar(
        [
            share._replace(value=share.value * scale, title=f"{share.name} {share.value:.4f}")
            for share in shares
        ]
    )


@blueprint.app_template_global()
def score_steps(scores: NoteScores) -> list[ScoreStep]:
    """Return how the score of a note came about, in the order of the ranking."""
    tags, relevance = scores.tag_similarity, scores.relevance
    return [
        ScoreStep("words", f"BM25 {scores.bm25:.2f}", f"{scores.words_part:.4f}"),
        ScoreStep("reefs", f"overlap {scores.overlap:.2f}", f"{scores.reefs_part:.4f}"),
        *(
            [ScoreStep("vectors", f"cosine {scores.cosine:.2f}", f"{scores.vectors_part:.4f}")]
            if scores.cosine is not None
            else []
        ),
        ScoreStep("similarity", "", f"{scores.similarity_part:.4f}"),
        ScoreStep("passage", "", f"{scores.passage_part:.4f}"),
        ScoreStep("turn", "", f"{scores.turn_part:.4f}"),
        ScoreStep("recency", "", f"{scores.recency_part:.4f}"),
        ScoreStep("fact", "", f"{scores.fact_part:.4f}"),
        ScoreStep("signals", "the sum of these", f"{scores.signals:.4f}"),
        ScoreStep(
            "affinity",
            "no tags to compare" if tags is None else f"tags {tags:.2f} similar",
            f"× {scores.affinity:.2f}",
        ),
        ScoreStep(
            "relevance",
            "not judged with these tags" if relevance is None else f"judged {relevance:+.2f} on average",
            f"{'−' if scores.relevance_part < 0 else '+'} {abs(scores.relevance_part):.4f}",
        ),
        ScoreStep("score", "", f"{scores.final:.4f}"),
    ]


@blueprint.app_template_global()
def note_gates(note: Note) -> list[str]:
    """Return the prerequisites of a note as text, one for each gate."""
    return [
        f"{gate.replace('_', ' ')} {', '.join(values)}"
        for gate, values in note.prerequisites.items()
        if values
    ]


@blueprint.app_template_global()
def note_heading(note: Note) -> str:
    """Return the title of a note, or its number."""
    return note.title or f"Note {note.id}"


@blueprint.app_template_filter()
def as_text(value: Any) -> str:
    """Return a former value of a field as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)


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
