"""Search results as text for people. The input is the JSON form, from the engine or from a service."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.padding import Padding
from rich.text import Text

from shoal.cli.terminal import display_path, quantity
from shoal.declared.search import LIKELY, is_weak
from shoal.formats.headings import headings_below
from shoal.models.files import LocatorKind
from shoal.models.recordings import Modality, ShownChunk, ShownEvidence
from shoal.models.scores import Reason, ReasonKind, pieces_of
from shoal.search.answer_texts import best_window
from shoal.support.plain_text import one_line, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

ELLIPSIS = "…"


class Piece(NamedTuple):
    """A part of a snippet, in one line and safe for a terminal. Highlights are words of the query."""

    text: str
    is_highlight: bool


def snippet(text: str, highlights: Sequence[Sequence[int]], length: int) -> list[Piece]:
    """Return about `length` characters of `text` as one line, in pieces.

    `highlights` are (start, end) pairs in characters of `text`, in order, not overlapping. The window is the
    first with the most different words. Text that fits is returned whole.
    """
    spans = [(start, end) for start, end in highlights if 0 <= start < end <= len(text)]
    start, end = best_window(text, spans, length)
    pieces = [Piece(ELLIPSIS, False)] if start > 0 else []
    position = start
    for first, last in spans:
        if first < position or last > end:
            continue
        pieces += [Piece(text[position:first], False), Piece(text[first:last], True)]
        position = last
    pieces.append(Piece(text[position:end], False))
    if end < len(text):
        pieces.append(Piece(ELLIPSIS, False))
    return _in_one_line(pieces)


def _in_one_line(pieces: Sequence[Piece]) -> list[Piece]:
    """Replace every run of white space, also across pieces, with one space."""
    line: list[Piece] = []
    after_space = True
    for text, is_highlight in pieces:
        cleaned = plain(text)
        folded = " ".join(cleaned.split())
        lead = "" if after_space or not cleaned[:1].isspace() else " "
        tail = " " if folded and cleaned[-1:].isspace() else ""
        joined = lead + folded + tail
        if joined:
            line.append(Piece(joined, is_highlight))
            after_space = joined.endswith(" ")
    return line


Numbered = list[tuple[int, Mapping[str, Any]]]

SNIPPET_CHARS = 320
"""Three or four lines of a terminal."""
"""Reefs drawn per result. Of up to 38 shared reefs, the first few carry nearly all of the score."""
BAR_CELLS = 16
INDENT = 3
MAX_FOLDED = 10
"""Near-duplicates of a result whose numbers are printed."""
NO_SUBJECT = "no clear subject"
"""Said of a passage without labels."""
NOT_SCORED = "not scored yet"
"""Said of a passage without labels that waits for a rescore."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def print_search(
    console: Console,
    answer: Mapping[str, Any],
    *,
    with_scores: bool,
    query: str,
    limit: int | None = None,
    folds_weak: bool = False,
) -> None:
    """Print the first `limit` results of a search, best first; with scores, the reefs of the query, too.

    `folds_weak`: those that hardly answer the query get a line each, after the others, unless all are so.
    """
    documents = answer.get("documents")
    results = (answer["results"] if documents is None else documents)[:limit]
    numbered: Numbered = list(enumerate(results, start=1))
    weak: Numbered = []
    if folds_weak and documents is None:
        numbered, weak = split_weak(results)
    shown = ShownEvidence()
    for number, result in numbered:
        weights = answer.get("weights") or {}
        if documents is None:
            print_result(console, number, result, with_scores=with_scores, weights=weights, shown=shown)
            continue
        print_document(console, number, result)
        for rank, passage in enumerate(result["passages"], start=1):
            print_result(
                console,
                f"{number}.{rank}",
                passage,
                with_scores=with_scores,
                weights=weights,
                shown=shown,
            )
    print_weak(console, weak)
    left_out = (answer.get("tokens") or {}).get("n_left_out")
    if not results:
        console.print("No result fits." if left_out else f"Nothing found for “{one_line(query)}”.")
    if with_scores:
        print_query_info(console, answer["query_info"])
    if rerank := reranked_by(answer.get("rerank")):
        console.print(rerank, style="dim")
    if "took_ms" in answer:
        console.print(f"{_count(len(results), answer)} in {answer['took_ms']:.1f} ms", style="dim")


