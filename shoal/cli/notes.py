"""The commands `shoal note …`: short texts that agents remember, of one owner each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import note_extraction, note_merges
from shoal.cli.search_options import given, options_of, values_of
from shoal.cli.session import Limit, Offset, Owner, Session, add_group, json_form, printed_by, split_tags
from shoal.cli.terminal import quantity
from shoal.declared.notes import NEW_NOTE, NOTE_CHANGES, NOTE_LIST, NOTE_SEARCH, RECALL
from shoal.errors import NoteError
from shoal.models.notes import (
    AddedNote,
    CategoryCount,
    ForgottenNotes,
    Note,
    NoteExplanation,
    NoteOutcomes,
    NotePage,
    NoteResponse,
    Recall,
)

if TYPE_CHECKING:
    from shoal.notes.environment import Environment
    from shoal.notes.notes import OwnerNotes

DEFAULT_OWNER = "default"
MAX_INPUT_CHARS = 100_000
"""Most characters of a text that is read from stdin; the limit of a note is smaller."""
GATES = {"os": "os", "repo": "repos", "path": "paths", "mcp": "mcp_servers"}
"""Names of prerequisites in `--requires` -> in a note."""

NoteId = Annotated[int, typer.Argument(metavar="NOTE", help="Number of the note.", min=1)]
Query = Annotated[
    str, typer.Argument(metavar="QUERY", help="What you want to know: a question, a prompt, a command.")
]


Requires = Annotated[
    list[str] | None,
    typer.Option(
        "--requires",
        metavar="GATE=VALUE",
        help="Show the note only where this holds: os=linux, repo=shop, path=/work/*, mcp=github. "
        "Repeatable.",
    ),
]
SessionId = Annotated[str | None, typer.Option("--session", metavar="ID", help="The session of the agent.")]
Here = Annotated[
    bool, typer.Option("--here", help="Check prerequisites in the working folder, and let its tags weigh.")
]
OF_NEW = {name: each for name, each in NEW_NOTE.items() if name not in ("prerequisites", "source")}
OF_CHANGES = {name: each for name, each in NOTE_CHANGES.items() if name != "prerequisites"}
OF_SEARCH = {name: each for name, each in NOTE_SEARCH.items() if name != "environment"}

OPTIONS = {
    "add": options_of(OF_NEW),
    "update": options_of(OF_CHANGES, has_defaults=False),
    "list": options_of(NOTE_LIST),
    "search": options_of(OF_SEARCH),
    "recall": options_of(RECALL),
}
"""Declared options by command. `--requires` stands for `prerequisites`, `--here` for an `environment`."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = add_group(
        app,
        "note",
        "Keep short texts that agents remember.\n\nNotes are lessons, facts and experiences, of one "
        "owner each. They are found by words and reefs, and judged by feedback.",
        ("add", add, _say_added),
        ("list", list_notes, printed_by("note_lines", "print_notes")),
        ("show", show, printed_by("note_lines", "print_note")),
        ("search", search, printed_by("note_lines", "print_found")),
        ("explain", explain, printed_by("note_lines", "print_explanation")),
        ("update", update, "note {id} is changed"),
        ("deprecate", deprecate, "note {id} is deprecated"),
        ("restore", restore, "note {id} is active"),
        ("forget", forget, _say_forgotten),
        ("purge", purge, _say_purged),
        ("feedback", feedback, "note {id} is judged"),
        ("pin", pin, "note {id} is pinned"),
        ("unpin", unpin, "note {id} is not pinned"),
        ("categorize", categorize, _say_categories),
        ("categories", categories, printed_by("note_lines", "print_categories")),
        ("remember", remember, ""),
        ("recall", recall, "{response}"),
        ("extract", note_extraction.extract, ""),
        ("status", note_extraction.status, ""),
        declared=OPTIONS,
    )
    note_merges.register(group)


@contextmanager
def _notes(session: Session, owner: str | None, *, must_exist: bool = True) -> Iterator[OwnerNotes]:
    with session.engine(must_exist=must_exist) as engine:
        yield engine.notes.of(engine.settings.note_owner if owner is None else owner)


