"""The command that compares two texts."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli.json_form import json_form
from shoal.cli.session import Session, command


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "similarity")(similarity)


def similarity(
    session: Session,
    a: Annotated[str, typer.Argument(metavar="A", help="A text.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another text.")],
) -> None:
    """Show how similar two short texts are, from 0 to 1, and why.

    From 0.85 on they are duplicates, unless there are signs that they contradict each other.

    \b
        shoal similarity "Use pnpm, not npm" "Install with pnpm instead of npm"
    """
    with session.engine() as engine:
        result = engine.similarity(a, b)
    if session.as_json:
        session.emit({**json_form(result), "is_duplicate": result.is_duplicate})
        return
    verdict = (
        "may contradict each other" if result.is_opposite else "duplicates" if result.is_duplicate else ""
    )
    session.out.print(f"{result.value:.2f}  {verdict}".rstrip())
    for part in result.parts:
        session.out.print(f"  {part.name:10} {part.value:.2f}  {part.contribution:+.2f}")
    for name, strength in result.signs._asdict().items():
        if strength:
            session.out.print(f"  sign of a contradiction: {name} {strength:.2f}")
