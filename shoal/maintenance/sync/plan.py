"""Plans the changes of a sync by comparing names and hashes. Changes nothing itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shoal.maintenance.sync.folder import Folder, TextFile, folder_above


class Stored(NamedTuple):
    """A document of the folder. `name`: the name of its file. `content_hash`: SHA-256 (hex) of its text.
    `source_path` may differ from `name` in form."""

    id: int
    name: str
    content_hash: str
    source_path: str


class Pair(NamedTuple):
    """A document and its file."""

    document: Stored
    file: TextFile

    @property
    def is_renamed(self) -> bool:
        return self.document.source_path != self.file.name


class Same(NamedTuple):
    """A file whose text another document has. `document_id` is None if this sync stores that document."""

    file: TextFile
    document_id: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """`kept`: documents whose text is unchanged, though the file may be renamed. `changed`: documents whose
    files have another text. `vanished`: documents whose files no longer exist."""

    kept: tuple[Pair, ...]
    changed: tuple[Pair, ...]
    new: tuple[TextFile, ...]
    same: tuple[Same, ...]
    vanished: tuple[Stored, ...]


def make_plan(folder: Folder, stored: Sequence[Stored], elsewhere: Mapping[str, int]) -> Plan:
    """Compare files and documents. `stored`: documents of this folder. `elsewhere`: ids of other documents by
    hash.

    Hashes are matched before names, so that renamed and swapped files keep their documents. If several
    documents belong to one file, the newest follows it.
    """
    files_with: dict[str, list[TextFile]] = defaultdict(list)
    for file in folder.files:
        files_with[file.content_hash].append(file)
    kept: list[Pair] = []
    same: list[Same] = []
    unmatched: dict[str, list[Stored]] = defaultdict(list)
    vanished: list[Stored] = []
    for document in sorted(stored, key=lambda document: -document.id):
        holders = files_with.pop(document.content_hash, [])
        if not holders:
            unmatched[document.name].append(document)
            continue
        file = next((file for file in holders if file.name == document.name), holders[0])
        kept.append(Pair(document, file))
        same += [Same(holder, document.id) for holder in holders if holder is not file]
    changed: list[Pair] = []
    new: list[TextFile] = []
    for content_hash, holders in files_with.items():
        if content_hash in elsewhere:
            same += [Same(file, elsewhere[content_hash]) for file in holders]
            continue
        # Several files may have the same new text: prefer the first that has a document to update.
        first = next((file for file in holders if unmatched.get(file.name)), holders[0])
        if outdated := unmatched.get(first.name):
            changed.append(Pair(outdated.pop(0), first))
        else:
            new.append(first)
        same += [Same(file, None) for file in holders if file is not first]
    unseen = folder.unseen
    vanished += [
        document
        for documents in unmatched.values()
        for document in documents
        if folder_above(document.name, unseen) is None
    ]
    return Plan(
        kept=_by_name(kept),
        changed=_by_name(changed),
        new=tuple(sorted(new, key=lambda file: file.name)),
        same=tuple(sorted(same, key=lambda entry: entry.file.name)),
        vanished=tuple(sorted(vanished, key=lambda document: (document.name, document.id))),
    )


def _by_name(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    return tuple(sorted(pairs, key=lambda pair: pair.file.name))