def split_weak(results: Sequence[Mapping[str, Any]]) -> tuple[Numbered, Numbered]:
    """Return the results, numbered, that answer the query, and those that hardly do; if all hardly do, they
    are the first."""
    parts: tuple[Numbered, Numbered] = [], []
    for number, result in enumerate(results, start=1):
        is_folded = is_weak(result["relevance"], is_pinned=bool(result.get("pinned")))
        parts[is_folded].append((number, result))
    return parts if parts[0] else (parts[1], [])


def print_weak(console: Console, weak: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
    """Print a line for each result, with its number, that hardly answers the query."""
    if not weak:
        return
    console.print(
        f"{quantity(len(weak), 'weaker result')}, less than {LIKELY:.0%} relevant", style="bold dim"
    )
    for number, result in weak:
        note = result.get("note")
        name = _note_name(note) if note else result["document_title"]
        place = _note_place(note) if note else _location(result)
        line = f"{number}. {one_line(name)}  {result['relevance']:.0%}  {place}"
        console.print(_indented(Text(line, style="dim")))
    console.print()


def _count(n_shown: int, answer: Mapping[str, Any]) -> str:
    """How many results are shown, and how many there are."""
    matches = quantity(answer["total"], "match", "matches")
    if answer.get("documents") is None:
        return f"{n_shown:,} of {matches}"
    return f"{n_shown:,} of {quantity(answer['total_documents'], 'document')} with {matches}"


def print_document(console: Console, number: int, document: Mapping[str, Any]) -> None:
    """Print the head of a document whose passages follow."""
    head = Text(f"{number}. ", style="bold").append(one_line(document["document_title"]), style="bold cyan")
    console.print(head.append(f"  {quantity(document['n_matches'], 'matching passage')}", style="dim"))
    if document["reefs"]:
        names = ", ".join(f"{one_line(reef['reef_name'])} ({reef['n_chunks']})" for reef in document["reefs"])
        console.print(_indented(Text("about ").append(names, style="magenta")))
    if document.get("folded"):
        console.print(_indented(Text(and_similar(document["folded"], "document_id"), style="dim")))
    console.print()


def and_similar(folded: Sequence[Mapping[str, Any]], name: str) -> str:
    """The near-duplicates of a result in words, with their numbers."""
    what = "document" if name == "document_id" else "passage"
    numbers = ", ".join(str(each[name]) for each in folded[:MAX_FOLDED])
    more = f" and {len(folded) - MAX_FOLDED} more" if len(folded) > MAX_FOLDED else ""
    return f"and {len(folded)} similar ({what} {numbers}{more})"


def print_result(
    console: Console,
    number: int | str,
    result: Mapping[str, Any],
    *,
    with_scores: bool,
    weights: Mapping[str, float] | None = None,
    shown: ShownEvidence | None = None,
) -> None:
    """Print one result; `with_scores` adds the parts of its score and the reasons among the shared reefs.

    `shown`: the evidence that the results before it have shown.
    """
    note = result.get("note")
    head = Text(f"{number}. ", style="bold")
    head.append(one_line(_note_name(note) if note else result["document_title"]), style="bold cyan")
    head.append(f"  {result['relevance']:.0%} relevant", style="bold green")
    if result.get("pinned"):
        head.append("  pinned", style="bold yellow")
    if result.get("lacking"):
        head.append(f"  without {one_line(', '.join(result['lacking']))}", style="yellow")
    console.print(head)
    if result.get("reasons"):
        console.print(_indented(why(result["reasons"])))
    console.print(_indented(Text(_note_place(note) if note else _location(result), style="dim")))
    console.print(_indented(_summary(result, with_scores=with_scores)))
    if with_scores:
        parts = score_parts(
            result["scores"], weights or {}, result.get("matched_terms") or (), result.get("nearest_sentence")
        )
        if parts.row_count:
            console.print(_indented(parts))
        if result.get("rerank"):
            console.print(_indented(Text(rerank_line(result["rerank"]), style="dim")))
    if with_scores and result.get("shared_reefs"):
        console.print(_indented(reasons(result["shared_reefs"])))
    if result.get("evidence"):
        lines = (shown or ShownEvidence()).lines(number, map(_shown_chunk, result["evidence"]["chunks"]))
        console.print(_indented(Text("\n".join(lines))))
    else:
        nearest = result.get("nearest_sentence")
        spans = result.get("highlights") or ([[nearest["start"], nearest["end"]]] if nearest else ())
        pieces = snippet(note["text"] if note else result["text"], spans, SNIPPET_CHARS)
        console.print(_indented(highlighted(pieces)))
    if result.get("folded"):
        console.print(_indented(Text(and_similar(result["folded"], "chunk_id"), style="dim")))
    console.print()


def _note_name(note: Mapping[str, Any]) -> str:
    return str(note["title"] or f"Note {note['id']}")


def _note_place(note: Mapping[str, Any]) -> str:
    """The number, the owner, the kind and the categories of a note."""
    return ", ".join(
        map(one_line, (f"note {note['id']} of {note['owner']}", note["kind"], *note["categories"]))
    )


def _shown_chunk(chunk: Mapping[str, Any]) -> ShownChunk:
    return ShownChunk(
        chunk_id=chunk["chunk_id"],
        modality=chunk["modality"],
        time_start=chunk["time_start"],
        time_end=chunk["time_end"],
        text=one_line(chunk["text"]),
        is_anchor=chunk["is_anchor"],
    )


def print_query_info(console: Console, info: Mapping[str, Any]) -> None:
    """Print the reefs of the query with z-scores, and the documents of its feedback."""
    if reefs := info.get("top_reefs"):
        names = " · ".join(f"{one_line(reef['reef_name'])} {reef['z_score']:.1f}" for reef in reefs[:4])
        console.print(Text(f"Reefs searched for: {names}", style="dim"))
    if info.get("feedback"):
        titles = ", ".join(dict.fromkeys(one_line(chunk["document_title"]) for chunk in info["feedback"]))
        console.print(Text(f"from its words, and the passages that match them best: {titles}", style="dim"))


def reranked_by(info: Mapping[str, Any] | None) -> str:
    """What reranked the first results, in words; empty if nothing did."""
    if not info or info["fallback"]:
        return ""
    first = "result" if info["n"] == 1 else f"{info['n']} results"
    return f"{one_line(info['name'])} reordered the first {first} in {info['ms']:.0f} ms"


def rerank_line(parts: Mapping[str, Any]) -> str:
    """What reranking did to a result, in words."""
    return (
        f"reranked from number {parts['blend_rank']}: {parts['score']:.2f} = {parts['blend_part']:.2f} by "
        f"its score + {parts['similarity_part']:.2f} by its similarity of {parts['similarity']:.2f}"
    )


def term_coverage(share: float | None) -> str:
    """The term coverage of a passage as text; empty for None."""
    if share is None:
        return ""
    if share in (0.0, 1.0):
        return f"holds {'all' if share else 'none'} of the query's words"
    # Other shares are not rounded to 0 % or 100 %.
    return f"holds {min(max(share, 0.01), 0.99):.0%} of the query's words"


def score_parts(
    scores: Mapping[str, Any],
    weights: Mapping[str, float],
    terms: Sequence[Mapping[str, Any]],
    nearest: Mapping[str, Any] | None = None,
) -> Table:
    """A table of what words, reefs, field boost and vectors add to a score, with the matched terms.

    For a search by one signal the table has only the matched terms.
    """
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False, pad_edge=False)
    table.add_column("part", no_wrap=True)
    table.add_column("adds", no_wrap=True)
    table.add_column("reason", overflow="fold")
    is_blend = scores["lexical"] is not None and scores["reef"] is not None
    for name, signal, matches in (
        ("words", "lexical", _terms_with_places(terms, _lexical_places)),
        ("reefs", "reef", ""),
        ("field boost", "field_boost", _terms_with_places(terms, _boosted_places)),
        ("meaning", "dense", _meaning(scores, nearest)),
    ):
        part, weight = scores.get(signal) or 0.0, weights.get(signal, 0.0)
        if signal in ("field_boost", "dense") and not part:
            continue
        if is_blend and weight:
            share = f"{bar(part * weight, 1.0)} {part * weight:.2f}"
            reason = f"= {part:.2f} × {weight:.2f}" + (f": {matches}" if matches else "")
            table.add_row(name, Text(share, style="green"), Text(reason, style="dim"))
        elif not is_blend and signal in ("lexical", "dense") and matches:
            table.add_row(name, "", Text(matches, style="dim"))
    for name, value, reason in added_parts(scores):
        table.add_row(name, Text(f"{bar(value, 1.0)} {value:.2f}", style="green"), Text(reason, style="dim"))
    return table


