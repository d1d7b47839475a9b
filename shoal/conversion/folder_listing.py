"""Listing of a folder: the files to read, chosen by their names, and what is skipped, with the reasons.

Patterns choose paths below the folder; they have the form of lines of a .gitignore file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.conversion.file_kinds import KIND_OF_SUFFIX
from shoal.errors import DocumentTooLargeError, RefusedKindError
from shoal.formats.decoding import clean
from shoal.support.regular_files import read_file

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern


SUFFIXES = tuple(suffix for suffix, kind in KIND_OF_SUFFIX.items() if not kind.refusal)
"""Extensions of the files that are ingested from a folder."""
_SUFFIXES = frozenset(SUFFIXES)

WITHOUT_SUFFIX = "without extension"
LINK = "symbolic link"
"""Labels in the counts of skipped files. Links are never followed: one may lead out of the folder, to a
file that its creator may not read but this process may, or form a cycle."""

KINDS_NAMED = 6
"""Most kinds of files named in a line; a folder may contain hundreds."""

GITIGNORE = ".gitignore"


class SkipReason(StrEnum):
    """Why a file, or a folder with all that is in it, is skipped."""

    kind = "kind"
    unknown = "unknown"
    content = "content"
    too_large = "too_large"
    empty = "empty"
    link = "link"
    hidden = "hidden"
    excluded = "excluded"
    not_included = "not_included"
    gitignored = "gitignored"


_IN_LINE = {
    SkipReason.kind: "of a kind without text",
    SkipReason.unknown: "of unknown kind",
    SkipReason.content: "by content",
    SkipReason.too_large: "too large",
    SkipReason.empty: "empty",
    SkipReason.link: LINK,
    SkipReason.hidden: "hidden",
    SkipReason.excluded: "excluded",
    SkipReason.not_included: "not included",
    SkipReason.gitignored: "in .gitignore",
}
_EXPLANATIONS = {
    SkipReason.unknown: "its extension is not known; --include reads it if it is text",
    SkipReason.empty: "it has no text",
    SkipReason.link: "links in a folder are not followed",
    SkipReason.hidden: "its name begins with a dot",
    SkipReason.excluded: "it matches --exclude",
    SkipReason.not_included: "it does not match --include",
    SkipReason.gitignored: "a .gitignore file names it",
}
_COUNTED_BY_KIND = (SkipReason.kind, SkipReason.unknown, SkipReason.content)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A skipped file, link or folder.

    kind    what it is counted as: the extension, or the kind that the content shows
    advice  why it is skipped and, if something can be done about it, what
    """

    path: str
    reason: SkipReason
    kind: str
    advice: str

    @classmethod
    def because(cls, reason: SkipReason, path: str, advice: str | None = None) -> Skipped:
        return cls(path, reason, _IN_LINE[reason], advice or _EXPLANATIONS[reason])

    @classmethod
    def by_name(cls, path: str) -> Skipped:
        """A file whose extension is unknown, or that of a kind without text."""
        suffix = Path(path).suffix.lower()
        kind = KIND_OF_SUFFIX.get(suffix)
        if kind is not None and kind.refusal:
            return cls(path, SkipReason.kind, suffix, kind.refusal)
        return cls(path, SkipReason.unknown, suffix or WITHOUT_SUFFIX, _EXPLANATIONS[SkipReason.unknown])

    @classmethod
    def by_content(cls, path: str, error: RefusedKindError) -> Skipped:
        return cls(path, SkipReason.content, error.kind, str(error))


@dataclass(frozen=True, slots=True)
class Selection:
    """Which files below a folder are read.

    include    only these names, whatever their extensions; None for all names with a known extension
    exclude    neither these files nor what is in these folders
    gitignore  whether the .gitignore files in the folder and below it count
    """

    include: PathPatterns | None = None
    exclude: PathPatterns | None = None
    gitignore: bool = False

    @classmethod
    def of(
        cls, include: Iterable[str] = (), exclude: Iterable[str] = (), *, gitignore: bool = False
    ) -> Selection:
        """Raises PatternError."""
        return cls(PathPatterns.of_globs(include), PathPatterns.of_globs(exclude), gitignore)

    def excludes(self, path: str) -> bool:
        """Whether a path below the folder is excluded; that of a folder ends with `/`."""
        return self.exclude is not None and self.exclude.matches(path) is True

    def reason_against(self, path: str) -> SkipReason | None:
        """Why a file with this path below the folder is not read; None if it is."""
        if self.excludes(path):
            return SkipReason.excluded
        if self.include is not None:
            return None if self.include.matches(path) else SkipReason.not_included
        return None if path[path.rfind(".") :].lower() in _SUFFIXES else SkipReason.unknown


EVERYTHING = Selection()
"""All files with a known extension."""