def add(
    session: Session,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The note; - reads it from stdin.")],
    owner: Owner = None,
    requires: Requires = None,
    **options: Any,
) -> AddedNote:
    """Add a note.

    A text that the owner has already is counted again. Warns of notes that say nearly the same, or the
    opposite.

    \b
        shoal note add "Run the migrations before the tests." --tags python,pytest
        shoal note add "Use make serve." --requires repo=shop --category build/local
        git log -1 --format=%B | shoal note add - --owner ann
    """
    fields = given(OF_NEW, options)
    if requires:
        fields["prerequisites"] = _gates(requires)
    with _notes(session, owner, must_exist=False) as notes:
        return notes.add(_read(text), **fields)


def _say_added(session: Session, added: AddedNote) -> None:
    from shoal.cli.note_lines import print_similar

    note_id, times = added.note.id, added.note.occurrence_count
    session.say(
        f"note {note_id} has this text; counted {times} times" if added.is_duplicate else f"note {note_id}"
    )
    print_similar(session.err, json_form(added.similar))


def list_notes(
    session: Session,
    owner: Owner = None,
    limit: Limit = 50,
    offset: Offset = 0,
    **options: Any,
) -> NotePage:
    """List notes by number.

    \b
        shoal note list --category build
        shoal note list --owner ann --tag python --json | jq -r '.notes[].text'
    """
    with _notes(session, owner) as notes:
        return notes.list(limit=limit, offset=offset, **given(NOTE_LIST, options))


def show(session: Session, note: NoteId, owner: Owner = None) -> dict[str, Any]:
    """Show a note with its evidence, its judgements and its history.

    \b
        shoal note show 7
    """
    with _notes(session, owner) as notes:
        return {
            **json_form(notes.get(note)),
            "feedback": notes.feedbacks(note),
            "history": notes.history(note),
        }


def search(
    session: Session,
    query: Query,
    owner: Owner = None,
    here: Here = False,
    **options: Any,
) -> NoteResponse:
    """Find notes for a query, best first.

    QUERY has no operators, so that it may be a prompt. --here leaves out notes whose prerequisites do not
    hold in the working folder, and those that were judged not applicable there.

    \b
        shoal note search "why do the tests hang" --here
        shoal note search "deploy" --owner ann --category build --scores
    """
    arguments = given(OF_SEARCH, options)
    arguments["include_scores"] = options["include_scores"] or session.as_json
    with _notes(session, owner) as notes:
        return notes.search(query, environment=_environment(session, here), **arguments)


def explain(
    session: Session, note: NoteId, query: Query, owner: Owner = None, here: Here = False
) -> NoteExplanation:
    """Explain step by step why a note is shown for a query, or why not.

    \b
        shoal note explain 7 "why do the tests hang" --here
    """
    with _notes(session, owner) as notes:
        return notes.explain(note, query, environment=_environment(session, here))


def update(
    session: Session,
    note: NoteId,
    owner: Owner = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="The new text; - reads it from stdin.")
    ] = None,
    requires: Requires = None,
    anywhere: Annotated[bool, typer.Option("--anywhere", help="Remove all prerequisites.")] = False,
    **options: Any,
) -> Note:
    """Change fields of a note.

    Only the named fields change; tags, prerequisites and metadata replace the old ones.

    \b
        shoal note update 7 --text "Run make migrate before the tests." --verified
        shoal note update 7 --tags "" --anywhere
    """
    if requires and anywhere:
        raise typer.BadParameter("cannot be combined with --requires", param_hint="--anywhere")
    changes = values_of(OF_CHANGES, options)
    if text is not None:
        changes["text"] = _read(text)
    if requires or anywhere:
        changes["prerequisites"] = {} if anywhere else _gates(requires)
    if not changes:
        raise typer.BadParameter("name a field to change, such as --text or --tags", param_hint="NOTE")
    with _notes(session, owner) as notes:
        return notes.update(note, **changes)


def deprecate(
    session: Session,
    note: NoteId,
    owner: Owner = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")] = "",
) -> Note:
    """Hide a note from searches and pins.

    `shoal note restore` takes this back, until a purge.

    \b
        shoal note deprecate 7 --reason "the tests no longer need it"
    """
    with _notes(session, owner) as notes:
        return notes.deprecate(note, reason=reason)