def added_parts(scores: Mapping[str, Any]) -> Iterable[tuple[str, float, str]]:
    """The name, the value and the reason of what decay and boosts add to a score."""
    if scores.get("decay"):
        yield "date", scores["decay"], "by the age of the document"
    if scores.get("exact_name"):
        yield "name", scores["exact_name"], "the title, a heading or the file name is the query"
    if scores.get("identifiers"):
        yield "identifiers", scores["identifiers"], "it has all identifiers and numbers of the query"
    for boost in scores.get("boosts") or ():
        if boost["value"]:
            yield "boost", boost["value"], one_line(boost["filter"])


def _meaning(scores: Mapping[str, Any], nearest: Mapping[str, Any] | None) -> str:
    """What the dense part of a score rests on."""
    if scores.get("dense") is None:
        return ""
    if scores.get("dense_raw") is None:
        return "estimated from the other parts, because it is not embedded yet"
    cosine = f"similarity {scores['dense_raw']:.2f}"
    return f"{cosine}; {one_line(nearest['description'])}" if nearest else cosine


def _lexical_places(places: Sequence[str]) -> Sequence[str]:
    return [place for place in places if place != "tag"]


def _boosted_places(places: Sequence[str]) -> Sequence[str]:
    return [place for place in places if place != "text"]


