"""Carrying out a plan: renames first, then new and changed texts in one job, and only then what is to go.

Each step looks whether the library is still as the plan found it, so that whoever is killed, or is run again, or meets
another one at the same work, finds the rest to do.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.chunking.analysis import NO_TEXT
from shoal.errors import DocumentError, NotFoundError, ShoalError
from shoal.formats.drafts import checked_tags, make_draft
from shoal.formats.file_types import format_of
from shoal.jobs.stages.replace import new_content
from shoal.maintenance.sync.folder import Failed, Folder, TextFile, folder_above, is_refusal, look, read
from shoal.maintenance.sync.ownership import documents_of
from shoal.maintenance.sync.plan import Pair, Plan, Stored, make_plan
from shoal.models import DocumentDraft
from shoal.settings import Settings
from shoal.storage import document_queries, document_writer
from shoal.storage.database import Database
from shoal.storage.file_lock import alone
from shoal.support.clock import timestamp

if TYPE_CHECKING:
    from shoal.engine import Engine
    from shoal.jobs.embedded import Watcher
    from shoal.jobs.ingestion import IngestSession

AS_PLANNED = """
    SELECT 1 FROM documents WHERE id = :id AND source_path = :source_path AND content_hash = :content_hash
"""


MANY = 5
"""Documents of a folder that is there but empty, from which on it is taken for one whose disk is missing. Somebody who
has emptied a folder of fewer is more likely than such a disk."""


class EmptyFolderError(ShoalError):
    """No document of a folder would be left."""


@dataclass(frozen=True, slots=True)
class Change:
    """A document and the name of its file; `before` is the name it had, where that is another."""

    name: str
    document_id: int | None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Warned:
    """A file and what is doubtful of its text, such as a guessed encoding."""

    name: str
    warning: str


@dataclass(frozen=True, slots=True)
class Synced:
    """What was done, or with `dry_run` would be. `vanished`: documents whose files are gone, which stay because nobody
    asked for their deletion, or because their folder is one of `empty`. `same`: files whose text another document has.
    `tagged`: documents that got tags. `warnings`: what is doubtful of texts that were stored. `passed_over`: how many
    files are no texts by their names, by extension."""

    new: tuple[Change, ...]
    changed: tuple[Change, ...]
    renamed: tuple[Change, ...]
    deleted: tuple[Change, ...]
    vanished: tuple[Change, ...]
    same: tuple[Change, ...]
    failed: tuple[Failed, ...]
    unchanged: int
    tagged: int
    empty: tuple[str, ...] = ()
    warnings: tuple[Warned, ...] = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool = False


def sync(
    engine: Engine,
    folder: Path,
    *,
    tags: Sequence[str] = (),
    delete: bool = False,
    force: bool = False,
    dry_run: bool = False,
    processes: int = 1,
    watch: Watcher | None = None,
    watch_reading: Callable[[int], None] = lambda _: None,
) -> Synced:
    """Make the documents of a folder follow its files. They are known by their absolute paths; those that were stored
    under relative ones get theirs (`shoal.maintenance.sync.ownership`).

    `tags` are added to every document of the folder. `delete` removes documents whose files are gone. Without `force` it
    keeps those of a folder that is there but empty, and refuses to leave no document at all: a disk may not be mounted.
    Raises NotFoundError, EmptyFolderError.
    """
    wanted = checked_tags(tags, engine.settings)
    # One after the other: of two that look at once, the slower one would undo what the other has seen change.
    with alone(engine.database.path, "sync"):
        found = look(folder, engine.settings, watch_reading)
        with engine.database.snapshot() as snapshot:
            stored, elsewhere = documents_of(snapshot, found)
        plan = make_plan(found, stored, elsewhere)
        found = dataclasses.replace(found, empty=_perhaps_missing(found, plan))
        is_all = not found.files or len(plan.vanished) == len(stored)
        if delete and plan.vanished and is_all and not force:
            raise EmptyFolderError(_nothing_left(folder, plan, found))
        kept = () if force else frozenset(found.empty)
        going = [one for one in plan.vanished if delete and folder_above(one.name, kept) is None]
        if dry_run:
            return _planned(plan, found, going)
        return _carry_out(engine, plan, found, wanted, going, processes=processes, watch=watch)


def _nothing_left(folder: Path, plan: Plan, found: Folder) -> str:
    n = f"{len(plan.vanished):,}"
    if not found.files:
        return (
            f"there is no text in {folder}, but the library has documents of it ({n}): is it mounted? "
            "--force deletes them all"
        )
    return (
        f"no document of {folder} would be left ({n} of the library, none of them with a file): is this the folder "
        "that you mean? --force deletes them all"
    )


def _perhaps_missing(found: Folder, plan: Plan) -> tuple[str, ...]:
    """The folders that are empty where so much was that something may not be mounted there."""
    empty = frozenset(found.empty)
    n_gone = Counter(folder_above(document.name, empty) for document in plan.vanished)
    return tuple(one for one in found.empty if n_gone[one] >= MANY or (n_gone[one] and one == found.root))


def _planned(plan: Plan, found: Folder, going: Sequence[Stored]) -> Synced:
    return Synced(
        new=tuple(Change(file.name, None) for file in plan.new),
        changed=tuple(_of(pair) for pair in plan.changed),
        renamed=tuple(_of(pair) for pair in plan.kept if pair.is_renamed),
        deleted=_changes(going),
        vanished=_changes(one for one in plan.vanished if one not in going),
        same=tuple(Change(one.file.name, one.document_id) for one in plan.same),
        failed=found.failed,
        unchanged=sum(not pair.is_renamed for pair in plan.kept),
        tagged=0,
        empty=found.empty,
        passed_over=found.passed_over,
        dry_run=True,
    )


def _changes(stored: Iterable[Stored]) -> tuple[Change, ...]:
    return tuple(Change(one.name, one.id) for one in stored)


def _of(pair: Pair) -> Change:
    document, file = pair
    return Change(file.name, document.id, document.source_path if pair.is_renamed else None)


def _carry_out(
    engine: Engine,
    plan: Plan,
    found: Folder,
    tags: tuple[str, ...],
    going: Sequence[Stored],
    *,
    processes: int,
    watch: Watcher | None,
) -> Synced:
    failed = list(found.failed)
    unchanged = [_of(pair) for pair in plan.kept if not pair.is_renamed]
    renamed = [_of(pair) for pair in plan.kept if pair.is_renamed and _rename(engine, pair, failed)]
    taken = _take_in(engine, plan, tags, failed, processes, watch)
    before = {one.file.name: Change(one.file.name, one.document_id) for one in plan.same}
    tagged = _tag(engine, [*unchanged, *renamed, *(one for one in before.values() if one.document_id)], tags)
    deleted = [one for one in going if _delete(engine, one)]
    staying = [one for one in plan.vanished if one not in going]
    return Synced(
        new=tuple(taken.new),
        changed=tuple(taken.changed),
        renamed=tuple(renamed),
        deleted=_changes(deleted),
        vanished=_changes(staying),
        same=(*before.values(), *taken.same),
        failed=tuple(failed),
        unchanged=len(unchanged),
        tagged=tagged,
        empty=found.empty,
        warnings=tuple(taken.warnings),
        passed_over=found.passed_over,
    )


def _rename(engine: Engine, pair: Pair, failed: list[Failed]) -> bool:
    """Let a document follow its file to another name."""
    document, file = pair
    try:
        following = _replacement(engine.database, engine.settings, document.id, file, ())
        if following.content_hash != document.content_hash:
            failed.append(Failed(file.name, "the file changed meanwhile; run it again"))
            return False
        engine.replace(
            document.id,
            content=following.content,
            title=following.title,
            format=following.format,
            tags=following.tags,
            source_path=following.source_path,
        )
    except (DocumentError, NotFoundError) as error:
        failed.append(Failed(file.name, f"{error}; run it again"))
        return False
    return True


@dataclass(slots=True)
class _Taken:
    """What became of files that were new or changed; `same`: their text is stored already by now."""

    new: list[Change] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    same: list[Change] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)


def _take_in(
    engine: Engine,
    plan: Plan,
    tags: tuple[str, ...],
    failed: list[Failed],
    processes: int,
    watch: Watcher | None,
) -> _Taken:
    """Store what is new and what changed."""
    became = _Taken()
    if not (plan.new or plan.changed):
        return became
    taken: list[tuple[TextFile, Stored | None]] = []
    with engine.ingest_session() as ingest_session:
        for file, document in (
            *((file, None) for file in plan.new),
            *((file, one) for one, file in plan.changed),
        ):
            try:
                _add(engine, ingest_session, file, document, tags)
            except (DocumentError, NotFoundError) as error:
                failed.append(Failed(file.name, str(error), is_refused=is_refusal(error)))
            else:
                taken.append((file, document))
        results = ingest_session.finish(processes=processes, watch=watch) if taken else []
    for (file, document), result in zip(taken, results, strict=True):
        change = Change(file.name, result.id)
        if result.error is not None:
            failed.append(Failed(file.name, result.error, is_refused=result.error == NO_TEXT))
        elif document is not None:
            became.changed.append(_of(Pair(document, file)))
        elif result.duplicate is not None:
            became.same.append(change)
        else:
            became.new.append(change)
        became.warnings += [Warned(file.name, warning) for warning in result.warnings]
    return became


def _add(
    engine: Engine,
    ingest_session: IngestSession,
    file: TextFile,
    document: Stored | None,
    tags: tuple[str, ...],
) -> None:
    if document is None:
        ingest_session.add_draft(read(file.path, file.folder, engine.settings, tags))
    else:
        ingest_session.replace(
            document.id, _replacement(engine.database, engine.settings, document.id, file, tags)
        )


def _replacement(
    database: Database, settings: Settings, document_id: int, file: TextFile, tags: tuple[str, ...]
) -> DocumentDraft:
    """The draft that is to replace a document. Title and tags that came from the old text follow the new one; those
    that someone has given stay, and so does a format that the old name does not tell."""
    with database.snapshot() as snapshot:
        stored = document_queries.get_document(snapshot, document_id)
        old = make_draft(
            content=document_queries.get_content(snapshot, document_id),
            settings=settings,
            format=stored.format,
            source_path=stored.source_path,
        )
        is_told = stored.format is format_of(stored.source_path)
        draft = read(file.path, file.folder, settings, tags, None if is_told else stored.format)
        chosen: dict[str, Any] = {"title": draft.title if stored.title == old.title else None}
        given = [tag for tag in stored.tags if tag not in old.tags or tag in tags]
        chosen["tags"] = tuple(dict.fromkeys((*given, *draft.tags)))
        made = new_content(
            snapshot,
            document_id,
            settings,
            content=draft.content,
            format=draft.format,
            source_path=draft.source_path,
            **chosen,
        )
    # The text was bytes before it was this draft; what was doubtful of them is known to the first one only.
    return dataclasses.replace(made, warnings=draft.warnings)


def _tag(engine: Engine, changes: Sequence[Change], tags: tuple[str, ...]) -> int:
    """Add tags to documents that were there before; how many did not have them all."""
    if not tags:
        return 0
    ids = sorted({one.document_id for one in changes if one.document_id is not None})
    with engine.database.snapshot() as snapshot:
        had = document_queries.tags_of(snapshot, ids)
    due = [document_id for document_id in ids if not set(had.get(document_id, ())) >= set(tags)]
    for document_id in due:
        with engine.database.write() as connection:
            document_writer.merge_tags(connection, document_id, tags, now=timestamp())
    return len(due)


def _delete(engine: Engine, document: Stored) -> bool:
    """Remove a document unless it has become another one since, or its file has come back."""
    if os.path.lexists(document.name) and not os.path.isdir(document.name):  # noqa: PTH112
        return False
    with engine.database.snapshot() as snapshot:
        is_as_planned = snapshot.first(AS_PLANNED, document._asdict()) is not None
    return is_as_planned and engine.delete_document(document.id)
