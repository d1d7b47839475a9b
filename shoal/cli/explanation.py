"""Explanations as text for people. The input is the JSON form, as in `shoal.cli.results`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shoal.cli.results import (
    bar,
    passage_reference,
    reasons,
    rerank_line,
    score_parts,
    term_coverage,
    why,
)
from shoal.cli.tables import evidence_line
from shoal.support.plain_text import one_line

REEFS_PER_WORD = 3
PROFILE_SHOWN = 10
COUNTERFACTUALS_SHOWN = 6
WORD_STYLES = {"known": "green", "learned": "cyan", "unknown": "red", "stop": "dim", "number": "dim"}
LEXICAL_NOTES = {
    "unknown": "not in the vocabulary; matched by spelling only",
    "number": "numbers are matched by spelling only",
}
REEF_MODE_NOTES = {
    "unknown": "not in the vocabulary; no effect on a search by reefs",
    "number": "numbers have no effect on a search by reefs",
}
ABSENT_NOTES = {
    "unknown": "in no passage and not in the vocabulary",
    "number": "in no passage",
}
STOP_WORD_NOTE = "too common to carry meaning"
SIGNALS = {"lexical": "words", "reef": "reefs", "field_boost": "field boost", "dense": "meaning"}

CONTRIBUTIONS = (
    "Numbers: what the word adds to the reef's sum. A z-score compares the sum with ordinary text."
)


def print_explanation(console: Console, answer: Mapping[str, Any]) -> None:
    """Print the query word by word, its profile, and the rank of the target document or passage."""
    _print_words(console, answer["words"], answer["mode"])
    _print_constraints(console, answer)
    _print_profile(console, answer["reefs"])
    _print_feedback(console, answer["feedback"])
    info = answer["query_info"]
    console.print(
        Text(
            f"{info['coverage']:.0%} of the content words are known; the first reef leads by "
            f"{info['confidence']:.1f}",
            style="dim",
        )
    )
    if answer["target"]:
        console.print()
        _print_target(console, answer["target"], answer["weights"])
    found = answer["counterfactuals"]
    if found and not answer["target"]:
        first = Text(f"\nFirst is {one_line(found['document_title'])}: ")
        console.print(first.append(why(found["reasons"])))
    if found and found["changes"]:
        console.print()
        _print_counterfactuals(console, found, is_of_target=bool(answer["target"]))


def _print_counterfactuals(console: Console, found: Mapping[str, Any], *, is_of_target: bool) -> None:
    of_what = "" if is_of_target else f" in the first result, {one_line(found['document_title'])}"
    console.print(Text(f"What one word would change{of_what}:"))
    for change in found["changes"][:COUNTERFACTUALS_SHOWN]:
        console.print(Text(f"- {one_line(change['message'])}"))
    console.print(Text(f"Each was found by searching again ({found['n_searches']} searches).", style="dim"))


def _print_words(console: Console, words: Sequence[Mapping[str, Any]], mode: str) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("word", no_wrap=True, overflow="ellipsis", max_width=32)
    table.add_column("is", no_wrap=True)
    table.add_column("passages", no_wrap=True, justify="right")
    table.add_column("reefs it adds to", overflow="fold")
    for word in words:
        label = one_line(word["text"])
        base_form = one_line(word["word"] or "")
        if base_form and base_form != label.lower():
            label += f" → {base_form}"
        status = word["status"]
        table.add_row(
            Text(label),
            Text(status, style=WORD_STYLES.get(status, "")),
            "" if word["n_chunks"] is None else f"{word['n_chunks']:,}",
            _reefs_of(word, mode),
        )
    console.print(table)
    if any(word["reefs"] for word in words):
        console.print(Text(CONTRIBUTIONS, style="dim"))
    _print_learned(console, [word["learned"] for word in words if word["learned"]])


def _print_learned(console: Console, words: Sequence[Mapping[str, Any]]) -> None:
    """Print the evidence of each learned word of a query once."""
    for word in {word["word"]: word for word in words}.values():
        titles = [
            f"{one_line(document['title'])} (document {document['document_id']})"
            for document in word["evidence"]["documents"]
        ]
        sources = f": {'; '.join(titles)}" if titles else ""
        line = Text(one_line(word["word"]), style=WORD_STYLES["learned"])
        console.print(line.append(f" was {evidence_line(word)}{sources}", style="dim"))


def _reefs_of(word: Mapping[str, Any], mode: str) -> Text:
    """The reefs of a word, or a note why it has none and how it is searched."""
    reefs, status = word["reefs"], word["status"]
    if not reefs and word["n_chunks"] == 0:
        suggestions = ", ".join(map(one_line, word["suggestions"]))
        note = ABSENT_NOTES.get(status, "")
        return Text(f"{note}; did you mean {suggestions}?" if suggestions else note, style="yellow")
    if not reefs:
        notes = REEF_MODE_NOTES if mode == "reef" else LEXICAL_NOTES
        return Text(STOP_WORD_NOTE if status == "stop" else notes.get(status, ""), style="dim")
    return Text(
        " · ".join(
            f"{one_line(reef['reef_name'])} {reef['contribution']:.1f}" for reef in reefs[:REEFS_PER_WORD]
        )
    )


def _print_constraints(console: Console, answer: Mapping[str, Any]) -> None:
    """Print the required and excluded terms of the query, and the weight of each signal."""
    if answer["required"] and answer["mode"] != "reef":
        console.print(f"Every result contains {', '.join(map(one_line, answer['required']))}.")
    if answer["excluded"]:
        console.print(f"No result contains {', '.join(map(one_line, answer['excluded']))}.")
    if answer["mode"] == "hybrid" and any(answer["weights"].values()):
        weights = " · ".join(
            f"{name} {answer['weights'][signal]:.0%}"
            for signal, name in SIGNALS.items()
            if signal != "dense" or answer["weights"].get(signal)
        )
        console.print(f"Weights: {weights}", style="dim")


def _print_profile(console: Console, reefs: Sequence[Mapping[str, Any]]) -> None:
    if not reefs:
        console.print("\nThe query has no reefs to search for.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("reefs searched for", overflow="fold", max_width=60)
    table.add_column("z-score", no_wrap=True)
    top = reefs[0]["z_score"]
    # With pseudo-relevance feedback in the profile: a column of the z-scores of the query's own words.
    has_feedback = any(reef["own_z"] != reef["z_score"] for reef in reefs)
    if has_feedback:
        table.add_column("by its words", no_wrap=True, justify="right")
    for reef in reefs[:PROFILE_SHOWN]:
        z_score = f"{bar(reef['z_score'], top)} {reef['z_score']:5.1f}"
        own = [Text(f"{reef['own_z']:.1f}" if reef["own_z"] else "", style="dim")] if has_feedback else []
        table.add_row(Text(one_line(reef["reef_name"])), Text(z_score, style="blue"), *own)
    if len(reefs) > PROFILE_SHOWN:
        table.add_row(Text(f"and {len(reefs) - PROFILE_SHOWN} more", style="dim"), "")
    console.print()
    console.print(table)


def _print_feedback(console: Console, feedback: Sequence[Mapping[str, Any]]) -> None:
    """Print the feedback passages, which are part of the profile."""
    if feedback:
        passages = (
            f"{one_line(passage['document_title'])} "
            f"({passage_reference(passage['document_id'], passage['chunk_index'])})"
            for passage in feedback
        )
        line = f"the rest comes from the passages that match its words best: {'; '.join(passages)}"
        console.print(Text(line, style="dim"))


def _relevance_parts(parts: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False, pad_edge=False)
    table.add_column("adds", no_wrap=True, justify="right")
    table.add_column("reason", overflow="fold")
    for part in parts:
        table.add_row(f"{part['contribution']:+.2f}", Text(one_line(part["description"]), style="dim"))
    return table


def _print_target(console: Console, target: Mapping[str, Any], weights: Mapping[str, float]) -> None:
    head = Text(one_line(target["document_title"]), style="bold cyan")
    head.append(f" ({passage_reference(target['document_id'], target['chunk_index'])})", style="dim")
    console.print(head)
    if target["rank"] is not None:
        console.print(f"Number {target['rank']:,} of the results, with a score of {target['score']:.3f}.")
    if target["pinned_by"] is not None:
        console.print(f"Pin {target['pinned_by']} puts it there, whatever its score.")
    if target["rerank"]:
        line = rerank_line(target["rerank"])
        console.print(f"{line[0].upper()}{line[1:]}.")
    for reason in target["kept_out"]:
        console.print(f"Not among the results: {one_line(reason['message'])}.", style="yellow")
    if target["rank"] is None and target["would_rank"] is not None:
        console.print(f"Without that it would be number {target['would_rank']:,}.")
    if target["reasons"]:
        console.print(why(target["reasons"]))
    if coverage := term_coverage(target.get("term_coverage")):
        console.print(f"It {coverage}.")
    if target["relevance_parts"]:
        console.print(f"Its relevance is {target['relevance']:.0%}, by these log odds:")
        console.print(_relevance_parts(target["relevance_parts"]))
    parts = score_parts(target["scores"], weights, target["matched_terms"], target.get("nearest_sentence"))
    if parts.row_count:
        console.print(parts)
    if target["shared_reefs"]:
        console.print(reasons(target["shared_reefs"]))