def _terms_with_places(
    terms: Sequence[Mapping[str, Any]], select: Callable[[Sequence[str]], Sequence[str]]
) -> str:
    """The matched terms that have selected places, each with these places."""
    matches = ((term, select(term["places"])) for term in terms)
    return ", ".join(
        f"{one_line(term['term'])} ({', '.join([*places, *_stem_note(term)])})"
        for term, places in matches
        if places
    )


def _stem_note(term: Mapping[str, Any]) -> list[str]:
    notes = [f"as {one_line(term['same_stem'])}"] if term.get("same_stem") else []
    synonyms = ", ".join(map(one_line, term.get("synonyms") or ()))
    return [*notes, f"by its synonym {synonyms}"] if synonyms else notes


def reasons(shared: Sequence[Mapping[str, Any]]) -> Table:
    """A table of the shared reefs that are reasons, with the words that show them; the others in one line."""
    from rich.table import Table

    named = [reef for reef in shared if reef["is_reason"]]
    background = [reef for reef in shared if not reef["is_reason"]]
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=bool(named), header_style="dim")
    table.add_column("shared topics", overflow="fold", max_width=36)
    table.add_column("query", overflow="fold", style="blue")
    table.add_column("passage", overflow="fold", style="green")
    table.add_column("adds", no_wrap=True, justify="right")
    for reef in named:
        words = (", ".join(map(one_line, reef[field])) for field in ("query_words", "passage_words"))
        table.add_row(Text(one_line(reef["reef_name"])), *map(Text, words), _part(reef["share"]))
    if background:
        title = "in the background" if named else "in the background only"
        total = sum(reef["share"] for reef in background)
        table.add_row(Text(title, style="dim"), "", quantity(len(background), "shared reef"), _part(total))
    return table


