"""`shoal demo`: the whole path on the articles that ship with Shoal, in a temporary folder."""

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
from typing import TYPE_CHECKING, Any

import typer

from shoal.cli.jobs import follow, summary
from shoal.cli.json_form import json_form
from shoal.cli.session import Session, command
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.client import Client

QUERIES = (
    "how insects help plants to reproduce",
    "why workers join forces to ask for better pay",
    "protecting children from infectious disease",
)
"""Each asks for one article in other words than its title."""
RESULTS_SHOWN = 2
BARS_SHOWN = 4
LOG_TAIL_LINES = 30
STOP_SECONDS = 60.0


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "demo")(demo)


def demo(session: Session) -> None:
    """Try everything once.

    Starts the service, uploads sixteen short articles, searches them and stops. It runs in a temporary folder and on a free port, and removes what it made.
    """
    from shoal.client import Client

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shoal-demo-") as folder:
        session.say("Starting the API and a worker, with the message broker that is built in …")
        with _service(Path(folder)) as url, Client(url) as client:
            session.say(f"They are ready at {url}. Uploading the sample corpus as one job …")
            job = client.upload_documents(sample_lines())
            job = follow(session, client, job.id)
            session.say(summary(json_form(job)))
            if not job.succeeded:
                raise ShoalError(f"the job ended as {job.status}: {job.error or 'see its items'}")
            answers = [_search(session, client, query) for query in QUERIES]
        session.say("Everything that was started has ended.")
    if session.as_json:
        session.emit(
            {"job": json_form(job), "searches": answers, "seconds": round(time.monotonic() - began, 3)}
        )
    session.say("\nYour own texts, with no service: shoal ingest-dir DIR, then shoal search 'WORDS' --scores")
    session.say("As a service: shoal up, then shoal upload DIR --wait")


def sample_lines() -> Iterator[bytes]:
    """The sample corpus as NDJSON, with titles and tags from its manifest."""
    folder = resources.files("shoal").joinpath("sample_corpus")
    for entry in json.loads(folder.joinpath("manifest.json").read_text("utf-8")):
        document = {
            "title": entry["title"],
            "content": folder.joinpath(entry["file"]).read_text("utf-8"),
            "tags": entry["tags"],
            "source_path": entry["file"],
        }
        yield json.dumps(document).encode() + b"\n"


def _search(session: Session, client: Client, query: str) -> dict[str, Any]:
    answer: dict[str, Any] = json_form(client.search(query, top_k=3, max_per_document=1, include_scores=True))
    if not session.as_json:
        from rich.rule import Rule

        from shoal.cli.results import print_search

        session.out.print()
        session.out.print(Rule(f"“{query}”", align="left", style="dim"))
        print_search(session.out, answer, with_scores=True, query=query, most=RESULTS_SHOWN, bars=BARS_SHOWN)
    if not answer["results"]:
        raise ShoalError(f"nothing was found for {query!r}")
    return {"query": query, **answer}


@contextlib.contextmanager
def _service(folder: Path) -> Iterator[str]:
    """`shoal up` in `folder`, ended with the block; its address. Raises ShoalError with the end of its log."""
    log = folder / "service.log"
    # Settings of the person's own service must not lead the demonstration to its database.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
    with log.open("wb") as written:
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "shoal.cli",
                "--db",
                str(folder / "demo.db"),
                "--json",
                "up",
                "--port",
                "0",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=written,
            env=environment,
            # A Ctrl-C is for the demonstration; it ends the service in its own order.
            start_new_session=True,
        )
    try:
        yield _address(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address that `shoal up --json` prints once it is ready."""
    assert process.stdout is not None
    printed = b""
    for line in process.stdout:
        printed += line
        if line.rstrip() == b"}":
            return str(json.loads(printed)["url"])
    tail = log.read_text("utf-8", "replace").splitlines()[-LOG_TAIL_LINES:]
    raise ShoalError("\n".join(["the service did not start. The end of its log:", *tail]))
