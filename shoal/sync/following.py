"""Carrying out a plan: renames first, then new and changed texts in one job, and only then what is to go.

Each step looks whether the library is still as the plan found it, so that whoever is killed, or is run again, or meets
another one at the same work, finds the rest to do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.clock import timestamp
from shoal.errors import DocumentError, NotFoundError, ShoalError
from shoal.jobs.replacing import new_content
from shoal.models import DocumentDraft
from shoal.parse.draft import checked_tags, make_draft
from shoal.settings import Settings
from shoal.storage import catalogue, documents
from shoal.storage.database import Database, Snapshot
from shoal.sync.folder import Failed, Folder, TextFile, look, read
from shoal.sync.plan import Pair, Plan, Stored, make_plan

if TYPE_CHECKING:
    from shoal.engine import Engine
    from shoal.intake import Intake
    from shoal.jobs.local import Watcher

# Documents whose source path lies below a folder; the bounds are the folder with `/` and with what follows `/`.
BELOW = """
    SELECT id, source_path, content_hash, source_path FROM documents WHERE source_path >= :first AND source_path < :beyond
"""
AS_PLANNED = """
    SELECT 1 FROM documents WHERE id = :id AND source_path = :source_path AND content_hash = :content_hash
"""


class EmptyFolderError(ShoalError):
    """Every document of a folder would be deleted."""


@dataclass(frozen=True, slots=True)
class Change:
    """A document and the name of its file; `before` is the name it had, where that is another."""

    name: str
    document_id: int | None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Synced:
    """What was done, or with `dry_run` would be. `vanished`: documents whose files are gone, which stay because nobody
    asked for their deletion. `same`: files whose text another document has. `tagged`: documents that got tags."""

    new: tuple[Change, ...]
    changed: tuple[Change, ...]
    renamed: tuple[Change, ...]
    deleted: tuple[Change, ...]
    vanished: tuple[Change, ...]
    same: tuple[Change, ...]
    failed: tuple[Failed, ...]
    unchanged: int
    tagged: int
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
    """Make the documents below `folder` those that the library has of it. They are known by their absolute paths.

    `tags` are added to every document of the folder. `delete` removes documents whose files are gone; a folder without
    any text is taken for one that is not mounted, unless `force`. Raises NotFoundError, EmptyFolderError.
    """
    wanted = checked_tags(tags, engine.settings)
    with _alone(engine.database.path):
        found = look(folder, engine.settings, watch_reading)
        with engine.database.snapshot() as snapshot:
            stored = _stored(snapshot, found, folder)
            plan = make_plan(found, stored, _elsewhere(snapshot, found, stored))
        if delete and plan.vanished and not found.files and not force:
            raise EmptyFolderError(
                f"there is no text in {folder}, but the library has documents of it ({len(plan.vanished):,}): is it mounted? "
                "--force deletes them all"
            )
        if dry_run:
            return _planned(plan, found, delete=delete)
        return _carry_out(engine, plan, found, wanted, delete=delete, processes=processes, watch=watch)


@contextlib.contextmanager
def _alone(database: Path) -> Iterator[None]:
    """One after the other: of two that look at once, the slower one would undo what the other has seen change."""
    with database.with_name(f"{database.name}.sync-lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _stored(snapshot: Snapshot, found: Folder, given: Path) -> list[Stored]:
    """The documents of a folder; also those that were ingested under the folder's name as it is given, as far as their
    files are there: others may have come from elsewhere under such a name."""
    stored = _below(snapshot, found.root)
    if not given.is_absolute() and str(given) != ".":
        known = {file.name for file in found.files}
        length = len(str(given))
        for one in _below(snapshot, str(given)):
            name = found.root + one.name[length:]
            if name in known:
                stored.append(one._replace(name=name))
    return stored


def _below(snapshot: Snapshot, root: str) -> list[Stored]:
    bounds = {"first": f"{root.rstrip('/')}/", "beyond": f"{root.rstrip('/')}0"}
    return [Stored(*row) for row in snapshot.tuples(BELOW, bounds)]


def _elsewhere(snapshot: Snapshot, found: Folder, stored: Sequence[Stored]) -> dict[str, int]:
    own = {one.content_hash for one in stored}
    hashes = {file.content_hash for file in found.files} - own
    ids = {one: documents.document_with(snapshot, one) for one in hashes}
    return {one: document_id for one, document_id in ids.items() if document_id is not None}


def _planned(plan: Plan, found: Folder, *, delete: bool) -> Synced:
    gone = tuple(Change(one.name, one.id) for one in plan.vanished)
    return Synced(
        new=tuple(Change(file.name, None) for file in plan.new),
        changed=tuple(_of(pair) for pair in plan.changed),
        renamed=tuple(_of(pair) for pair in plan.kept if pair.is_renamed),
        deleted=gone if delete else (),
        vanished=() if delete else gone,
        same=tuple(Change(one.file.name, one.document_id) for one in plan.same),
        failed=found.failed,
        unchanged=sum(not pair.is_renamed for pair in plan.kept),
        tagged=0,
        dry_run=True,
    )


def _of(pair: Pair) -> Change:
    document, file = pair
    return Change(file.name, document.id, document.source_path if pair.is_renamed else None)


def _carry_out(
    engine: Engine,
    plan: Plan,
    found: Folder,
    tags: tuple[str, ...],
    *,
    delete: bool,
    processes: int,
    watch: Watcher | None,
) -> Synced:
    failed = list(found.failed)
    unchanged = [_of(pair) for pair in plan.kept if not pair.is_renamed]
    renamed = [_of(pair) for pair in plan.kept if pair.is_renamed and _rename(engine, pair, failed)]
    new, changed, same = _take_in(engine, plan, tags, failed, processes, watch)
    before = {one.file.name: Change(one.file.name, one.document_id) for one in plan.same}
    tagged = _tag(engine, [*unchanged, *renamed, *(one for one in before.values() if one.document_id)], tags)
    gone = [one for one in plan.vanished if not delete or _delete(engine, one)]
    left = tuple(Change(one.name, one.id) for one in gone)
    return Synced(
        new=tuple(new),
        changed=tuple(changed),
        renamed=tuple(renamed),
        deleted=left if delete else (),
        vanished=() if delete else left,
        same=(*before.values(), *same),
        failed=tuple(failed),
        unchanged=len(unchanged),
        tagged=tagged,
    )


def _rename(engine: Engine, pair: Pair, failed: list[Failed]) -> bool:
    """Let a document follow its file to another name."""
    document, file = pair
    try:
        draft = read(file.path, engine.settings)
        if draft.content_hash != document.content_hash:
            failed.append(Failed(file.name, "the file changed meanwhile; run it again"))
            return False
        following = _replacement(engine.database, engine.settings, document.id, draft, ())
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


def _take_in(
    engine: Engine,
    plan: Plan,
    tags: tuple[str, ...],
    failed: list[Failed],
    processes: int,
    watch: Watcher | None,
) -> tuple[list[Change], list[Change], list[Change]]:
    """Store what is new and what changed; what became of it: new, changed, and stored already by now."""
    new: list[Change] = []
    changed: list[Change] = []
    same: list[Change] = []
    if not (plan.new or plan.changed):
        return new, changed, same
    taken: list[tuple[TextFile, Stored | None]] = []
    with engine.intake() as intake:
        for file, document in (
            *((file, None) for file in plan.new),
            *((file, one) for one, file in plan.changed),
        ):
            try:
                _add(engine, intake, file, document, tags)
            except (DocumentError, NotFoundError) as error:
                failed.append(Failed(file.name, str(error)))
            else:
                taken.append((file, document))
        results = intake.finish(processes=processes, watch=watch) if taken else []
    for (file, document), result in zip(taken, results, strict=True):
        change = Change(file.name, result.id)
        if result.error is not None:
            failed.append(Failed(file.name, result.error))
        elif document is not None:
            changed.append(change)
        elif result.duplicate is not None:
            same.append(change)
        else:
            new.append(change)
    return new, changed, same


def _add(
    engine: Engine, intake: Intake, file: TextFile, document: Stored | None, tags: tuple[str, ...]
) -> None:
    draft = read(file.path, engine.settings, tags)
    if document is None:
        intake.add_draft(draft)
    else:
        intake.replace(document.id, _replacement(engine.database, engine.settings, document.id, draft, tags))


def _replacement(
    database: Database, settings: Settings, document_id: int, draft: DocumentDraft, tags: tuple[str, ...]
) -> DocumentDraft:
    """The draft that is to replace a document. Title and tags that came from the old text follow the new one; those
    that someone has given stay."""
    with database.snapshot() as snapshot:
        stored = catalogue.get_document(snapshot, document_id)
        old = make_draft(
            content=catalogue.get_content(snapshot, document_id),
            settings=settings,
            format=stored.format,
            source_path=stored.source_path,
        )
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
        had = catalogue.tags_of(snapshot, ids)
    due = [document_id for document_id in ids if not set(had.get(document_id, ())) >= set(tags)]
    for document_id in due:
        with engine.database.write() as connection:
            documents.merge_tags(connection, document_id, tags, now=timestamp())
    return len(due)


def _delete(engine: Engine, document: Stored) -> bool:
    """Remove a document unless it has become another one since."""
    with engine.database.snapshot() as snapshot:
        is_as_planned = snapshot.first(AS_PLANNED, document._asdict()) is not None
    return is_as_planned and engine.delete_document(document.id)
