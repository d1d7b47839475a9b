"""The texts of a folder: where they are and what they say, and what is true of the files that documents came from."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shoal.errors import DocumentError, NotFoundError, UnreadableFileError
from shoal.listing import count_by_suffix, list_folder, reason_of
from shoal.models import DocFormat, DocumentDraft
from shoal.parse.decode import clean
from shoal.parse.draft import draft_from_file
from shoal.settings import Settings

NO_FILE = "is no ordinary file"
NOWHERE = "is a link that leads nowhere"


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file with the SHA-256 (hex) of its text. `name` is its absolute path as a source path is stored."""

    path: Path
    name: str
    content_hash: str
    size: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A file or folder that could not be read, and why. What is stored of it stays. `is_refused`: it was read, but holds
    no text that could be stored, and will not before it changes."""

    name: str
    reason: str
    is_folder: bool = False
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """What is in a folder, in the order of the names.

    `followed`: names of files that were read only because documents came from them. `known_as`: other spellings of names that lead to files here, where the file system has one for several. `empty`:
    folders with nothing in them that documents came from, such as those where a disk is missing. `passed_over`: how
    many files are no texts by their names, by extension.
    """

    root: str
    files: tuple[TextFile, ...]
    failed: tuple[Failed, ...]
    followed: frozenset[str] = frozenset()
    known_as: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)

    def is_unknown(self, name: str) -> bool:
        """Whether there may be a file of this name that could not be read."""
        return any(name == one.name or (one.is_folder and is_below(name, one.name)) for one in self.failed)

    def may_be_missing(self, name: str) -> bool:
        """Whether a file of this name was in a folder that is now empty."""
        return any(is_below(name, one) for one in self.empty)


def is_below(name: str, folder: str) -> bool:
    """Whether a path leads into a folder."""
    return name.startswith(f"{folder.rstrip('/')}/")


def root_of(folder: Path) -> str:
    """A folder's absolute path as a source path is stored. Raises NotFoundError where there is none."""
    # Not resolved: a link to a folder may lead elsewhere tomorrow, and its documents are those of the link.
    root = os.path.abspath(folder)  # noqa: PTH100
    if not os.path.isdir(root):  # noqa: PTH112
        raise NotFoundError(f"there is no folder {folder}")
    return clean(root)


def look(
    folder: Path,
    settings: Settings,
    stored: Collection[str] = (),
    watch: Callable[[int], None] = lambda _: None,
) -> Folder:
    """Read the texts below a folder; names that begin with a dot are passed over, links to folders are not followed.

    `stored`: names that documents came from. Such a file is read whatever it is called and wherever the path leads, and
    one that is not there is only gone if the system says so. `watch` is told the bytes of each file. Raises
    NotFoundError where there is no such folder.
    """
    name_of_root = root_of(folder)
    listing = list_folder(Path(os.path.abspath(folder)))  # noqa: PTH100
    looking = _Looking(settings, watch)
    looking.failed += [Failed(clean(str(one.path)), one.reason, is_folder=True) for one in listing.unreadable]
    wanted = set(stored)
    for path in listing.texts:
        looking.take(path)
    listed = frozenset(looking.seen)
    followed = tuple(path for path in listing.others if clean(str(path)) in wanted)
    for path in followed:
        looking.take(path)
    for name in sorted(wanted - looking.seen.keys()):
        looking.probe(name, name_of_root)
    taken = set(followed)
    return Folder(
        root=name_of_root,
        files=tuple(sorted(looking.files.values(), key=lambda file: file.name)),
        failed=tuple(looking.failed),
        followed=frozenset(looking.files) - listed,
        known_as=looking.known_as,
        empty=tuple(sorted(looking.empty)),
        passed_over=count_by_suffix(
            tuple(path for path in listing.others if path not in taken), n_links=len(listing.links)
        ),
    )


class _Looking:
    """What has been found so far. `seen` are all files that are there, read or not, by their names."""

    def __init__(self, settings: Settings, watch: Callable[[int], None]) -> None:
        self._settings = settings
        self._watch = watch
        self.files: dict[str, TextFile] = {}
        self.failed: list[Failed] = []
        self.known_as: dict[str, str] = {}
        self.empty: set[str] = set()
        self.seen: dict[str, Path] = {}
        self._spelt: dict[str, str] | None = None

    def take(self, path: Path) -> None:
        """Read a file that is there."""
        name = clean(str(path))
        if name in self.seen:
            self.failed.append(Failed(name, "another file has the same name but for control characters"))
            return
        self.seen[name] = path
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                # Reading a pipe would wait for someone to write.
                self.failed.append(Failed(name, NO_FILE, is_refused=True))
                return
            draft = read(path, self._settings)
        except FileNotFoundError:
            self.failed.append(Failed(name, NOWHERE))
            return
        except OSError as error:
            self.failed.append(Failed(name, reason_of(error)))
            return
        except (DocumentError, NotFoundError) as error:
            self.failed.append(Failed(name, str(error), is_refused=is_refusal(error)))
            return
        self._watch(draft.n_bytes)
        self.files[name] = TextFile(path, name, draft.content_hash, draft.n_bytes)

    def probe(self, name: str, root: str) -> None:
        """Find out about a file that a document came from and that was not listed: only what the system says is not
        there is gone."""
        path = Path(name)
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            self._miss(path, root)
        except OSError as error:
            self.failed.append(Failed(name, reason_of(error)))
        else:
            if stat.S_ISREG(mode):
                self._meet(path, name)
            elif not stat.S_ISDIR(mode):
                self.failed.append(Failed(name, NO_FILE, is_refused=True))

    def _meet(self, path: Path, name: str) -> None:
        """A file that is there: one that was listed under another spelling, or one of its own."""
        if self._spelt is None:
            self._spelt = {one.casefold(): one for one in sorted(self.seen)}
        listed = self._spelt.get(name.casefold())
        if listed is not None and listed != name and path.samefile(self.seen[listed]):
            self.known_as[name] = listed
        else:
            self.take(path)

    def _miss(self, path: Path, root: str) -> None:
        """A file that is not there. It is not gone where it, or a folder above it, is a link that leads nowhere, and
        perhaps not where its folder is empty."""
        above = [path, *(one for one in path.parents if is_below(str(one), root))]
        for one in above:
            if one.is_symlink() and not one.exists():
                self.failed.append(Failed(str(one), NOWHERE, is_folder=one != path))
                return
        nearest = next((one for one in above if one.is_dir()), Path(root))
        try:
            with os.scandir(nearest) as entries:
                if next(entries, None) is None:
                    self.empty.add(str(nearest))
        except OSError as error:
            self.failed.append(Failed(str(nearest), reason_of(error), is_folder=True))


def is_refusal(error: Exception) -> bool:
    """Whether a file was read but holds no text that could be stored."""
    return isinstance(error, DocumentError) and not isinstance(error, UnreadableFileError)


def read(
    path: Path,
    settings: Settings,
    tags: tuple[str, ...] = (),
    format: DocFormat | None = None,  # noqa: A002 - the name that drafts have for it
) -> DocumentDraft:
    """A file as it is now, under its absolute path. Raises DocumentError, NotFoundError."""
    return draft_from_file(path, settings=settings, tags=tags, format=format, source_path=str(path))