@dataclass(frozen=True, slots=True)
class UnreadableFolder:
    """A folder that could not be listed, and the reason."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The content of a folder, sorted by path.

    `folders` are those that were listed, `empty` those without any entry. Of a skipped folder, only the
    folder itself is named.
    """

    texts: tuple[Path, ...]
    skipped: tuple[Skipped, ...]
    unreadable: tuple[UnreadableFolder, ...]
    folders: tuple[Path, ...]
    empty: tuple[Path, ...] = ()


@dataclass(slots=True)
class _Found:
    texts: list[Path] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    unreadable: list[UnreadableFolder] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    empty: list[Path] = field(default_factory=list)


def list_folder(folder: Path, selection: Selection = EVERYTHING, *, recursive: bool = True) -> Listing:
    """List the files below a folder, or directly in it. Subfolders that cannot be listed are reported, not
    raised, and so are those with a .gitignore file that cannot be read, since it may name secrets."""
    found = _Found()
    # Iterative, because folders may be nested deeper than the interpreter's stack.
    pending: list[tuple[str, _Gitignores]] = [("", ())]
    while pending:
        below, gitignores = pending.pop()
        current = folder / below
        try:
            if selection.gitignore:
                gitignores = (*_gitignore_of(folder, below), *gitignores)
            is_empty = True
            for entry in _entries(current):
                is_empty = False
                name = below + entry.name
                if _take(found, current / entry.name, name, entry, selection, gitignores) and recursive:
                    pending.append((f"{name}/", gitignores))
            found.folders.append(current)
            if is_empty:
                found.empty.append(current)
        except OSError as error:
            found.unreadable.append(UnreadableFolder(current, reason_of(error)))
        except (PatternError, DocumentTooLargeError) as error:
            found.unreadable.append(UnreadableFolder(current, f"{GITIGNORE}: {error}"))
    return Listing(
        texts=tuple(sorted(found.texts)),
        skipped=tuple(sorted(found.skipped, key=lambda skipped: skipped.path)),
        unreadable=tuple(sorted(found.unreadable, key=lambda subfolder: subfolder.path)),
        folders=tuple(sorted(found.folders)),
        empty=tuple(sorted(found.empty)),
    )


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def _gitignore_of(folder: Path, below: str) -> _Gitignores:
    try:
        data = read_file(folder / below / GITIGNORE, MAX_GITIGNORE_BYTES, folder)
    except FileNotFoundError:
        return ()
    return ((len(below), PathPatterns.of_gitignore(data)),)


def _take(
    found: _Found,
    path: Path,
    name: str,
    entry: os.DirEntry[str],
    selection: Selection,
    gitignores: _Gitignores,
) -> bool:
    """Add an entry of a folder to what was found. Returns whether it is a folder to list.

    `name`: its path below the listed folder.
    """
    if entry.name.startswith("."):
        found.skipped.append(Skipped.because(SkipReason.hidden, str(path)))
        return False
    if entry.is_symlink():
        found.skipped.append(Skipped.because(SkipReason.link, str(path)))
        return False
    is_folder = entry.is_dir(follow_symlinks=False)
    if is_folder:
        name += "/"
        reason = SkipReason.excluded if selection.excludes(name) else None
    else:
        reason = selection.reason_against(name)
    if reason in (None, SkipReason.unknown) and _is_ignored(name, gitignores):
        reason = SkipReason.gitignored
    if reason is SkipReason.unknown:
        found.skipped.append(Skipped.by_name(str(path)))
    elif reason is not None:
        found.skipped.append(Skipped.because(reason, str(path)))
    elif not is_folder:
        found.texts.append(path)
    return is_folder and reason is None


def _is_ignored(name: str, gitignores: _Gitignores) -> bool:
    for start, patterns in gitignores:
        is_ignored = patterns.matches(name[start:])
        if is_ignored is not None:
            return is_ignored
    return False


def is_listable(path: str, folder: str, selection: Selection = EVERYTHING) -> bool:
    """Whether `list_folder` could return this path, if there are no .gitignore files: that of a file to read
    below the folder, normalised, not hidden."""
    prefix = f"{folder.rstrip('/')}/"
    if not path.startswith(prefix):
        return False
    below = path.removeprefix(prefix)
    if not all(part and not part.startswith(".") for part in below.split("/")):
        return False
    return selection.reason_against(below) is None


def count_skipped(skipped: Iterable[Skipped]) -> dict[str, int]:
    """Return counts by kind, or by reason where the kind is unknown; most frequent first."""
    return _by_frequency(Counter(entry.kind for entry in skipped))


