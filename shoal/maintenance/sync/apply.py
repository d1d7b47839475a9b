"""Applies a plan: first renames, then new and changed texts in one job, and last deletions.

Each step checks that the library still matches the plan, so that an interrupted or concurrent sync can be
repeated. What needs numpy is imported when something is written: loading it takes longer than a sync without
changes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.conversion.folder_listing import EVERYTHING, Selection, Skipped, count_skipped, is_listable
from shoal.conversion.folder_rights import rights_of_file
from shoal.errors import (
    DocumentError,
    EmptyDocumentError,
    JobStateError,
    NotFoundError,
    ShoalError,
    StorageError,
)
from shoal.formats.drafts import checked_tags, format_of, make_draft
from shoal.library.library import Library
from shoal.maintenance.sync.folder import (
    HASH_OF_FILE,
    Failed,
    Folder,
    FolderDocument,
    Pair,
    Plan,
    TextFile,
    basis_of_hashes,
    documents_of,
    folder_above,
    hash_of,
    is_refusal,
    make_plan,
    read,
    read_folder,
    root_of,
)
from shoal.models.documents import DocumentDraft
from shoal.models.files import FileDraft
from shoal.storage import document_queries
from shoal.storage.source_stamps import StampedFile, stamps_below, write_stamps
from shoal.support.clock import timestamp

if TYPE_CHECKING:
    from shoal.jobs.in_process import IngestSession, Watcher

IS_AS_PLANNED = f"""
    SELECT 1 FROM documents
    WHERE id = :id AND source_path = :source_path AND {HASH_OF_FILE} = :content_hash
"""


MOUNT_POINT_DOCUMENTS = 5
"""An empty folder with at least this many documents is treated as a mount point without its disk. With fewer,
it is more likely that the user has emptied it."""


class EmptyFolderError(ShoalError, code="empty_folder"):
    """The sync would delete all documents of a folder."""


@dataclass(frozen=True, slots=True)
class Change:
    """A document and the name of its file. `before`: the previous name, if it has changed."""

    name: str
    document_id: int | None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Warned:
    """A file and a warning about its text, such as a guessed encoding."""

    name: str
    warning: str


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The changes of a sync, or those it would make with `dry_run`.

    `vanished`: documents that stay although their files no longer exist, because deletion was not requested
    or because their folder is one of `empty`. `same`: files whose text another document has. `tagged`: number
    of stored documents that got tags. `warnings`: warnings about stored texts. `skipped`: files, links and
    folders that were not read; `skipped_files`: how many of each kind.
    """

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
    skipped: tuple[Skipped, ...] = ()
    skipped_files: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool = False


def sync(
    library: Library,
    folder: Path,
    *,
    tags: Sequence[str],
    tag_all: bool,
    delete: bool,
    force: bool,
    dry_run: bool,
    processes: int,
    watch: Watcher | None,
    watch_reading: Callable[[int], None],
    selection: Selection = EVERYTHING,
    checksum: bool = False,
) -> SyncResult:
    """Update the documents of a folder to match its files; `Maintenance.sync` describes the arguments."""
    given_tags = checked_tags(tags, library.settings)
    # Serialized: the slower of two concurrent syncs would undo the changes of the other.
    with library.database.alone("sync"):
        basis = basis_of_hashes(library.settings)
        with library.database.snapshot() as snapshot:
            known = stamps_below(snapshot, root_of(folder), basis)
        content = read_folder(folder, library.settings, watch_reading, selection, {} if checksum else known)
        with library.database.snapshot() as snapshot:
            stored, elsewhere = documents_of(snapshot, content)
        plan = make_plan(content, stored, elsewhere)
        content = dataclasses.replace(content, empty=_possible_mount_points(content, plan))
        is_all = not content.files or len(plan.vanished) == len(stored)
        if delete and plan.vanished and is_all and not force:
            raise EmptyFolderError(_empty_folder_message(folder, plan, content))
        kept = () if force else frozenset(content.empty)
        to_delete = [
            document for document in plan.vanished if delete and folder_above(document.name, kept) is None
        ]
        if dry_run:
            return _dry_run(plan, content, to_delete)
        _write_stamps(library, content, known, basis)
        return _apply(
            library, plan, content, given_tags, to_delete, tag_all=tag_all, processes=processes, watch=watch
        )


