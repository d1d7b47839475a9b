"""Generate docs/rest.md from the OpenAPI document: `python tests/docs/rest_page.py` writes it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from shoal.access.operations import DECLARED as CLASSES
from shoal.client import Client
from shoal.declared.operations.operation import Operation as Declared
from shoal.declared.operations.operation import operations_of
from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.pages import Operation, groups

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fake_scorer import FakeScorer

DECLARED = {(each.terms.method, each.address): each for each in operations_of(*CLASSES)}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "rest.md"

INTRODUCTION = """\
# The HTTP API

A running service has the same reference at `/docs`, with a form that tries each operation, at `/redoc`, with
a menu and a search, and for programs at `/openapi.json`. Every response has an `X-Trace-Id`, which the log
lines of the request have too. Errors are `application/problem+json` ([RFC
9457](https://www.rfc-editor.org/rfc/rfc9457)). If the service has keys, send `Authorization: Bearer KEY`.

"""


def page() -> str:
    """Return the whole page as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database_url=f"sqlite:///{folder}/shoal.db")
        with Engine(settings=settings, scorer=FakeScorer()) as engine:
            app = create_app(settings, engine=engine)
            spec = app.test_client().get("/openapi.json").get_json()
    return INTRODUCTION + "\n".join(
        f"## {name}\n\n{about}\n\n" + "\n".join(_operation(operation) for operation in operations)
        for name, about, operations in groups(spec)
    )


def _operation(operation: Operation) -> str:
    parts = [f"### {operation.method} {operation.path}\n", f"{operation.summary}.\n"]
    if operation.description:
        parts.append(operation.description + "\n")
    if ways := _ways(DECLARED[operation.method, operation.path]):
        parts.append(f"Also: {', '.join(ways)}.\n")
    if operation.parameters:
        rows = [
            f"| `{p['name']}` | {p['place']}{', required' if p['required'] else ''} | {_cell(p['notes'])} |"
            for p in operation.parameters
        ]
        parts += ["| parameter | in | meaning |", "|---|---|---|", *rows, ""]
    for kind, shape in operation.body:
        parts.append(f"Body, `{kind}`:\n\n```text\n{shape}\n```\n")
    for response in operation.responses:
        parts.append(f"Response {response.status}: {response.description}\n")
        if response.shape:
            parts.append(f"```text\n{response.shape}\n```\n")
    if operation.errors:
        errors = ", ".join(
            f"{'other' if s == 'default' else s} ({meaning})" for s, meaning in operation.errors
        )
        parts.append(f"Errors: {errors}.\n")
    return "\n".join(parts)


def _ways(declared: Declared[..., Any]) -> list[str]:
    """Return the other ways to the operation."""
    return [
        f"{kind} `{name}`"
        for kind, name in (
            ("the client's", f"{declared.function.__name__}()"),
            ("the command", declared.terms.command and f"shoal {declared.terms.command}"),
            ("the tool for agents", declared.terms.tool),
        )
        if name and (kind != "the client's" or hasattr(Client, declared.function.__name__))
    ]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