def restore(session: Session, note: NoteId, owner: Owner = None) -> Note:
    """Make a deprecated note active again.

    \b
        shoal note restore 7
    """
    with _notes(session, owner) as notes:
        return notes.restore(note)


def forget(session: Session, note: NoteId, owner: Owner = None) -> ForgottenNotes:
    """Delete a note for good, and refuse its text from then on.

    Notes of the owner with the same text, and those merged into one of them, are deleted with it. A digest of
    each text stays. Nothing takes this back.

    \b
        shoal note forget 7
    """
    with _notes(session, owner) as notes:
        return notes.forget(note)


def _say_forgotten(session: Session, forgotten: ForgottenNotes) -> None:
    session.say(f"{quantity(len(forgotten.note_ids), 'note')} forgotten")


def purge(
    session: Session,
    owner: Owner = None,
    before: Annotated[
        datetime | None,
        typer.Option("--before", metavar="DATE", help="Only those deprecated before this date, UTC."),
    ] = None,
) -> dict[str, int]:
    """Delete deprecated notes for good.

    \b
        shoal note purge --before 2026-01-31
    """
    moment = None if before is None else before.replace(tzinfo=UTC)
    with _notes(session, owner) as notes:
        return {"n_purged": notes.purge(before=moment)}


def _say_purged(session: Session, purged: dict[str, int]) -> None:
    session.say(f"{quantity(purged['n_purged'], 'note')} deleted")


def feedback(
    session: Session,
    note: NoteId,
    applicable: Annotated[
        bool, typer.Option("--applicable/--not-applicable", help="Whether the note helped.")
    ],
    owner: Owner = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")] = "",
    tag_score: Annotated[
        list[str] | None,
        typer.Option("--tag-score", metavar="TAG=X", help="Judge one tag, -1 to 1. Repeatable."),
    ] = None,
    requires: Requires = None,
    session_id: SessionId = None,
    here: Here = False,
) -> Note:
    """Judge whether a note was applicable.

    Its relevance for the tags of the environment changes, and its pin may. --requires adds prerequisites.

    \b
        shoal note feedback 7 --applicable --here
        shoal note feedback 7 --not-applicable --reason "only on the server" --requires os=linux
    """
    with _notes(session, owner) as notes:
        return notes.feedback(
            note,
            applicable=applicable,
            reason=reason,
            tag_scores=_tag_scores(tag_score),
            add_prerequisites=_gates(requires),
            session_id=session_id or "",
            environment=_environment(session, here),
        )


def pin(
    session: Session,
    note: NoteId,
    owner: Owner = None,
    tags: Annotated[
        str | None,
        typer.Option(
            "--tags", metavar="A,B", help="The pin counts where all of these hold; default: everywhere."
        ),
    ] = None,
    requires: Requires = None,
) -> Note:
    """Show a note at the start of every session.

    --tags limits the pin to environments with all of them. --requires replaces the prerequisites of the note.

    \b
        shoal note pin 7 --tags python
    """
    with _notes(session, owner) as notes:
        return notes.pin(
            note, tags=None if tags is None else split_tags(tags), prerequisites=_gates(requires)
        )


def unpin(session: Session, note: NoteId, owner: Owner = None) -> Note:
    """Take the pin of a note back.

    \b
        shoal note unpin 7
    """
    with _notes(session, owner) as notes:
        return notes.unpin(note)


def categorize(
    session: Session,
    note: NoteId,
    owner: Owner = None,
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="PATH", help="Add to this category. Repeatable.")
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="PATH", help="Remove from this category. Repeatable."),
    ] = None,
) -> Note:
    """Add a note to categories, and remove it from others.

    \b
        shoal note categorize 7 --add build/docker --remove misc
    """
    if not (add or remove):
        raise typer.BadParameter("use --add or --remove", param_hint="NOTE")
    with _notes(session, owner) as notes:
        return notes.categorize(note, add=add or (), remove=remove or ())


def _say_categories(session: Session, note: Note) -> None:
    session.say(f"note {note.id}: categories: {', '.join(note.categories) or 'none'}")


