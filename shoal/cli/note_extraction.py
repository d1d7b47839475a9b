"""The commands `shoal note extract` and `shoal note status`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.session import Owner, Session, print_json

if TYPE_CHECKING:
    from shoal.engine import Engine
    from shoal.models.notes import ExtractionStatus
    from shoal.notes.extraction import Extracted

MAX_ANSWER_CHARS = 1_000_000

Transcript = Annotated[
    Path | None,
    typer.Argument(metavar="TRANSCRIPT", help="JSON Lines, as coding agents write them; they end in .jsonl."),
]
SessionId = Annotated[
    str, typer.Option("--session", metavar="ID", help="Default: the session that the transcript names.")
]
Waiting = Annotated[
    bool, typer.Option("--waiting", help="Extract all transcripts that wait, of all owners, and end.")
]
ShowRequest = Annotated[
    bool,
    typer.Option("--show-request", help="Print the question about the next part for an endpoint, as JSON."),
]
Answer = Annotated[
    Path | None,
    typer.Option("--answer", metavar="FILE", help="Store the lessons of this answer to it; `-` is stdin."),
]


def extract(
    session: Session,
    transcript: Transcript = None,
    waiting: Waiting = False,
    session_id: SessionId = "",
    owner: Owner = None,
    show_request: ShowRequest = False,
    answer: Answer = None,
) -> None:
    """Extract lessons from transcripts of coding agents.

    Asks the chat endpoint of SHOAL_LLM_URL for lessons in what is new since the last time, checks each, and
    stores them as notes that are not verified. Without an endpoint, an agent can answer: --show-request
    prints the question, and --answer stores the lessons. The worker of `shoal up` extracts by itself what
    stop hooks have queued.

    \b
        shoal note extract session.jsonl
        shoal note extract --waiting
        shoal note extract session.jsonl --show-request > request.json
        shoal note extract session.jsonl --answer answer.json
    """
    if waiting == (transcript is not None) or (waiting and (show_request or answer)):
        raise typer.BadParameter("give a TRANSCRIPT, or --waiting alone")
    with session.engine() as engine:
        if transcript is None:
            _extract_waiting(session, engine)
            return
        notes = engine.notes.of(owner or engine.settings.note_owner)
        if show_request:
            print_json(notes.extraction_request(transcript, session_id=session_id))
            return
        text = None if answer is None else _read_answer(answer)
        _show(session, [notes.extract(transcript, session_id=session_id, answer=text)])


def status(session: Session, owner: Owner = None) -> None:
    """Show the numbers of an owner's notes and the transcripts that wait."""
    with session.engine() as engine:
        values = engine.notes.of(owner or engine.settings.note_owner).status()
    session.emit(values)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in values.by_kind.items())
    session.say(
        f"notes of {values.owner}: {values.n_active:,} active{f' ({kinds})' if kinds else ''}, "
        f"{values.n_deprecated:,} deprecated, {values.n_pinned:,} pinned"
    )
    for line in _extraction_lines(values.extraction):
        session.say(line)


def _extraction_lines(extraction: ExtractionStatus) -> list[str]:
    n_waiting = extraction.n_waiting
    lines = [f"transcripts that wait: {n_waiting:,}"]
    if n_waiting:
        lines[0] += f", since {extraction.waiting_since}"
    if extraction.error:
        again = f"; next attempt at {extraction.retry_at}" if extraction.retry_at else ""
        lines.append(f"last failure: {extraction.error}{again}")
    if extraction.endpoint:
        lines.append(
            f"chat endpoint: {extraction.requests_today:,} of {extraction.daily_requests:,} requests today"
        )
    else:
        lines.append(
            "chat endpoint: none (SHOAL_LLM_URL and SHOAL_LLM_MODEL); transcripts wait until there is one"
        )
    return lines


def _extract_waiting(session: Session, engine: Engine) -> None:
    results = engine.notes.extract_waiting(any_time=True)
    if not results and not session.as_json:
        session.say("no transcript waits, or another process extracts them")
        return
    _show(session, results)


def _show(session: Session, results: list[Extracted]) -> None:
    session.emit(results)
    for result in results:
        session.say(
            f"{result.session_id}: {result.n_added:,} added, {result.n_duplicates:,} known already, "
            f"{len(result.refused):,} refused{f'; {result.reason}' if result.reason else ''}"
        )
        for reason in result.refused:
            session.say(f"  {reason}")


def _read_answer(path: Path) -> str:
    if str(path) == "-":
        return sys.stdin.read(MAX_ANSWER_CHARS)
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(MAX_ANSWER_CHARS)