def _write_stamps(library: Library, content: Folder, known: Mapping[str, StampedFile], basis: str) -> None:
    """Write the stamps of files that were read, and forget those of files that are gone."""
    present = {file.name: StampedFile(file.stamp, file.content_hash) for file in content.files if file.stamp}
    new = {name: file for name, file in present.items() if known.get(name) != file}
    gone = [
        name
        for name in known.keys() - present.keys()
        if is_listable(name, content.root, content.selection) and folder_above(name, content.unseen) is None
    ]
    # They are a cache: a full disk must not fail a sync that has nothing else to write.
    with contextlib.suppress(StorageError):
        write_stamps(library.database, new, gone, basis)


def _empty_folder_message(folder: Path, plan: Plan, content: Folder) -> str:
    n = f"{len(plan.vanished):,}"
    if not content.files:
        return (
            f"there is no text in {folder}, but the library has {n} documents of it: is it mounted? "
            "--force deletes them all"
        )
    return (
        f"no document of {folder} would be left (the library has {n}, all without a file): is this the right "
        "folder? --force deletes them all"
    )


def _possible_mount_points(content: Folder, plan: Plan) -> tuple[str, ...]:
    """The empty folders whose documents are so many that a disk may not be mounted there."""
    empty = frozenset(content.empty)
    n_vanished = Counter(folder_above(document.name, empty) for document in plan.vanished)
    return tuple(
        name
        for name in content.empty
        if n_vanished[name] >= MOUNT_POINT_DOCUMENTS or (n_vanished[name] and name == content.root)
    )


def _dry_run(plan: Plan, content: Folder, to_delete: Sequence[FolderDocument]) -> SyncResult:
    return SyncResult(
        new=tuple(Change(file.name, None) for file in plan.new),
        changed=tuple(_change(pair) for pair in plan.changed),
        renamed=tuple(_change(pair) for pair in plan.kept if pair.is_renamed),
        deleted=_changes(to_delete),
        vanished=_changes(document for document in plan.vanished if document not in to_delete),
        same=tuple(Change(entry.file.name, entry.document_id) for entry in plan.same),
        failed=content.failed,
        unchanged=sum(not pair.is_renamed for pair in plan.kept),
        tagged=0,
        empty=content.empty,
        skipped=content.skipped,
        skipped_files=count_skipped(content.skipped),
        dry_run=True,
    )


def _changes(stored: Iterable[FolderDocument]) -> tuple[Change, ...]:
    return tuple(Change(document.name, document.id) for document in stored)


def _change(pair: Pair) -> Change:
    document, file = pair
    return Change(file.name, document.id, document.source_path if pair.is_renamed else None)


def _apply(
    library: Library,
    plan: Plan,
    content: Folder,
    tags: tuple[str, ...],
    to_delete: Sequence[FolderDocument],
    *,
    tag_all: bool,
    processes: int,
    watch: Watcher | None,
) -> SyncResult:
    failed = list(content.failed)
    unchanged = [_change(pair) for pair in plan.kept if not pair.is_renamed]
    renamed = [_change(pair) for pair in plan.kept if pair.is_renamed and _rename(library, pair, failed)]
    outcome = _ingest(library, plan, tags, failed, processes, watch)
    same = {entry.file.name: Change(entry.file.name, entry.document_id) for entry in plan.same}
    same_stored = [change for change in same.values() if change.document_id]
    tagged = _tag(library, [*unchanged, *renamed, *outcome.changed, *same_stored], tags) if tag_all else 0
    _set_rights(library, content, [*unchanged, *renamed, *outcome.changed], failed)
    deleted = [document for document in to_delete if _delete(library, document)]
    kept = [document for document in plan.vanished if document not in to_delete]
    return SyncResult(
        new=tuple(outcome.new),
        changed=tuple(outcome.changed),
        renamed=tuple(renamed),
        deleted=_changes(deleted),
        vanished=_changes(kept),
        same=(*same.values(), *outcome.same),
        failed=tuple(failed),
        unchanged=len(unchanged),
        tagged=tagged,
        empty=content.empty,
        warnings=tuple(outcome.warnings),
        skipped=content.skipped,
        skipped_files=count_skipped(content.skipped),
    )