def format_skipped(skipped: Iterable[Skipped]) -> str:
    """Format `7 skipped: 5 of a kind without text (4 .png, 1 .mp3), 2 hidden`; empty without any."""
    kinds: dict[SkipReason, Counter[str]] = {}
    for entry in skipped:
        kinds.setdefault(entry.reason, Counter())[entry.kind] += 1
    if not kinds:
        return ""
    parts = []
    for reason, counts in sorted(kinds.items(), key=lambda item: (-item[1].total(), item[0])):
        plural = "s" if reason is SkipReason.link and counts.total() > 1 else ""
        part = f"{counts.total():,} {_IN_LINE[reason]}{plural}"
        parts.append(f"{part} ({_kinds(counts)})" if reason in _COUNTED_BY_KIND else part)
    return f"{sum(counts.total() for counts in kinds.values()):,} skipped: {', '.join(parts)}"


def _kinds(counts: Mapping[str, int]) -> str:
    ordered = _by_frequency(counts)
    kinds = [f"{number:,} {kind}" for kind, number in list(ordered.items())[:KINDS_NAMED]]
    n_others = sum(list(ordered.values())[KINDS_NAMED:])
    if n_others:
        kinds.append(f"{n_others:,} others")
    return ", ".join(kinds)


def _by_frequency(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def no_texts_line(folder: Path, skipped: Iterable[Skipped]) -> str:
    """Format the message that a folder contains no file to read, and what it contains instead."""
    line = f"there is no file to read in {folder}"
    contents = format_skipped(skipped)
    return f"{line}; {contents}" if contents else line


def reason_of(error: OSError) -> str:
    """Return the operating system's message in lower case."""
    return (error.strerror or str(error)).lower()


MAX_GITIGNORE_BYTES = 256 * 1024
_MAX_PATTERN = 1000  # characters
_MAX_STARS = 4
_MAX_DEEP_STARS = 2
_STARS = re.compile(r"\*+")
_DEEP_STARS = re.compile(r"(?<!\*)\*\*++/")


class PatternError(ValueError):
    """A pattern is wrong, or would take too long to match."""


@dataclass(frozen=True, slots=True)
class PathPatterns:
    """Patterns for the paths below a folder.

    A pattern without a slash, except at its end, matches names at every depth; `**` matches any folders; a
    slash at the end matches only folders. What is below a matched folder is matched too.
    """

    spec: GitIgnoreSpec

    @classmethod
    def of_globs(cls, globs: Iterable[str]) -> PathPatterns | None:
        """Return the patterns; None without any. Raises PatternError for a wrong one."""
        # At the start of a line of .gitignore, these characters have a meaning of their own.
        lines = [f"\\{glob}" if glob[:1] in ("!", "#") else glob for glob in globs]
        return cls._of([_pattern(line) for line in lines]) if lines else None

    @classmethod
    def of_gitignore(cls, data: bytes) -> PathPatterns:
        """Return the patterns of a .gitignore file. Lines that git does not understand match nothing.

        Raises PatternError for a line that would take too long to match.
        """
        patterns = []
        for line in data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").split("\n"):
            text = line.removesuffix("\r")
            if not text.strip() or text.startswith("#"):
                continue
            _check_work(text)
            try:
                patterns.append(_pattern(text))
            except PatternError:
                continue
        return cls._of(patterns)

    @classmethod
    def _of(cls, patterns: list[GitIgnoreSpecPattern]) -> PathPatterns:
        from pathspec import GitIgnoreSpec

        return cls(GitIgnoreSpec(patterns))

    def matches(self, path: str) -> bool | None:
        """Whether a path below the folder matches; the path of a folder ends with `/`. None if no pattern
        says anything, and False if the last one that does begins with `!`."""
        return self.spec.check_file(clean(path)).include


_Gitignores = tuple[tuple[int, PathPatterns], ...]
"""Patterns of .gitignore files, the innermost first, and the length of the path below which each counts."""


def _pattern(line: str) -> GitIgnoreSpecPattern:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    _check_work(line)
    try:
        pattern = GitIgnoreSpecPattern(line)
    except (ValueError, re.error) as error:
        raise PatternError(f"{line!r} is not a pattern") from error
    if pattern.include is None:
        raise PatternError(f"{line!r} is not a pattern")
    return pattern


def _check_work(line: str) -> None:
    """Raise PatternError if matching may take long: its time grows with a power of the length of the path,
    which is the number of stars."""
    if len(line) > _MAX_PATTERN:
        raise PatternError(f"a pattern has {len(line):,} characters; the limit is {_MAX_PATTERN:,}")
    if len(_STARS.findall(line)) > _MAX_STARS or len(_DEEP_STARS.findall(line)) > _MAX_DEEP_STARS:
        raise PatternError(
            f"the pattern {line!r} has too many stars; the limit is {_MAX_STARS}, of these "
            f"{_MAX_DEEP_STARS} times `**/`"
        )
