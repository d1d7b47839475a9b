"""Patterns of paths below a folder, in the form of lines of a .gitignore file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.formats.decoding import clean

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

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