def _rename(library: Library, pair: Pair, failed: list[Failed]) -> bool:
    """Give a document the new name of its file. Returns whether this succeeded."""
    from shoal.library.documents import Documents

    document, file = pair
    try:
        replacement = _replacement(library, document.id, file, ())
        if hash_of(replacement) != document.content_hash:
            failed.append(Failed(file.name, "the file changed during the sync; run it again"))
            return False
        if isinstance(replacement, FileDraft):
            return _rename_converted(library, document.id, replacement)
        Documents(library).replace(
            document.id,
            content=replacement.content,
            title=replacement.title,
            format=replacement.format,
            tags=replacement.tags,
            source_path=replacement.source_path,
        )
    except (DocumentError, NotFoundError) as error:
        failed.append(Failed(file.name, f"{error}; run it again"))
        return False
    return True


def _rename_converted(library: Library, document_id: int, file: FileDraft) -> bool:
    """Give a converted document the new name of its file, without converting it again."""
    from shoal.storage import document_writer

    with library.database.write() as transaction:
        stored = document_queries.get_draft(transaction, document_id)
        draft = dataclasses.replace(stored, source_path=file.source_path, tags=file.tags)
        document_writer.update_head(transaction, document_id, draft, now=timestamp())
    return True


@dataclass(slots=True)
class _Outcome:
    """The result of new and changed files. `same`: files whose text was stored meanwhile."""

    new: list[Change] = field(default_factory=list)
    changed: list[Change] = field(default_factory=list)
    same: list[Change] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)


def _ingest(
    library: Library,
    plan: Plan,
    tags: tuple[str, ...],
    failed: list[Failed],
    processes: int,
    watch: Watcher | None,
) -> _Outcome:
    """Store new and changed files."""
    outcome = _Outcome()
    if not (plan.new or plan.changed):
        return outcome
    added: list[tuple[TextFile, FolderDocument | None]] = []
    with library.ingest_session() as ingest_session:
        for file, document in (
            *((file, None) for file in plan.new),
            *((file, document) for document, file in plan.changed),
        ):
            try:
                _add(library, ingest_session, file, document, tags)
            except (DocumentError, NotFoundError) as error:
                failed.append(Failed(file.name, str(error), is_refused=is_refusal(error)))
            else:
                added.append((file, document))
        results = ingest_session.finish(processes=processes, watch=watch) if added else []
    for (file, document), result in zip(added, results, strict=True):
        change = Change(file.name, result.id)
        if result.error is not None:
            is_refused = result.error_code == EmptyDocumentError.code
            failed.append(Failed(file.name, result.error, is_refused=is_refused))
        elif document is not None:
            outcome.changed.append(_change(Pair(document, file)))
        elif result.duplicate is not None:
            outcome.same.append(change)
        else:
            outcome.new.append(change)
        outcome.warnings += [Warned(file.name, warning) for warning in result.warnings]
    return outcome


def _add(
    library: Library,
    ingest_session: IngestSession,
    file: TextFile,
    document: FolderDocument | None,
    tags: tuple[str, ...],
) -> None:
    if document is None:
        ingest_session.add_draft(read(file.path, file.folder, library.settings, tags))
    else:
        ingest_session.replace(document.id, _replacement(library, document.id, file, tags))


