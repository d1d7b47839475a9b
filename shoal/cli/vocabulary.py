"""The command that shows learned words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.session import Limit, Offset, Session, command, json_form
from shoal.cli.terminal import quantity
from shoal.support.plain_text import one_line

if TYPE_CHECKING:
    from rich.console import Console

REEFS_SHOWN = 4


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "vocabulary")(vocabulary)


def vocabulary(
    session: Session,
    word: Annotated[
        str | None, typer.Argument(metavar="[WORD]", help="Show this learned word; a compound in quotes.")
    ] = None,
    containing: Annotated[
        str | None, typer.Option("--containing", metavar="TEXT", help="Only words that contain TEXT.")
    ] = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> None:
    """Show the words that were learned from the documents.

    These are words that the dictionary lacks: names, jargon, new words. Each has its own reefs, learned from
    its contexts. The most frequent come first. With WORD, shows that word and the documents it was learned
    from.

    \b
        shoal vocabulary --limit 50
        shoal vocabulary --containing gene
        shoal vocabulary "stem cell niche"
    """
    with session.engine() as engine:
        if word is not None:
            answer = json_form(engine.vocabulary.get(word))
        else:
            answer = json_form(engine.vocabulary.list(q=containing, limit=limit, offset=offset))
    if session.as_json:
        session.emit(answer)
    elif word is not None:
        print_word(session.out, answer)
    else:
        for warning in answer["warnings"]:
            session.warn(f"warning: {warning}")
        print_words(session.out, answer["words"], total=answer["total"])


def print_words(console: Console, words: Sequence[Mapping[str, Any]], *, total: int) -> None:
    """Print words with their strongest reefs, one per line."""
    from rich.table import Table
    from rich.text import Text

    if not words:
        console.print("no learned words" if not total else f"none on this page, {total:,} in all")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("word", overflow="fold", max_width=32, style="cyan")
    table.add_column("occurrences", justify="right", no_wrap=True)
    table.add_column("documents", justify="right", no_wrap=True)
    table.add_column("reefs", overflow="fold")
    for word in words:
        table.add_row(
            Text(one_line(word["word"])),
            f"{word['n_occurrences']:,}",
            f"{word['n_documents']:,}",
            Text(_reef_list(word["reefs"], REEFS_SHOWN)),
        )
    console.print(table)
    if total > len(words):
        console.print(f"{len(words):,} of {total:,}; --limit and --offset show others", style="dim")


def print_word(console: Console, word: Mapping[str, Any]) -> None:
    """Print a word with its evidence and all its reefs."""
    from rich.text import Text

    head = Text(one_line(word["word"]), style="bold cyan")
    kind = "compound" if word["is_compound"] else "word"
    head.append(f" (learned {kind}, as it is since version {word['from_version']})", style="dim")
    console.print(head)
    console.print(evidence_line(word))
    for document in word["evidence"]["documents"]:
        times = "" if document["n_occurrences"] is None else quantity(document["n_occurrences"], "occurrence")
        passages = f"in {quantity(document['n_chunks'], 'passage')}"
        title = f"  {one_line(document['title'])} (document {document['document_id']})"
        console.print(Text(f"{title}: {' '.join(part for part in (times, passages) if part)}", style="dim"))
    console.print(f"{quantity(len(word['reefs']), 'reef')} (specificity {word['specificity']}):")
    for reef in word["reefs"]:
        console.print(Text(f"  {reef['strength']:.2f}  {_reef_name(reef)}"))


def evidence_line(word: Mapping[str, Any]) -> str:
    """The evidence of a learned word in one line."""
    return (
        f"learned from {quantity(word['n_occurrences'], 'occurrence')} in "
        f"{quantity(word['n_documents'], 'document')}"
    )


def _reef_list(reefs: Sequence[Mapping[str, Any]], limit: int) -> str:
    names = " · ".join(f"{_reef_name(reef)} {reef['strength']:.2f}" for reef in reefs[:limit])
    return names if len(reefs) <= limit else f"{names} and {len(reefs) - limit} more"


def _reef_name(reef: Mapping[str, Any]) -> str:
    return one_line(reef["reef_name"] or f"reef {reef['reef_id']}")
