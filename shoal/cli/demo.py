"""`shoal demo`: start a service in a temporary folder, upload the sample articles and search them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from shoal.cli.job_lines import summary
from shoal.cli.jobs import follow
from shoal.cli.session import Session, command, json_form
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.client import Client

QUERIES = (
    "why do plants need insects",
    "why workers join forces to ask for better pay",
    "protecting children from infectious disease",
)
"""Each query is about one article, in other words than its title."""
LEGEND = (
    ("relevant", "how probable it is that the passage answers the query"),
    ("about", "its subjects, among 207 named groups of related words: reefs"),
    ("score", "orders the results: the sum of the parts below it, each a value from 0 to 1 times a weight"),
    ("words", "part for words of the query in the passage; 1.00 in the best passage of all"),
    ("reefs", "part for reefs that query and passage share; likewise"),
    ("field boost", "part for words of the query in title, headings and tags"),
    ("shared topics", "shared reefs, with the words that show them; others are in the background"),
    ("Reefs searched for", "the strongest of the query; a number above 3 stands out clearly"),
)
"""What the parts of a printed result mean."""
RESULTS_SHOWN = 1
LOG_TAIL_LINES = 30
STOP_SECONDS = 60.0


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "demo")(demo)


def demo(session: Session) -> None:
    """Try everything once.

    Starts the service, uploads sixteen short articles, searches them, explains the results and stops. It uses
    a temporary folder and a free port, and removes everything at the end.
    """
    from shoal.client import Client

    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shoal-demo-") as folder:
        session.say("Starting the service, with a worker that processes uploads …")
        with _service(Path(folder)) as url, Client(url) as client:
            session.say(f"It is ready at {url}. Uploading sixteen sample articles as one job …")
            job = client.upload_documents(sample_lines())
            job = follow(session, client, job.id)
            session.say(summary(json_form(job)))
            if not job.succeeded:
                raise ShoalError(f"the job ended as {job.status}: {job.error or 'see its items'}")
            _print_legend(session)
            searches = [_search(session, client, query) for query in QUERIES]
        session.say("\nThe service has stopped, and nothing is left of it.")
    if session.as_json:
        seconds = round(time.monotonic() - started, 3)
        session.emit({"job": json_form(job), "searches": searches, "seconds": seconds})
    session.say(
        "\nYour own texts, without a service: shoal ingest-dir DIR, then shoal search 'WORDS' --scores"
    )
    session.say("As a service: shoal up, then shoal upload DIR --wait")


def sample_lines() -> Iterator[bytes]:
    """Lines of NDJSON with the sample corpus, with titles and tags from the file beside it."""
    package = resources.files("shoal")
    folder = package.joinpath("sample_corpus")
    for entry in json.loads(package.joinpath("sample_corpus.json").read_text("utf-8")):
        document = {
            "title": entry["title"],
            "content": folder.joinpath(entry["file"]).read_text("utf-8"),
            "tags": entry["tags"],
            "source_path": entry["file"],
        }
        yield json.dumps(document).encode() + b"\n"


def _print_legend(session: Session) -> None:
    from rich.table import Table

    if session.as_json:
        return
    session.out.print("\nThree searches follow, each with its best passage and the reasons for it.")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for row in LEGEND:
        table.add_row(*row)
    session.out.print(table, style="dim")


def _search(session: Session, client: Client, query: str) -> dict[str, Any]:
    answer: dict[str, Any] = json_form(client.search(query, top_k=3, max_per_document=1, include_scores=True))
    if not session.as_json:
        from rich.rule import Rule

        from shoal.cli.results import print_search

        session.out.print()
        session.out.print(Rule(f"“{query}”", align="left", style="dim"))
        print_search(session.out, answer, with_scores=True, query=query, limit=RESULTS_SHOWN)
    if not answer["results"]:
        raise ShoalError(f"nothing was found for {query!r}")
    return {"query": query, **answer}


@contextlib.contextmanager
def _service(folder: Path) -> Iterator[str]:
    """Run `shoal up` in `folder` during the block and yield its URL.

    Raises ShoalError with the end of the log if the service does not start or cannot be reached.
    """
    from shoal.client import UnreachableError

    log = folder / "service.log"
    with log.open("wb") as log_file:
        process = _start_service(folder, log_file)
    try:
        yield _wait_for_url(process, log)
    except UnreachableError as error:
        raise ShoalError(_with_log("`shoal demo` cannot reach its service", log)) from error
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _start_service(folder: Path, log_file: BinaryIO) -> subprocess.Popen[bytes]:
    # The user's own SHOAL_ settings must not point the demo at their database.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    options = ["--db", str(folder / "demo.db"), "--json"]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "shoal.cli", *options, "up", "--port", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log_file,
        env=environment,
        # Ctrl-C reaches only the demo, which then stops the service in order.
        start_new_session=True,
    )


def _wait_for_url(process: subprocess.Popen[bytes], log: Path) -> str:
    """The URL that `shoal up --json` prints once it is ready. Raises ShoalError if it ends before."""
    assert process.stdout is not None
    printed = b""
    for line in process.stdout:
        printed += line
        if line.rstrip() == b"}":
            return str(json.loads(printed)["url"])
    raise ShoalError(_with_log("`shoal demo` could not start its service", log))


def _with_log(reason: str, log: Path) -> str:
    """Add to `reason` how to start a service and the last lines of the service log."""
    tail = log.read_text("utf-8", "replace").splitlines()[-LOG_TAIL_LINES:]
    hint = "run `shoal demo` again, or start a service with `shoal up`"
    return "\n".join([f"{reason}; {hint}. The end of the log:", *tail])
