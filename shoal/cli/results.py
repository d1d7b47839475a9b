"""Search results and explanations for people. Input is the JSON form, whether it came from the engine or a server."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.cli.snippet import Piece, snippet
from shoal.cli.terminal import counted, one_line, shown_path

if TYPE_CHECKING:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

SNIPPET_CHARS = 320
"""Three or four lines of an ordinary terminal."""
REEFS_SHOWN = 6
"""Reefs drawn for a result. Of up to 38 shared ones the first few carry nearly all of the score."""
BAR_CELLS = 16
INDENT = 3

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def print_search(
    console: Console,
    answer: Mapping[str, Any],
    *,
    with_scores: bool,
    query: str,
    most: int | None = None,
    bars: int = REEFS_SHOWN,
    note: str | None = None,
) -> None:
    """The results of a search (the first `most`), best first, and how the query was understood.

    `note` says why there are not more.
    """
    results = answer["results"][:most]
    for number, result in enumerate(results, start=1):
        print_result(
            console, number, result, bars=bars if with_scores else 0, weights=answer.get("weights") or {}
        )
    if not results:
        console.print(f"Nothing found for “{one_line(query)}”.")
    print_understanding(console, answer["query_info"])
    if note:
        console.print(note, style="dim")
    if "took_ms" in answer:
        console.print(f"{counted(len(results), 'result')} in {answer['took_ms']:.1f} ms", style="dim")


def print_result(
    console: Console,
    number: int,
    result: Mapping[str, Any],
    *,
    bars: int,
    weights: Mapping[str, float] | None = None,
) -> None:
    """One result, with what its score is made of and `bars` of its shared reefs drawn."""
    from rich.text import Text

    head = Text(f"{number}. ", style="bold")
    head.append(one_line(result["document_title"]), style="bold cyan")
    head.append(f"  {result['match_score']:.3f}", style="bold green")
    console.print(head)
    console.print(_indented(Text(_place(result), style="dim")))
    console.print(_indented(_about(result)))
    if bars:
        parts = score_parts(result["scores"], weights or {}, result.get("matched_terms") or ())
        if parts.row_count:
            console.print(_indented(parts))
    if bars and result.get("shared_reefs"):
        console.print(_indented(reef_bars(result["shared_reefs"], most=bars)))
    shown = styled(snippet(result["text"], result.get("highlights") or (), SNIPPET_CHARS))
    console.print(_indented(shown))
    console.print()


def print_understanding(console: Console, info: Mapping[str, Any]) -> None:
    """A few lines on what the query was taken to be about, with the z-scores that results were compared with."""
    from rich.text import Text

    reefs = info.get("top_reefs") or ()
    if reefs:
        names = " · ".join(f"{one_line(reef['reef_name'])} {reef['z_score']:.1f}" for reef in reefs[:4])
        console.print(Text(f"The query is about: {names}", style="dim"))
    if info.get("feedback"):
        titles = ", ".join(dict.fromkeys(one_line(one["document_title"]) for one in info["feedback"]))
        console.print(Text(f"by its words and by the passages that match them best: {titles}", style="dim"))
    if info.get("missing_terms"):
        terms = ", ".join(one_line(term) for term in info["missing_terms"])
        console.print(Text(f"In no passage of this library: {terms}", style="dim"))
    if info.get("unknown_words"):
        words = ", ".join(one_line(word) for word in info["unknown_words"])
        console.print(Text(f"Not in the vocabulary: {words}", style="dim"))


def term_coverage(share: float | None) -> str:
    """How much of the query a passage holds, in words; nothing where there is nothing to say."""
    if share is None:
        return ""
    if share in (0.0, 1.0):
        return f"holds {'all' if share else 'none'} of the query's words"
    # What is neither nothing nor everything is not rounded to it.
    return f"holds {min(max(share, 0.01), 0.99):.0%} of the query's words"


def score_parts(
    scores: Mapping[str, Any], weights: Mapping[str, float], terms: Sequence[Mapping[str, Any]]
) -> Table:
    """What words, reefs and bonus add to a score, and the words that are there; of a search by one signal, the words
    alone."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False, pad_edge=False)
    table.add_column("part", no_wrap=True)
    table.add_column("adds", no_wrap=True)
    table.add_column("reason", overflow="fold")
    is_blend = scores["lexical"] is not None and scores["reef"] is not None
    for name, signal, reason in (
        ("words", "lexical", _held(terms, _everywhere)),
        ("reefs", "reef", ""),
        ("field_boost", "field_boost", _held(terms, _in_field_boost)),
    ):
        part, weight = scores[signal] or 0.0, weights.get(signal, 0.0)
        if name == "field_boost" and not part:
            continue
        if is_blend and weight:
            drawn = f"{bar(part * weight, 1.0)} {part * weight:.2f}"
            told = f"{part:.2f} × {weight:.2f}" + (f": {reason}" if reason else "")
            table.add_row(name, Text(drawn, style="green"), Text(told, style="dim"))
        elif not is_blend and name == "words" and reason:
            table.add_row(name, "", Text(reason, style="dim"))
    return table


