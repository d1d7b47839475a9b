"""The commands `shoal synonyms` and `shoal acronyms`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.search_options import given, of_operation, options_of, values_of
from shoal.cli.session import Limit, Offset, Session, add_group, print_json
from shoal.cli.terminal import quantity
from shoal.declared.operations.library import SynonymOperations
from shoal.errors import SynonymError
from shoal.models.synonyms import Acronym, AcronymPage, AcronymScan, Synonym, SynonymPage
from shoal.support.plain_text import one_line

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Largest file of an import: twice what all entries of a library can have."""
LISTED = of_operation(SynonymOperations.synonyms)
LISTED_ACRONYMS = of_operation(SynonymOperations.acronyms)

Words = Annotated[list[str], typer.Argument(metavar="WORD...", help="Words; phrases in quotes.")]
Root = Annotated[
    str | None,
    typer.Option("--root", metavar="WORD", help="Only this word also finds the others (one-way)."),
]
EntryId = Annotated[int, typer.Argument(metavar="ID", min=1, help="Number of the entry.")]
AcronymId = Annotated[int, typer.Argument(metavar="ID", min=1, help="Number of the acronym.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    add_group(
        app,
        "synonyms",
        "Keep words that searches take for each other.\n\nA word of a query also finds its synonyms, which "
        "count a little less than the word itself. Phrases in quotes and codes stay exact.",
        ("list", list_entries, _say_entries),
        ("add", add, _say_entry),
        ("replace", replace, _say_entry),
        ("delete", delete, "entry {deleted} deleted"),
        ("export", export, lambda _, entries: print_json(entries)),
        ("import", import_entries, ""),
        declared={"list": options_of(LISTED)},
    )
    add_group(
        app,
        "acronyms",
        "Find acronyms with their expansions in the documents, and decide on them.\n\nA confirmed one, such "
        "as WHO and World Health Organization, becomes a synonym.",
        ("scan", scan, _say_scan),
        ("list", list_acronyms, ""),
        ("confirm", confirm, _say_acronym),
        ("reject", reject, _say_acronym),
        declared={"list": options_of(LISTED_ACRONYMS)},
    )


def list_entries(session: Session, limit: Limit = 50, offset: Offset = 0, **options: Any) -> SynonymPage:
    """List the synonyms of the library.

    \b
        shoal synonyms list --containing car
    """
    with session.engine() as engine:
        return engine.vocabulary.synonyms.list(limit=limit, offset=offset, **given(LISTED, options))


def _say_entries(session: Session, page: SynonymPage) -> None:
    for entry in page.synonyms:
        _say_entry(session, entry)
    session.say_rest(len(page.synonyms), page.total, "no synonyms")


def add(session: Session, words: Words, root: Root = None) -> Synonym:
    """Add words that find each other; with --root, only that word also finds the others.

    \b
        shoal synonyms add car automobile "motor car"
        shoal synonyms add --root vehicle car lorry
    """
    with session.engine() as engine:
        return engine.vocabulary.synonyms.add(words, root=root)


def replace(session: Session, entry: EntryId, words: Words, root: Root = None) -> Synonym:
    """Replace an entry by other words.

    \b
        shoal synonyms replace 3 car automobile
    """
    with session.engine() as engine:
        return engine.vocabulary.synonyms.replace(entry, words, root=root)


def delete(session: Session, entry: EntryId) -> dict[str, int]:
    """Delete an entry.

    \b
        shoal synonyms delete 3
    """
    with session.engine() as engine:
        engine.vocabulary.synonyms.delete(entry)
    return {"deleted": entry}


def export(session: Session) -> dict[str, Any]:
    """Print all entries as JSON, for `shoal synonyms import`.

    \b
        shoal synonyms export > synonyms.json
    """
    with session.engine() as engine:
        return {"synonyms": engine.vocabulary.synonyms.export()}


def import_entries(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of an export; - reads stdin.")],
    replace: Annotated[bool, typer.Option("--replace", help="Delete all former entries first.")] = False,
) -> None:
    """Add the entries of a JSON file, all or none.

    The file has the form of an export: {"synonyms": [{"synonyms": ["car", "automobile"]}, {"root": "vehicle",
    "synonyms": ["car"]}]}. Entries that contradict others are left out and listed.

    \b
        shoal synonyms import synonyms.json
        shoal synonyms import synonyms.json --replace
    """
    with session.engine() as engine:
        done = engine.vocabulary.synonyms.import_all(_read(file), replace=replace)
    session.show(done, "{stored:,} entries added, {duplicates:,} known")
    for reason in done.refused:
        session.warn(f"left out: {one_line(reason)}")


def scan(
    session: Session,
    max_seconds: Annotated[
        float | None,
        typer.Option("--max-seconds", metavar="S", min=0, help="Stop after this time; a new scan goes on."),
    ] = None,
) -> AcronymScan:
    """Look for acronyms in documents that are new or changed since the last scan.

    \b
        shoal acronyms scan
    """
    with session.engine() as engine:
        return engine.vocabulary.acronyms.scan(max_seconds=max_seconds)


def _say_scan(session: Session, done: AcronymScan) -> None:
    session.say(f"{quantity(done.scanned, 'document')} read, {done.new:,} new acronyms")
    if done.n_unscanned:
        session.say(f"{quantity(done.n_unscanned, 'document')} left; scan again")


def list_acronyms(session: Session, limit: Limit = 50, offset: Offset = 0, **options: Any) -> AcronymPage:
    """List the acronyms that a scan found, those in most documents first.

    \b
        shoal acronyms list
        shoal acronyms list --status confirmed
    """
    with session.engine() as engine:
        page = engine.vocabulary.acronyms.list(
            limit=limit, offset=offset, **values_of(LISTED_ACRONYMS, options)
        )
    for each in page.acronyms:
        _say_acronym(session, each)
    session.say_rest(len(page.acronyms), page.total, f"no {options['status']} acronyms")
    if page.n_unscanned:
        session.say(f"{quantity(page.n_unscanned, 'document')} not scanned yet: `shoal acronyms scan`")
    return page


def confirm(session: Session, acronym: AcronymId) -> Acronym:
    """Make an acronym and its expansion synonyms.

    \b
        shoal acronyms confirm 3
    """
    with session.engine() as engine:
        return engine.vocabulary.acronyms.confirm(acronym)


def reject(session: Session, acronym: AcronymId) -> Acronym:
    """Reject an acronym: it is not proposed again, and its synonym is deleted.

    \b
        shoal acronyms reject 3
    """
    with session.engine() as engine:
        return engine.vocabulary.acronyms.reject(acronym)


def _read(file: Path) -> Any:
    """The entries of a file. Raises SynonymError."""
    if str(file) == "-":
        data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    else:
        with file.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise SynonymError("file", f"is larger than {MAX_FILE_BYTES:,} bytes, which is the limit")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SynonymError("file", f"is not JSON ({error})") from None
    entries = document.get("synonyms") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise SynonymError("file", 'must be {"synonyms": [...]}, or a list of entries')
    return entries


def _say_entry(session: Session, entry: Synonym) -> None:
    root = "" if entry.root is None else f"{one_line(entry.root)} → "
    session.say(f"{entry.id:>5}  {root}{', '.join(map(one_line, entry.synonyms))}")


def _say_acronym(session: Session, acronym: Acronym) -> None:
    pair = f"{one_line(acronym.acronym)}  {one_line(acronym.expansion)}"
    session.say(f"{acronym.id:>5}  {pair}  ({acronym.status}, {quantity(acronym.n_documents, 'document')})")