def categories(session: Session, owner: Owner = None) -> dict[str, Sequence[CategoryCount]]:
    """List categories with their numbers of active notes.

    \b
        shoal note categories
    """
    with _notes(session, owner) as notes:
        return {"categories": notes.categories()}


def remember(
    session: Session,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What was learned.")] = None,
    owner: Owner = None,
    topic: Annotated[str, typer.Option("--topic", metavar="TEXT", help="Its subject.")] = "",
    confidence: Annotated[
        float, typer.Option("--confidence", min=0.0, max=1.0, help="How sure it is; at most 0.8 is refused.")
    ] = 1.0,
    tags: Annotated[
        str | None, typer.Option("--tags", metavar="A,B", help="Where the note helps, with commas.")
    ] = None,
    session_id: SessionId = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="Items instead of TEXT: one JSON object with content, topic and confidence per line, or "
            "with speaker, content, session_id and said_at for a turn of a conversation.",
        ),
    ] = None,
) -> None:
    """Store what an agent learned, unless it is short, doubtful, unspecific or known.

    An item that says nearly the same as a stored note counts as another occurrence of it. With --file, the
    exit code is 1 if an item is refused.

    \b
        shoal note remember "List comprehensions are faster than loops." --topic Python
        shoal note remember --file learned.jsonl --owner ann
    """
    if (text is None) == (file is None):
        raise typer.BadParameter("give either TEXT or --file", param_hint="TEXT")
    if file is not None:
        items: list[Any] = list(_lines(file))
    else:
        item = {"content": text, "topic": topic, "confidence": confidence, "tags": split_tags(tags)}
        items = [{**item, **_given(session_id=session_id)}]
    with _notes(session, owner, must_exist=False) as notes:
        stored = notes.remember(items)
    if text is not None and isinstance(stored[0], NoteError):
        raise stored[0]
    outcomes = NoteOutcomes.of(stored)
    session.show(outcomes, printed_by("note_lines", "print_outcomes"))
    if outcomes.n_refused:
        raise typer.Exit(1)


def recall(session: Session, query: Query, owner: Owner = None, **options: Any) -> Recall:
    """Recall what is known about a question, as text for a prompt.

    \b
        shoal note recall "how do I make Python faster" --owner ann
        shoal note recall "where does Ann live" --valid-at 2025-02-01
    """
    with _notes(session, owner) as notes:
        return notes.recall(query, **given(RECALL, options))


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _read(text: str) -> str:
    """Return a text, or what is on stdin for `-`."""
    return sys.stdin.read(MAX_INPUT_CHARS) if text == "-" else text


def _gates(requires: Sequence[str] | None) -> dict[str, list[str]] | None:
    """The prerequisites that `--requires` names; None without the option."""
    if not requires:
        return None
    gates: dict[str, list[str]] = {}
    for required in requires:
        name, _, value = required.partition("=")
        if name not in GATES or not value:
            raise typer.BadParameter(
                f"{required[:50]!r} must be GATE=VALUE with one of {', '.join(GATES)}",
                param_hint="--requires",
            )
        gates.setdefault(GATES[name], []).append(value)
    return gates


def _tag_scores(given: Sequence[str] | None) -> dict[str, float] | None:
    if not given:
        return None
    scores = {}
    for each in given:
        tag, _, number = each.rpartition("=")
        try:
            scores[tag] = float(number)
        except ValueError:
            scores[tag] = 2.0
        if not tag or not -1 <= scores[tag] <= 1:
            raise typer.BadParameter(
                f"{each[:50]!r} must be TAG=X with X from -1 to 1", param_hint="--tag-score"
            )
    return scores


def _lines(file: Path) -> Iterator[Any]:
    """Yield the items of a file with one JSON object per line; a text in place of one that is not JSON."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip():
                yield _parsed_line(line)


def _parsed_line(line: str) -> Mapping[str, Any] | str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line
    return value if isinstance(value, dict) else line


def _environment(session: Session, here: bool) -> Environment | None:
    """The environment of the working folder, if it counts."""
    if not here:
        return None
    from shoal.notes.environment import detect
    from shoal.support.patterns import parse_path_tags

    return detect(Path.cwd(), path_tags=parse_path_tags(session.settings().note_path_tags))