def _everywhere(places: Sequence[str]) -> Sequence[str]:
    return [place for place in places if place != "tag"]


def _in_field_boost(places: Sequence[str]) -> Sequence[str]:
    return [place for place in places if place != "text"]


def _held(terms: Sequence[Mapping[str, Any]], chosen: Callable[[Sequence[str]], Sequence[str]]) -> str:
    """The terms that a passage holds, each with the places that are chosen, if any is."""
    held = ((one_line(term["term"]), chosen(term["places"])) for term in terms)
    return ", ".join(f"{term} ({', '.join(places)})" for term, places in held if places)


def reef_bars(shared: Sequence[Mapping[str, Any]], *, most: int = REEFS_SHOWN) -> Table:
    """The first `most` of the shared reefs, strongest first, with the z-score of the chunk and of the query as bars on one scale."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), show_header=True, header_style="dim")
    table.add_column("shared reef", overflow="fold", max_width=44)
    table.add_column("chunk z", no_wrap=True)
    table.add_column("query z", no_wrap=True)
    # Where reefs took part in a score, what each adds to it.
    with_share = any(reef.get("share") for reef in shared)
    if with_share:
        table.add_column("adds", no_wrap=True, justify="right")
    ranked = sorted(shared, key=lambda reef: -reef["chunk_z"] * reef["query_z"])
    top = max((max(reef["chunk_z"], reef["query_z"]) for reef in ranked), default=0.0)
    for reef in ranked[:most]:
        table.add_row(
            Text(one_line(reef["reef_name"])),
            Text(f"{bar(reef['chunk_z'], top)} {reef['chunk_z']:5.1f}", style="green"),
            Text(f"{bar(reef['query_z'], top)} {reef['query_z']:5.1f}", style="blue"),
            *([f"{reef['share']:.2f}"] if with_share else []),
        )
    if len(ranked) > most:
        table.add_row(Text(f"and {len(ranked) - most} more", style="dim"), "", "")
    return table


def bar(value: float, top: float, cells: int = BAR_CELLS) -> str:
    """`value` of `top` as a bar, `cells` characters wide, exact to an eighth of a character."""
    if not (math.isfinite(value) and math.isfinite(top)) or value <= 0 or top <= 0:
        return " " * cells
    eighths = round(min(value / top, 1.0) * cells * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(cells)


def styled(pieces: Iterable[Piece]) -> Text:
    """A snippet with the query's words set off."""
    from rich.text import Text

    line = Text()
    for piece in pieces:
        line.append(piece.text, style="bold yellow" if piece.is_highlight else "")
    return line


def _place(result: Mapping[str, Any]) -> str:
    """Where the text stands: headings below the title, then file, lines and document."""
    path = [one_line(heading) for heading in result["section_path"]]
    if path and path[0] == one_line(result["document_title"]):
        path = path[1:]
    first, last = result["start_line"], result["end_line"]
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    source = shown_path(result["source_path"] or "")
    passage = numbered(result["document_id"], result["chunk_index"])
    where = ", ".join(part for part in (source, lines, passage) if part)
    return "\n".join(part for part in (" › ".join(path), where) if part)


def numbered(document_id: int, chunk_index: int) -> str:
    """A passage as `shoal show DOC --chunk N` and `shoal explain --document DOC --chunk N` take it."""
    return f"document {document_id}, passage #{chunk_index}"


def _indented(part: Text | Table) -> Padding:
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, INDENT), expand=False)


def _about(result: Mapping[str, Any]) -> Text:
    from rich.text import Text

    parts = []
    if result["top_reef_name"]:
        name = Text("about ").append(one_line(result["top_reef_name"]), style="magenta")
        parts += [name, Text(counted(result["n_shared_reefs"], "shared reef"))]
    if held := term_coverage(result.get("term_coverage")):
        parts.append(Text(held))
    if result["tags"]:
        parts.append(Text(f"tags {', '.join(one_line(tag) for tag in result['tags'])}"))
    return Text(" · ").join(parts)