def _part(share: float) -> str:
    """A part of the score; empty where reefs are no part of it."""
    return f"{share:.2f}" if share else ""


def bar(value: float, top: float, cells: int = BAR_CELLS) -> str:
    """`value` as a share of `top`, drawn as a bar of `cells` characters in steps of 1/8 character."""
    if not (math.isfinite(value) and math.isfinite(top)) or value <= 0 or top <= 0:
        return " " * cells
    eighths = round(min(value / top, 1.0) * cells * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(cells)


def highlighted(pieces: Iterable[Piece]) -> Text:
    """A snippet with its highlights in bold."""
    line = Text()
    for piece in pieces:
        line.append(piece.text, style="bold yellow" if piece.is_highlight else "")
    return line


def _location(result: Mapping[str, Any]) -> str:
    """The headings below the title, then the file, the lines and the number of the passage."""
    path = headings_below(result["document_title"], result["section_path"])
    first, last = result["start_line"], result["end_line"]
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    source = display_path(result["source_path"] or "")
    passage = passage_reference(result["document_id"], result["chunk_index"])
    at = result.get("place")
    place = one_line(at["label"]) if at and at["kind"] != LocatorKind.line else ""
    modality = result.get("modality") or Modality.text
    kind = "" if modality == Modality.text else modality.replace("_", " ")
    citation = ", ".join(part for part in (source, kind, place, lines, passage) if part)
    return "\n".join(part for part in (" › ".join(map(one_line, path)), citation) if part)


def passage_reference(document_id: int, chunk_index: int) -> str:
    """The numbers of a passage, for `shoal show DOC --chunk N` and `shoal explain --document DOC`."""
    return f"document {document_id}, passage #{chunk_index}"


def subject(passage: Mapping[str, Any]) -> Text:
    """The names of the labels, or why there are none."""
    names = ", ".join(one_line(label["reef_name"]) for label in passage["labels"])
    if names:
        return Text(names, style="magenta")
    return Text(NOT_SCORED if passage.get("awaits_rescore") else NO_SUBJECT, style="dim")


def _indented(part: Text | Table) -> Padding:
    return Padding(part, (0, 0, 0, INDENT), expand=False)


def why(reasons: Iterable[Mapping[str, Any]]) -> Text:
    """Why it is a result, with the words of the passage in bold."""
    line = Text()
    parts = (Reason(ReasonKind(each["kind"]), each["lead"], tuple(each["items"])) for each in reasons)
    for text, is_word in pieces_of(parts):
        line.append(one_line(text) if is_word else text, style="bold" if is_word else "")
    return line


def _summary(result: Mapping[str, Any], *, with_scores: bool) -> Text:
    about = result.get("note") or result
    parts = [Text("about " if about["labels"] else "").append(subject(about))]
    if with_scores or "reasons" not in result:
        parts.append(Text(quantity(result["n_shared_reefs"], "shared reef")))
        if coverage := term_coverage(result.get("term_coverage")):
            parts.append(Text(coverage))
        parts.append(Text(f"score {result['match_score']:.3f}"))
    if about["tags"]:
        parts.append(Text(f"tags {', '.join(one_line(tag) for tag in about['tags'])}"))
    return Text(" · ").join(parts)
