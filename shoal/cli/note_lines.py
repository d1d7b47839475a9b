"""Notes as text for people. The input is the JSON form; notes are untrusted text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from shoal.cli.results import why
from shoal.cli.tables import make_table, print_rest
from shoal.cli.terminal import quantity
from shoal.support.plain_text import one_line, plain

PARTS = ("words", "passage", "reefs", "similarity", "turn", "recency", "fact")
"""Parts of the score of a note."""
LIST_CHARS = 200
"""Characters of a text in a list."""


def print_notes(console: Console, page: Mapping[str, Any]) -> None:
    """Print notes, one per line if the terminal is wide enough."""
    notes = page["notes"]
    if not notes:
        print_rest(console, 0, page["total"], "no notes")
        return
    table = make_table(header=True)
    table.add_column("note", justify="right", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("shown", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("tags", overflow="fold", ratio=1)
    table.add_column("text", overflow="fold", ratio=4)
    for note in notes:
        table.add_row(
            str(note["id"]),
            note["kind"],
            f"{note['times_matched']:,}",
            ", ".join(_states(note)),
            Text(", ".join(map(one_line, note["tags"]))),
            Text(_named(note)),
        )
    console.print(table)
    print_rest(console, len(notes), page["total"])


def print_note(console: Console, note: Mapping[str, Any]) -> None:
    """Print a note with all that is known about it."""
    if note["title"]:
        console.print(Text(one_line(note["title"]), style="bold cyan"))
    console.print(Text(plain(note["text"])), soft_wrap=True)
    for line in _facts(note):
        console.print(Text(line, style="dim"))
    for judgement in note["feedback"]:
        verdict = "applicable" if judgement["is_applicable"] else "not applicable"
        reason = f": {one_line(judgement['reason'])}" if judgement["reason"] else ""
        console.print(Text(f"{judgement['created_at']}  judged {verdict}{reason}"))
    for entry in note["history"]:
        fields = ": " + ", ".join(map(one_line, entry["before"])) if entry["before"] else ""
        console.print(Text(f"{entry['created_at']}  {one_line(entry['action'])}{fields}"))


def _facts(note: Mapping[str, Any]) -> Iterator[str]:
    yield " · ".join([f"note {note['id']} of {one_line(note['owner'])}", note["kind"], *_states(note)])
    for name in ("domain", "tags", "categories", "sessions"):
        if note[name]:
            values = [note[name]] if isinstance(note[name], str) else note[name]
            yield f"{name}: {', '.join(map(one_line, values))}"
    for gate, values in note["prerequisites"].items():
        if values:
            yield f"requires {gate.replace('_', ' ')}: {', '.join(map(one_line, values))}"
    if note["labels"]:
        yield "about " + ", ".join(one_line(label["reef_name"]) for label in note["labels"])
    submitted, shown = (quantity(note[name], "time") for name in ("occurrence_count", "times_matched"))
    yield f"submitted {submitted}, shown {shown}"
    if note["pin_tags"]:
        yield f"pinned where these hold: {', '.join(map(one_line, note['pin_tags']))}"
    if note["deprecated_reason"]:
        yield f"deprecated because: {one_line(note['deprecated_reason'])}"
    if note["merged_into"]:
        yield f"merged into note {note['merged_into']}"
    if note["event"]:
        days = " to ".join(dict.fromkeys([note["event"]["first_day"], note["event"]["last_day"]]))
        yield f"said {note['said_at'][:10]}, {one_line(note['event']['words'])} is {days}"
    if note["superseded_by"]:
        days = f"{note['valid_from']} to {note['valid_to']}"
        yield f"held from {days}, then replaced by note {note['superseded_by']}"
    for tag, relevance in note["tag_relevance"].items():
        judged = f"{relevance['n_positive']} for, {relevance['n_negative']} against"
        yield f"relevance for {one_line(tag)}: {relevance['score']:+.2f} ({judged})"


def print_found(console: Console, response: Mapping[str, Any]) -> None:
    """Print the results of a search in notes, with their scores if they have any."""
    for warning in response["warnings"]:
        console.print(Text(f"warning: {one_line(warning)}", style="yellow"))
    for number, result in enumerate(response["results"], 1):
        note = result["note"]
        console.print(Text(f"{number}. {_named(note, whole=True)}"), soft_wrap=True)
        facts = [f"note {note['id']}", note["kind"], f"similarity {result['similarity']:.2f}"]
        facts += [", ".join(map(one_line, note[name])) for name in ("tags", "categories") if note[name]]
        console.print(Padding(why(result["reasons"]), (0, 0, 0, 3)))
        lines = [" · ".join(facts), *([_score_line(result["scores"])] if result["scores"] else [])]
        console.print(Padding(Text("\n".join(lines), style="dim"), (0, 0, 0, 3)))
    if not response["results"]:
        console.print(f"Nothing found among {quantity(response['n_active'], 'note')}.")


def print_explanation(console: Console, explanation: Mapping[str, Any]) -> None:
    """Print why a note is shown, or not, one step per line."""
    rank = explanation["rank"]
    console.print(Text(_named(explanation["note"], whole=True), style="bold"), soft_wrap=True)
    table = make_table(header=False)
    table.add_column("step", no_wrap=True)
    table.add_column("passed", no_wrap=True)
    table.add_column("detail", overflow="fold")
    for step in explanation["steps"]:
        table.add_row(
            one_line(step["name"]),
            Text("yes", style="green") if step["passed"] else Text("no", style="red"),
            Text(one_line(step["detail"])),
        )
    console.print(table)
    if explanation["scores"]:
        console.print(_score_line(explanation["scores"]))
    console.print(f"rank {rank}" if rank else "not shown", style="bold")


def print_categories(console: Console, answer: Mapping[str, Any]) -> None:
    """Print categories as a tree with their numbers of notes."""
    print_rest(console, len(answer["categories"]), 0, "no categories")
    for category in answer["categories"]:
        *above, name = one_line(category["path"]).split("/")
        counts = f"{category['n_notes']:,}"
        if category["n_with_subcategories"] != category["n_notes"]:
            counts += f" ({category['n_with_subcategories']:,} with those below)"
        console.print(Text(f"{'  ' * len(above)}{name}  {counts}"))


def print_similar(console: Console, similar: Sequence[Mapping[str, Any]]) -> None:
    """Print a warning for each similar note."""
    for note in similar:
        if note["is_superseded"]:
            relation = "replaces"
        elif note["change"]:
            relation = "may replace"
        else:
            relation = "may contradict" if note["is_opposite"] else "says nearly the same as"
        line = f"warning: it {relation} note {note['id']} (similarity {note['similarity']:.2f}): "
        console.print(Text(line + _shortened(note["text"]), style="yellow"))


def print_outcomes(console: Console, outcomes: Mapping[str, Any]) -> None:
    """Print what became of several notes, one per line."""
    for number, outcome in enumerate(outcomes["results"], 1):
        if outcome["error"]:
            line = f"{number}. refused: {one_line(outcome['field'])}: {one_line(outcome['error'])}"
        else:
            line = f"{number}. note {outcome['note_id']}" + (
                ", counted again" if outcome["is_duplicate"] else ""
            )
        console.print(Text(line))
        if not outcome["is_duplicate"]:
            similar = outcome["similar"]
            print_similar(console, [each for each in similar if each["is_opposite"] or each["change"]])


def _score_line(scores: Mapping[str, Any]) -> str:
    """The steps of a score in one line, which can be checked."""
    signals = " + ".join(f"{name} {scores[f'{name}_part']:.4g}" for name in PARTS if scores[f"{name}_part"])
    judged = f"affinity {scores['affinity']:.3g} + relevance {scores['relevance_part']:.3g}"
    return f"score {scores['final']:.4g} = ({signals}) × {judged}"


def _states(note: Mapping[str, Any]) -> list[str]:
    states = {
        "deprecated": note["deprecated_at"],
        "pinned": note["pinned_by"],
        "verified": note["verified"],
    }
    return [name for name, holds in states.items() if holds]


def _named(note: Mapping[str, Any], *, whole: bool = False) -> str:
    title = f"{one_line(note['title'])}: " if note["title"] else ""
    return title + (one_line(note["text"]) if whole else _shortened(note["text"]))


def _shortened(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LIST_CHARS else f"{line[: LIST_CHARS - 1].rstrip()}…"


def print_proposals(console: Console, page: Mapping[str, Any]) -> None:
    """Print proposals with the texts of their notes."""
    for proposal in page["proposals"]:
        facts = [f"proposal {proposal['id']}", f"similarity {proposal['similarity']:.2f}", proposal["status"]]
        if proposal["confidence"] is not None:
            facts.append(f"confidence {proposal['confidence']:.2f}")
        console.print(Text(" · ".join(facts), style="bold"))
        if proposal["is_opposite"]:
            console.print(Text("   the texts may contradict each other; give --text", style="yellow"))
        for note in proposal["notes"]:
            console.print(Text(f"   note {note['id']}: {one_line(note['text']) or '(purged)'}"))
        for name in ("canonical_text", "reason"):
            if proposal[name]:
                label = name.replace("_", " ").removeprefix("canonical ")
                console.print(Text(f"   {label}: {one_line(proposal[name])}", style="dim"))
    print_rest(console, len(page["proposals"]), page["total"], "no proposals")


def print_merges(console: Console, page: Mapping[str, Any]) -> None:
    """Print merges, one in two lines."""
    for merge in page["merges"]:
        absorbed = ", ".join(map(str, merge["absorbed_ids"]))
        undone = f", undone {merge['undone_at']}" if merge["undone_at"] else ""
        line = f"{merge['created_at']}  merge {merge['id']}: note {merge['survivor_id']} absorbed {absorbed}"
        console.print(Text(f"{line}, decided by {merge['decided_by']}{undone}"))
        reason = f" ({one_line(merge['reason'])})" if merge["reason"] else ""
        console.print(Text(f"   {_shortened(merge['canonical_text'])}{reason}", style="dim"))
    print_rest(console, len(page["merges"]), page["total"], "no merges")