def _replacement(
    library: Library, document_id: int, file: TextFile, tags: tuple[str, ...]
) -> DocumentDraft | FileDraft:
    """The draft that replaces a document. A title derived from the old text is derived again. A given title
    stays, and so does a format that differs from that of the old name.

    Tags change as those in the front matter do, except that `tags` stay. So a tag that a person removed stays
    away while the front matter still names it. A file to convert keeps title, tags and metadata.
    """
    from shoal.jobs.stages.replace import new_content

    with library.database.snapshot() as snapshot:
        stored = document_queries.get_document(snapshot, document_id)
        old = make_draft(
            content=document_queries.get_content(snapshot, document_id),
            settings=library.settings,
            format=stored.format,
            source_path=stored.source_path,
        )
        is_converted = document_queries.describe_file(snapshot, document_id) is not None
        has_format_of_name = is_converted or stored.format is format_of(stored.source_path)
        format_of_file = None if has_format_of_name else stored.format
        draft = read(file.path, file.folder, library.settings, format=format_of_file)
        if isinstance(draft, FileDraft):
            kept_tags = tuple(dict.fromkeys((*stored.tags, *tags)))
            return dataclasses.replace(
                draft,
                title=stored.title,
                tags=kept_tags,
                metadata=stored.metadata,
                chunk_tokens=stored.chunk_tokens,
                rights=draft.rights or stored.rights,
                language=stored.language if stored.is_language_given else None,
            )
        kept = [tag for tag in stored.tags if tag in draft.tags or tag in tags or tag not in old.tags]
        added = [tag for tag in draft.tags if tag not in old.tags]
        replacement = new_content(
            snapshot,
            document_id,
            library.settings,
            content=draft.content,
            format=draft.format,
            source_path=draft.source_path,
            title=draft.title if stored.title == old.title else None,
            tags=tuple(dict.fromkeys((*kept, *added))),
        )
    # Only the draft read from the file has warnings about its bytes, such as a guessed encoding.
    return dataclasses.replace(
        replacement, warnings=draft.warnings, rights=draft.rights or replacement.rights
    )


def _tag(library: Library, changes: Sequence[Change], tags: tuple[str, ...]) -> int:
    """Add tags to existing documents. Returns how many lacked a tag."""
    from shoal.storage import document_writer

    if not tags:
        return 0
    ids = sorted({change.document_id for change in changes if change.document_id is not None})
    with library.database.snapshot() as snapshot:
        stored_tags = document_queries.tags_of(snapshot, ids)
    outdated = [document_id for document_id in ids if not set(stored_tags.get(document_id, ())) >= set(tags)]
    for document_id in outdated:
        with library.database.write() as transaction:
            document_writer.merge_tags(transaction, document_id, tags, now=timestamp())
    return len(outdated)


def _set_rights(library: Library, content: Folder, changes: Sequence[Change], failed: list[Failed]) -> None:
    """Give stored documents the rights that `.shoal-access` above their files names, if they have others."""
    from shoal.library.documents import Documents

    file_of = {file.name: file for file in content.files}
    documents = Documents(library)
    for change in changes:
        file = file_of.get(change.name)
        if file is None or change.document_id is None:
            continue
        try:
            rights = rights_of_file(file.path, file.folder) if file.folder is not None else None
            if rights is None or documents.get(change.document_id).document.rights == rights:
                continue
            documents.change(change.document_id, allow=rights.allow, deny=rights.deny)
        except (DocumentError, JobStateError, NotFoundError) as error:
            failed.append(Failed(file.name, f"who may see it was not stored: {error}"))


def _delete(library: Library, document: FolderDocument) -> bool:
    """Delete a document unless it has changed since the plan, or its file exists again."""
    from shoal.library.documents import Documents

    if os.path.lexists(document.name) and not os.path.isdir(document.name):  # noqa: PTH112
        return False
    with library.database.snapshot() as snapshot:
        is_as_planned = snapshot.first(IS_AS_PLANNED, document._asdict()) is not None
    return is_as_planned and Documents(library).delete(document.id)
