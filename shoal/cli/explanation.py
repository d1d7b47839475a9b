"""Explanations for people. Input is the JSON form, as in `shoal.cli.results`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.cli.results import bar, numbered, reef_bars, score_parts, term_coverage
from shoal.cli.terminal import one_line
from shoal.cli.vocabulary import evidence_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

REEFS_PER_WORD = 3
PROFILE_SHOWN = 10
WORD_STYLES = {"known": "green", "learned": "cyan", "unknown": "red", "stop": "dim", "number": "dim"}
BY_SPELLING = {
    "unknown": "not in the vocabulary; found by spelling alone",
    "number": "numbers are found by spelling alone",
}
NOT_BY_SPELLING = {
    "unknown": "not in the vocabulary; without effect on a search by reefs",
    "number": "numbers are without effect on a search by reefs",
}
NOWHERE = {
    "unknown": "in no passage and not in the vocabulary",
    "number": "in no passage",
}
TOO_COMMON = "too common to say anything"
SIGNALS = {"lexical": "words", "reef": "reefs", "field_boost": "field_boost"}

CONTRIBUTIONS = (
    "Numbers: what the word adds to the sum of the reef. A z-score compares the sum with ordinary text."
)


def print_explanation(console: Console, answer: Mapping[str, Any]) -> None:
    """The query word by word, its profile, and what became of the document asked about."""
    from rich.text import Text

    _print_words(console, answer["words"], answer["mode"])
    _print_demands(console, answer)
    _print_profile(console, answer["reefs"])
    _print_feedback(console, answer["feedback"])
    info = answer["query_info"]
    console.print(
        Text(
            f"{info['coverage']:.0%} of the words that count are known; the first reef leads by "
            f"{info['confidence']:.1f}",
            style="dim",
        )
    )
    if answer["target"]:
        console.print()
        _print_target(console, answer["target"], answer["weights"])


def _print_words(console: Console, words: Sequence[Mapping[str, Any]], mode: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("word", no_wrap=True, overflow="ellipsis", max_width=32)
    table.add_column("is", no_wrap=True)
    table.add_column("passages", no_wrap=True, justify="right")
    table.add_column("reefs it adds to", overflow="fold")
    for word in words:
        shown = one_line(word["text"])
        found_as = one_line(word["word"] or "")
        if found_as and found_as != shown.lower():
            shown += f" → {found_as}"
        status = word["status"]
        table.add_row(
            Text(shown),
            Text(status, style=WORD_STYLES.get(status, "")),
            "" if word["n_chunks"] is None else f"{word['n_chunks']:,}",
            _reefs_of(word, mode),
        )
    console.print(table)
    if any(word["reefs"] for word in words):
        console.print(Text(CONTRIBUTIONS, style="dim"))
    _print_learned(console, [word["learned"] for word in words if word["learned"]])


def _print_learned(console: Console, words: Sequence[Mapping[str, Any]]) -> None:
    """What the learned words of a query rest on, each once."""
    from rich.text import Text

    for word in {word["word"]: word for word in words}.values():
        titles = [
            f"{one_line(document['title'])} (document {document['document_id']})"
            for document in word["evidence"]["documents"]
        ]
        among = f": {'; '.join(titles)}" if titles else ""
        line = Text(one_line(word["word"]), style=WORD_STYLES["learned"])
        console.print(line.append(f" was {evidence_line(word)}{among}", style="dim"))


def _reefs_of(word: Mapping[str, Any], mode: str) -> Text:
    """The reefs of a word, or why it has none and what becomes of it."""
    from rich.text import Text

    reefs, status = word["reefs"], word["status"]
    if not reefs and word["n_chunks"] == 0:
        meant = ", ".join(one_line(one) for one in word["suggestions"])
        note = NOWHERE.get(status, "")
        return Text(f"{note}; did you mean {meant}?" if meant else note, style="yellow")
    if not reefs:
        notes = NOT_BY_SPELLING if mode == "reef" else BY_SPELLING
        return Text(TOO_COMMON if status == "stop" else notes.get(status, ""), style="dim")
    return Text(
        " · ".join(
            f"{one_line(reef['reef_name'])} {reef['contribution']:.1f}" for reef in reefs[:REEFS_PER_WORD]
        )
    )


def _print_demands(console: Console, answer: Mapping[str, Any]) -> None:
    """What the query wants in a result and what it does not, and what each signal counts."""
    if answer["required"] and answer["mode"] != "reef":
        console.print(f"Every result holds {', '.join(map(one_line, answer['required']))}.")
    if answer["excluded"]:
        console.print(f"No result holds {', '.join(map(one_line, answer['excluded']))}.")
    if answer["mode"] == "hybrid" and any(answer["weights"].values()):
        counts = " · ".join(f"{name} {answer['weights'][signal]:.0%}" for signal, name in SIGNALS.items())
        console.print(f"Weights: {counts}", style="dim")


def _print_profile(console: Console, reefs: Sequence[Mapping[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    if not reefs:
        console.print("\nThe query is about nothing that could be searched for.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("the query is about", overflow="fold", max_width=60)
    table.add_column("z-score", no_wrap=True)
    top = reefs[0]["z_score"]
    # Where company is part of it, what the words say without.
    with_own = any(reef["own_z"] != reef["z_score"] for reef in reefs)
    if with_own:
        table.add_column("by its words", no_wrap=True, justify="right")
    for reef in reefs[:PROFILE_SHOWN]:
        drawn = f"{bar(reef['z_score'], top)} {reef['z_score']:5.1f}"
        own = [Text(f"{reef['own_z']:.1f}" if reef["own_z"] else "", style="dim")] if with_own else []
        table.add_row(Text(one_line(reef["reef_name"])), Text(drawn, style="blue"), *own)
    if len(reefs) > PROFILE_SHOWN:
        table.add_row(Text(f"and {len(reefs) - PROFILE_SHOWN} more", style="dim"), "")
    console.print()
    console.print(table)


def _print_feedback(console: Console, feedback: Sequence[Mapping[str, Any]]) -> None:
    """The passages that are part of the profile above."""
    from rich.text import Text

    if feedback:
        named = (
            f"{one_line(one['document_title'])} ({numbered(one['document_id'], one['chunk_index'])})"
            for one in feedback
        )
        line = f"the rest is what the passages that match its words best are about: {'; '.join(named)}"
        console.print(Text(line, style="dim"))


def _print_target(console: Console, target: Mapping[str, Any], weights: Mapping[str, float]) -> None:
    from rich.text import Text

    head = Text(one_line(target["document_title"]), style="bold cyan")
    head.append(f" ({numbered(target['document_id'], target['chunk_index'])})", style="dim")
    console.print(head)
    if target["rank"] is not None:
        console.print(f"Number {target['rank']:,} of the results, with a score of {target['score']:.3f}.")
    for reason in target["kept_out"]:
        console.print(f"Not among the results: {one_line(reason['message'])}.", style="yellow")
    if target["rank"] is None and target["would_rank"] is not None:
        console.print(f"Without that it would be number {target['would_rank']:,}.")
    if held := term_coverage(target.get("term_coverage")):
        console.print(f"It {held}.")
    parts = score_parts(target["scores"], weights, target["matched_terms"])
    if parts.row_count:
        console.print(parts)
    if target["shared_reefs"]:
        console.print(reef_bars(target["shared_reefs"]))
