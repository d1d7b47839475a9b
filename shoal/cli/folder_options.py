"""Options of the commands that read folders, and what these commands print about skipped files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from shoal.cli.session import Session
from shoal.conversion.folder_listing import Selection, Skipped, SkipReason, format_skipped
from shoal.conversion.path_patterns import PathPatterns, PatternError
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
Verbose = Annotated[bool, typer.Option("--verbose", help="List every skipped file with the reason.")]

_SURPRISING = (SkipReason.content, SkipReason.too_large)
"""Reasons that the name of a file does not show."""


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


def skipped_lines(skipped: Iterable[Skipped], *, verbose: bool) -> list[str]:
    """Return a line for each skipped file, or for those whose names do not show why, and the counts."""
    entries = list(skipped)
    lines = [
        f"skipped: {one_line(entry.path)}: {one_line(entry.advice)}"
        for entry in entries
        if verbose or entry.reason in _SURPRISING
    ]
    return [*lines, format_skipped(entries)] if entries else []


def warn_of_skipped(session: Session, skipped: Iterable[Skipped], *, verbose: bool) -> None:
    for line in skipped_lines(skipped, verbose=verbose):
        session.warn(line)
