"""The command that verifies a text against the passages that it cites."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.session import Session, command
from shoal.cli.terminal import quantity
from shoal.models.documents import DocFormat
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from shoal.models.verdicts import StatementVerdict

STDIN = "-"
MAX_TEXT_BYTES = 4_000_004
"""A character of the longest text has at most four bytes; one more character shows that it is too long."""
MAX_REFERENCES_BYTES = 64 * 1024 * 1024


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "verify")(verify)


def verify(
    session: Session,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, allow_dash=True, help="The text; - reads stdin."
        ),
    ],
    references: Annotated[
        Path | None,
        typer.Option(
            "--references",
            metavar="JSON",
            exists=True,
            dir_okay=False,
            help="The passages that [1], [2] and so on name: the output of `shoal search --json`, or a list "
            "of objects with `chunk_id`, or with document_id, start_char and end_char.",
        ),
    ] = None,
    min_coverage: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Share of a statement's words, 0 to 1, that its passages must have."
        ),
    ] = 0.7,
    show_all: Annotated[
        bool, typer.Option("--all", help="Also list the supported statements, with their evidence.")
    ] = False,
) -> None:
    """Check that every claim of a text is supported by the passages that it cites.

    A text cites in brackets: [1] or [1, 3] names passages of --references by their position, [document 3] a
    document and [document 3:120-480] characters of it. A passage can also be cited by its `chunk_id`. Without
    --references, every passage and document of the library may be cited.

    A claim is supported if the passages have its words, numbers, codes, names and quotations, negated where
    they are and in their order. Headings, questions and code need no citation. The check compares words and
    asks no model: it finds what the passages do not mention or say otherwise, and calls unclear what it
    cannot tell. Exit code 1 if a claim is not supported.

    \b
        shoal search "why do bees visit flowers" --json > passages.json
        shoal verify answer.md --references passages.json
    """
    doc_format = DocFormat.plaintext if file.suffix == ".txt" else DocFormat.markdown
    text = _read(file)
    cited = None if references is None else _references(references)
    with session.engine() as engine:
        verification = engine.verify(
            text, references=cited, format=doc_format.value, min_coverage=min_coverage
        )
    if session.as_json:
        session.emit(verification)
    else:
        for statement in verification.statements:
            if statement.problems or (show_all and statement.evidence):
                _print(session, text, statement)
        outcome = "accepted" if verification.accepted else "rejected"
        session.say(
            f"{outcome}: {quantity(verification.n_claims, 'claim')}, "
            f"{verification.n_supported:,} supported, {verification.n_unsupported:,} not supported, "
            f"{verification.n_unclear:,} unclear, {verification.n_unreferenced:,} without a citation"
        )
    if not verification.accepted:
        raise typer.Exit(1)


def _read(file: Path) -> str:
    if str(file) == STDIN:
        data = sys.stdin.buffer.read(MAX_TEXT_BYTES)
    else:
        with file.open("rb") as opened:
            data = opened.read(MAX_TEXT_BYTES)
    # Offsets count the characters of the text as it is, so line ends stay.
    return data.decode("utf-8-sig", errors="replace")


def _references(file: Path) -> list[Any]:
    """Read references. Raises typer.BadParameter if the file has none."""
    try:
        with file.open("rb") as opened:
            given = json.loads(opened.read(MAX_REFERENCES_BYTES))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{file.name} is not JSON", param_hint="--references") from error
    if isinstance(given, Mapping):
        results = given.get("results")
        given = given.get("references")
        if isinstance(results, list) and all(isinstance(each, Mapping) for each in results):
            given = [{"chunk_id": result.get("chunk_id")} for result in results]
    if not isinstance(given, list):
        raise typer.BadParameter(
            f"{file.name} must be a list of references, or the output of `shoal search --json`",
            param_hint="--references",
        )
    return given


def _print(session: Session, text: str, statement: StatementVerdict) -> None:
    from rich.text import Text

    line = text.count("\n", 0, statement.start_char) + 1
    style = "red" if statement.problems else "green"
    heading = Text(f"{statement.verdict.value}, line {line}: ", style=style)
    session.out.print(heading + Text(one_line(statement.text), style="default"))
    for problem in statement.problems:
        session.out.print(Text(f"   {one_line(problem.message)}"))
    evidence = statement.evidence
    if evidence is not None:
        place = f"{one_line(evidence.document_title)}, line {evidence.start_line}"
        session.out.print(Text(f"   [{evidence.reference}] {place}: {one_line(evidence.text)}", style="dim"))
