"""What has to be done so that a library follows a folder. Compares names and hashes, and touches nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shoal.maintenance.sync.folder import Folder, TextFile, folder_above


class Stored(NamedTuple):
    """A document of the folder: its id, the name of its file, the SHA-256 (hex) of its text, and its source path, which
    may say the name in another way."""

    id: int
    name: str
    content_hash: str
    source_path: str


class Pair(NamedTuple):
    """A document and the file that it is to follow."""

    document: Stored
    file: TextFile

    @property
    def is_renamed(self) -> bool:
        return self.document.source_path != self.file.name


class Same(NamedTuple):
    """A file that needs no document of its own: another one has its text. `document_id` is None where that is to be
    stored now."""

    file: TextFile
    document_id: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """`kept`: documents whose files say what they said, under whatever name; `changed`: those whose files say something
    else; `vanished`: those whose files are gone."""

    kept: tuple[Pair, ...]
    changed: tuple[Pair, ...]
    new: tuple[TextFile, ...]
    same: tuple[Same, ...]
    vanished: tuple[Stored, ...]


def make_plan(folder: Folder, stored: Sequence[Stored], elsewhere: Mapping[str, int]) -> Plan:
    """`stored`: documents of this folder; `elsewhere`: ids of other documents by the hash of their text.

    A text is recognised by what it says before it is by its name, so that a file that was renamed, or two that changed
    places, keep their documents. Of several documents of one file the newest follows it.
    """
    files_with: dict[str, list[TextFile]] = defaultdict(list)
    for file in folder.files:
        files_with[file.content_hash].append(file)
    kept: list[Pair] = []
    same: list[Same] = []
    rest: dict[str, list[Stored]] = defaultdict(list)
    vanished: list[Stored] = []
    for document in sorted(stored, key=lambda one: -one.id):
        holders = files_with.pop(document.content_hash, [])
        if not holders:
            rest[document.name].append(document)
            continue
        file = next((file for file in holders if file.name == document.name), holders[0])
        kept.append(Pair(document, file))
        same += [Same(other, document.id) for other in holders if other is not file]
    changed: list[Pair] = []
    new: list[TextFile] = []
    for content_hash, holders in files_with.items():
        if content_hash in elsewhere:
            same += [Same(file, elsewhere[content_hash]) for file in holders]
            continue
        # Several files have come to say the same: the first whose document can follow it.
        first = next((file for file in holders if rest.get(file.name)), holders[0])
        if outdated := rest.get(first.name):
            changed.append(Pair(outdated.pop(0), first))
        else:
            new.append(first)
        same += [Same(file, None) for file in holders if file is not first]
    unseen = folder.unseen
    vanished += [one for left in rest.values() for one in left if folder_above(one.name, unseen) is None]
    return Plan(
        kept=_by_name(kept),
        changed=_by_name(changed),
        new=tuple(sorted(new, key=lambda file: file.name)),
        same=tuple(sorted(same, key=lambda one: one.file.name)),
        vanished=tuple(sorted(vanished, key=lambda one: (one.name, one.id))),
    )


def _by_name(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    return tuple(sorted(pairs, key=lambda pair: pair.file.name))
