"""Documents, jobs and status values as tables for people. The input is the JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shoal.cli.job_lines import pace, summary, with_reason
from shoal.cli.results import subject
from shoal.cli.terminal import data_size, display_path, quantity
from shoal.models.files import how_cut
from shoal.models.jobs import ItemStatus, JobStatus
from shoal.support.plain_text import one_line, plain

REEFS_SHOWN = 4
STATUS_STYLES = {
    JobStatus.succeeded: "green",
    ItemStatus.duplicate: "cyan",
    JobStatus.partial: "yellow",
    JobStatus.failed: "red",
    JobStatus.canceled: "dim",
    JobStatus.processing: "blue",
    ItemStatus.scoring: "blue",
}


def print_documents(console: Console, page: Mapping[str, Any]) -> None:
    """Print documents, one per line if the terminal is wide enough."""
    documents, total = page["documents"], page["total"]
    if not documents:
        console.print(
            f"no documents after the first {total:,}" if page["offset"] and total else "no documents"
        )
        return
    table = make_table(header=True)
    for name in ("document", "passages", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, ratio in (("title", 3), ("tags", 1), ("path", 3)):
        table.add_column(name, overflow="fold", ratio=ratio)
    for document in documents:
        table.add_row(
            str(document["id"]),
            f"{document['n_chunks']:,}",
            f"{document['n_bytes']:,}",
            Text(one_line(document["title"]), style="bold cyan"),
            Text(", ".join(one_line(tag) for tag in document["tags"])),
            Text(display_path(document["source_path"] or ""), style="dim"),
        )
    console.print(table)
    print_rest(console, len(documents), total)


def print_document(
    console: Console,
    detail: Mapping[str, Any],
    chunks: Sequence[Mapping[str, Any]],
    *,
    reefs: int,
    with_text: bool = False,
) -> None:
    """Print a document with the given passages, section by section."""
    document, report = detail["document"], detail["report"]
    console.print(Text(one_line(document["title"]), style="bold cyan"))
    facts = [
        f"document {document['id']}",
        document["format"],
        quantity(document["n_bytes"], "byte"),
        quantity(document["n_sentences"], "sentence"),
        quantity(document["n_chunks"], "passage"),
        f"{document['coverage']:.0%} of the words known",
        how_cut(document["chunk_tokens"]),
    ]
    console.print(Text(" · ".join(filter(None, facts)), style="dim"))
    if document["source_path"]:
        console.print(Text(f"from {display_path(document['source_path'])}", style="dim"))
    if document["tags"]:
        console.print(Text("tags " + ", ".join(one_line(tag) for tag in document["tags"]), style="dim"))
    for label, name in (("attached to", "parents"), ("attachments", "attachments")):
        if linked := detail[name]:
            names = ", ".join(f"{one_line(each['title'])} (document {each['id']})" for each in linked)
            console.print(Text(f"{label} {names}", style="dim"))
    _print_passages(console, chunks, reefs=reefs, with_text=with_text)
    _print_left_out(console, report["n_left_out"])
    _print_account(console, (detail.get("file") or {}).get("account"))
    for warning in report["warnings"]:
        console.print(Text(f"warning: {one_line(warning)}", style="yellow"))


def _print_passages(
    console: Console, chunks: Sequence[Mapping[str, Any]], *, reefs: int, with_text: bool
) -> None:
    section: int | None = None
    table = _passage_table()
    for chunk in chunks:
        if chunk["section_index"] != section:
            if table.row_count:
                console.print(table)
            section, table = chunk["section_index"], _passage_table()
            path = " › ".join(one_line(heading) for heading in chunk["section_path"])
            console.print(Text(f"\n{path or '(before the first heading)'}", style="bold"))
        about = subject(chunk)
        if strongest := chunk["reefs"][:reefs]:
            names = " · ".join(f"{one_line(reef['reef_name'])} {reef['z_score']:.1f}" for reef in strongest)
            about.append(f"\n{names}", style="dim")
        table.add_row(
            Text(f"#{chunk['chunk_index']}", style="dim"),
            f"{chunk['start_line']}-{chunk['end_line']}",
            about,
        )
        if with_text:
            console.print(table)
            table = _passage_table()
            # Not wrapped, so that a copied passage keeps its own lines.
            console.print(Text(plain(chunk["text"]).rstrip() + "\n"), soft_wrap=True)
    if table.row_count:
        console.print(table)


def _passage_table() -> Table:
    table = make_table(header=False)
    table.add_column("passage", min_width=5)
    table.add_column("lines", min_width=9, justify="right", no_wrap=True)
    table.add_column("about", overflow="fold")
    return table


def _print_left_out(console: Console, counts: Mapping[str, int]) -> None:
    if counts:
        listed = ", ".join(f"{one_line(reason)} ({count:,})" for reason, count in sorted(counts.items()))
        console.print(Text(f"\nin no passage: {listed}", style="dim"))


def _print_account(console: Console, account: Mapping[str, Any] | None) -> None:
    """Print what of the file is not in the document."""
    if account is None:
        return
    words = f"{account['n_stored']:,} of {quantity(account['n_words'], 'word')} of the file are stored"
    console.print(Text(f"\n{words}", style="dim"))
    for part in account["missing"]:
        place = f" of {one_line(part['place'])}" if part["place"] else ""
        size = quantity(part["n_words"], "word") if part["n_words"] else data_size(part["n_bytes"])
        why = ", on purpose" if part["is_intended"] else ""
        text = f": “{one_line(part['text'])}”" if part["text"] else ""
        console.print(Text(f"  not stored: {part['kind']}{place}, {size}{why}{text}", style="dim"))


def print_status(console: Console, state: Mapping[str, Any]) -> None:
    """Print names and values, one per line. Chunks are called passages."""
    table = make_table(header=False)
    table.add_column("name", style="cyan", no_wrap=True)
    table.add_column("value", overflow="fold")
    for name, value in state.items():
        label = name.replace("chunks", "passages").replace("_", " ")
        table.add_row(one_line(label), _value(value))
    console.print(table)


def print_settings(console: Console, settings: Sequence[Mapping[str, Any]]) -> None:
    table = make_table(header=True)
    table.add_column("setting", style="cyan", no_wrap=True)
    table.add_column("value", overflow="fold", max_width=32)
    table.add_column("meaning", overflow="fold")
    for setting in settings:
        changed = setting["value"] != setting["default"]
        note = f" (default: {setting['default'] or 'empty'})" if changed else ""
        table.add_row(
            setting["name"],
            one_line(setting["value"]),
            setting["meaning"] + note,
            style="bold" if changed else "",
        )
    console.print(table)


def print_jobs(console: Console, jobs: Sequence[Mapping[str, Any]], *, total: int) -> None:
    if not jobs:
        console.print("no jobs")
        return
    table = make_table(header=True)
    for name in ("job", "kind", "status", "stage", "done", "failed", "duplicate", "created"):
        table.add_column(name, no_wrap=True)
    for job in jobs:
        progress = job["progress"]
        table.add_row(
            str(job["id"]),
            one_line(job["kind"]),
            Text(job["status"], style=STATUS_STYLES.get(job["status"], "")),
            job["stage"] or "",
            f"{progress['done']:,}/{progress['total']:,}",
            f"{progress['failed']:,}",
            f"{progress['duplicate']:,}",
            one_line(job["created_at"]),
        )
    console.print(table)
    print_rest(console, len(jobs), total)


def print_job(console: Console, job: Mapping[str, Any]) -> None:
    console.print(Text(summary(job), style=STATUS_STYLES.get(job["status"], "")))
    times = [
        f"{name} {job[name + '_at']}" for name in ("created", "started", "finished") if job[name + "_at"]
    ]
    console.print(Text(", ".join(times), style="dim"))
    if pace_line := pace(job["progress"]):
        console.print(Text(pace_line, style="dim"))
    if job["error"]:
        console.print(Text(one_line(job["error"]), style="red"))


def print_items(console: Console, items: Sequence[Mapping[str, Any]], *, total: int) -> None:
    table = make_table(header=True)
    table.add_column("#", justify="right")
    table.add_column("status", no_wrap=True)
    table.add_column("document", justify="right")
    table.add_column("bytes", justify="right")
    table.add_column("title or reason", overflow="fold")
    for item in items:
        table.add_row(
            str(item["seq"]),
            Text(item["status"], style=STATUS_STYLES.get(item["status"], "")),
            "" if item["document_id"] is None else str(item["document_id"]),
            f"{item['bytes']:,}",
            Text(_item_line(item)),
        )
        if item.get("attached_to"):
            table.add_row("", "", "", "", Text(f"attached to #{item['attached_to']}", style="dim"))
        for warning in item.get("warnings", ()):
            table.add_row("", "", "", "", Text(f"warning: {one_line(warning)}", style="yellow"))
    if items:
        console.print(table)
    print_rest(console, len(items), total)


def _item_line(item: Mapping[str, Any]) -> str:
    """The title of an item, its path if that differs from the title, and its error."""
    title, path = one_line(item["title"] or ""), display_path(item["source_path"] or "")
    path_has_title = path == title or path.endswith(f"/{title}")
    name = f"{title} ({path})" if title and path and not path_has_title else path or title
    reason = one_line(item["error"] or "")
    if not reason or any(reason.startswith(f"{prefix}: ") for prefix in (title, path)):
        return reason or name
    return with_reason(name, reason)


def print_rest(console: Console, n_shown: int, total: int, none: str = "") -> None:
    """Print that there are others than those that were shown; if none were, and `none` is not empty, that."""
    if none and not n_shown:
        console.print(f"none on this page, {total:,} in all" if total else none)
    elif total > n_shown:
        console.print(f"{n_shown:,} of {total:,}; --limit and --offset show others", style="dim")


def make_table(*, header: bool) -> Table:
    """Return a table without lines."""
    return Table(box=None, padding=(0, 2, 0, 0), show_header=header, header_style="dim", pad_edge=False)


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        between = "; " if any(isinstance(item, Mapping) for item in value.values()) else ", "
        return between.join(f"{one_line(str(key))} {_value(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_value(item) for item in value) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return one_line(str(value))


def print_words(console: Console, page: Mapping[str, Any]) -> None:
    """Print words with their strongest reefs, one per line."""
    words = page["words"]
    if not words:
        print_rest(console, 0, page["total"], "no learned words")
        return
    table = make_table(header=True)
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
    print_rest(console, len(words), page["total"])


def print_word(console: Console, word: Mapping[str, Any]) -> None:
    """Print a word with its evidence and all its reefs."""
    head = Text(one_line(word["word"]), style="bold cyan")
    kind = "name" if word["is_name"] else "compound" if word["is_compound"] else "word"
    head.append(f" (learned {kind}, as it is since version {word['from_version']})", style="dim")
    console.print(head)
    console.print(evidence_line(word))
    for document in word["evidence"]["documents"]:
        times = "" if document["n_occurrences"] is None else quantity(document["n_occurrences"], "occurrence")
        passages = f"in {quantity(document['n_chunks'], 'passage')}"
        title = f"  {one_line(document['title'])} (document {document['document_id']})"
        console.print(Text(f"{title}: {' '.join(part for part in (times, passages) if part)}", style="dim"))
    if word["is_name"]:
        console.print("A name is no subject: the text around it counts in rankings alone.")
        return
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
