"""Options of the commands that read folders, and what these commands print about skipped files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated

import typer

from shoal.cli.session import Session
from shoal.conversion.folder_listing import (
    PathPatterns,
    PatternError,
    Selection,
    Skipped,
    SkipReason,
    format_skipped,
)
from shoal.support.plain_text import one_line

Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        metavar="GLOB",
        help="Read only files that match, whatever their extensions. Repeatable. Patterns are those of "
        ".gitignore: '*.log' matches names at every depth, 'notes/**' what is in a folder.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="GLOB", help="Skip files and folders that match. Repeatable."),
]
Gitignore = Annotated[
    bool,
    typer.Option("--gitignore", help="Skip what the .gitignore files in the folder and below it name."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Name every file that is skipped, with the reason.")]

MAX_NAMED = 20
"""Most files that are named without --verbose."""
_SURPRISING = frozenset({SkipReason.content, SkipReason.too_large, SkipReason.empty})
"""Reasons that the name of a file does not show."""
_NOT_CHOSEN = _SURPRISING | {SkipReason.kind, SkipReason.unknown, SkipReason.link}
"""Reasons that nobody chose, by an option or a dot."""


def selection_of(
    include: Sequence[str] | None, exclude: Sequence[str] | None, *, gitignore: bool
) -> Selection:
    """Return the files that the options choose. Raises typer.BadParameter for a wrong pattern."""
    return Selection(_patterns(include, "--include"), _patterns(exclude, "--exclude"), gitignore=gitignore)


def _patterns(globs: Sequence[str] | None, option: str) -> PathPatterns | None:
    try:
        return PathPatterns.of_globs(globs or ())
    except PatternError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def skipped_lines(
    skipped: Iterable[Skipped], *, verbose: bool, named: Collection[SkipReason] = _SURPRISING
) -> list[str]:
    """Return a line for each skipped file, or for those with a reason among `named`, and the counts."""
    entries = list(skipped)
    lines = [
        f"skipped: {one_line(entry.path)}: {one_line(entry.advice)}"
        for entry in entries
        if verbose or entry.reason in named
    ]
    return [*first_lines(lines, verbose=verbose), format_skipped(entries)] if entries else []


def warn_of_skipped(session: Session, skipped: Iterable[Skipped], *, verbose: bool) -> None:
    """Name skipped files, except those that the options or a dot in front of the name choose, and count
    all."""
    for line in skipped_lines(skipped, verbose=verbose, named=_NOT_CHOSEN):
        session.warn(line)


def first_lines(lines: Sequence[str], *, verbose: bool) -> list[str]:
    """Return lines that name a file each, at most MAX_NAMED unless `verbose`, and how many others follow."""
    if verbose or len(lines) <= MAX_NAMED:
        return list(lines)
    return [*lines[:MAX_NAMED], f"and {len(lines) - MAX_NAMED:,} more; --verbose names them"]
