"""Targets of the fuzzer: parsers, readers of archives and forms, and the whole service.

A target takes bytes and returns an Outcome. Findings are undocumented exceptions, violated invariants
(BrokenPromiseError) and server errors (ServiceFailureError).
"""

from __future__ import annotations

import dataclasses
import io
import json
import random
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import structlog
from fuzz_archives import compressed
from fuzz_process import Outcome, hold
from werkzeug.test import run_wsgi_app

import lagoon
from shoal.chunking.analysis import scored_document
from shoal.cli.demo import sample_lines
from shoal.conversion.archives import GZIP, ZIP, Archive, ArchiveTooLargeError, BrokenArchiveError
from shoal.engine import Engine
from shoal.errors import DocumentError
from shoal.formats.drafts import draft_from_bytes, make_draft
from shoal.formats.parsing import parse
from shoal.jobs.stages.discover import Discovery
from shoal.models.documents import DocFormat, ParsedDocument
from shoal.search.query_language import parse_query
from shoal.settings import Settings
from shoal_api import create_app, incoming

WRITES_OF_A_LIBRARY = 150
"""Writes (requests and documents) after which a library is replaced by a new copy."""
MAX_UPLOAD_ITEMS = 2000
"""Each document of an upload is written, which takes time; the limit keeps large uploads from looking like
faults."""
ERROR_BYTES = 64 * 1024
"""Size limit of an error response, in addition to three times the size of its request, which it may quote."""
DENSE_WORDS = 300_000
"""Words of the document with repeated words in the searched library: the worst case for phrases."""
READING = re.compile(r"(GET|HEAD|OPTIONS) |POST /api/v1/(search|explain)\b")
CONSOLE_NAMES = ["archipelago", "chunk", "document", "document_ids", "format", "items", "min_confidence", "mode", "page", "preset", "q", "status", "tag", "tags"]  # fmt: skip


class ServiceFailureError(Exception):
    """The service returned a status of 500 or more; `__cause__` is the error from its log."""


Target = Callable[[bytes], Outcome]
Routes = list[tuple[str, list[str]]]


def open_targets(folder: Path, shared: Path) -> tuple[dict[str, Target], Routes]:
    """Open the targets with libraries in `folder`; files in `shared` are reused by the next process."""
    opened = Targets(folder, shared / "template.db")
    return opened.all(), opened.routes()


class Targets:
    """The targets of this process."""

    def __init__(self, folder: Path, template: Path) -> None:
        """The libraries in `folder` are copies of `template`, which is created if it does not exist."""
        self.failures: list[BaseException | str] = []
        """Failures that the service logged for the current request."""
        structlog.configure(processors=[self._log])
        self._scorer = lagoon.load()
        self._settings = Settings(
            database_url=f"sqlite:///{folder / 'read.db'}",
            broker_url="memory://",
            max_upload_items=MAX_UPLOAD_ITEMS,
            max_wait_seconds=0,
            event_stream_seconds=0.1,
            event_heartbeat_seconds=0.05,
        )
        self._template = template
        self._discovery = Discovery(self._scorer, self._settings)
        self._make_library()
        shutil.copyfile(self._template, self._settings.database_path)
        self._reading = Engine(settings=self._settings, scorer=self._scorer)
        self._reading.start()
        self._app = create_app(self._settings, engine=self._reading)
        self._writing_folder = folder
        self._writing: Engine | None = None
        self._writing_app: Any = None
        self._n_writes = 0
        self._n_libraries = 0

    def all(self) -> dict[str, Target]:
        return {
            "markdown": lambda data: self._text(data, DocFormat.markdown),
            "plaintext": lambda data: self._text(data, DocFormat.plaintext),
            "encodings": self._encoded,
            "zip": lambda data: self._archive(data, ZIP[0]),
            "tar": lambda data: self._archive(compressed(data), GZIP[0]),
            "multipart": self._form,
            "query": self._query,
            "ingest": self._ingest,
            "documents": self._request,
            "lines": self._request,
            "upload": self._request,
            "search": self._request,
            "notes": self._request,
            "addresses": self._request,
        }

    def routes(self) -> Routes:
        """Return the rules that support GET, with the names of their parameters."""
        response = self._send(b"GET /openapi.json\n\n")[1]
        paths = json.loads(response)["paths"]
        names = {
            re.sub(r"\{.*?\}", "<>", path): [
                one["name"] for one in operations["get"].get("parameters", []) if "name" in one
            ]
            for path, operations in paths.items()
            if "get" in operations
        }
        return [
            (rule.rule, names.get(re.sub(r"<.*?>", "<>", rule.rule), CONSOLE_NAMES))
            for rule in self._app.url_map.iter_rules()
            if "GET" in (rule.methods or ())
        ]

    # Texts

    def _text(self, data: bytes, form: DocFormat) -> Outcome:
        try:
            draft = make_draft(content=_decoded(data), format=form, settings=self._settings)
            discovered = self._discovery.observe(draft)
        except DocumentError as error:
            return Outcome(_skeleton(type(error).__name__, str(error)))
        scored = scored_document(discovered.document, self._scorer)
        parsed = discovered.document.parsed

        def check() -> None:
            check_parsed(draft.content, parsed, self._settings.max_chunk_chars)
            for chunk in scored.chunks:
                hold(draft.content[chunk.start_char : chunk.end_char] == chunk.text, "a chunk is its text")
            hold(len(parsed.masked) == len(draft.content), "the copy for the scorer is as long")

        reasons = ",".join(sorted({span.reason for span in parsed.left_out}))
        sizes = [
            len(part).bit_length()
            for part in (parsed.sections, parsed.left_out, scored.chunks, scored.warnings)
        ]
        return Outcome(f"{sizes} {reasons}", chunks=len(scored.chunks), check=check)

    def _encoded(self, data: bytes) -> Outcome:
        try:
            draft = draft_from_bytes(data, settings=self._settings)
            parsed = parse(draft)
        except DocumentError as error:
            return Outcome(_skeleton(type(error).__name__, str(error)))
        kind = ",".join(_skeleton(warning) for warning in draft.warnings)
        return Outcome(
            kind, check=lambda: check_parsed(draft.content, parsed, self._settings.max_chunk_chars)
        )

    def _ingest(self, data: bytes) -> Outcome:
        """Ingest a document, including learning."""
        engine = self._writer()
        try:
            result = engine.ingest(
                content=data.decode("utf-8", "replace"), format="markdown" if len(data) % 2 else None
            )
        except DocumentError as error:
            return Outcome(_skeleton(type(error).__name__, str(error)))
        return Outcome(f"{result.n_chunks.bit_length()} {result.duplicate}", chunks=result.n_chunks)

    # Bodies of uploads

    def _archive(self, data: bytes, mimetype: str) -> Outcome:
        archive = Archive(io.BytesIO(data), mimetype, self._settings)
        unpacked = 0
        refusals = set()
        try:
            for member in archive:
                unpacked += len(member.data)
                refusals.add(_skeleton(member.refusal or "taken"))
                hold(".." not in member.name.split("/") or member.refusal is not None, "a name leads nowhere")
                hold(not member.name.startswith("/") or member.refusal is not None, "a name is relative")
        except (BrokenArchiveError, ArchiveTooLargeError) as error:
            return Outcome(_skeleton(type(error).__name__, str(error)), unpacked)
        return Outcome(f"{sorted(refusals)} {archive.skipped.bit_length()}", unpacked)

    def _form(self, data: bytes) -> Outcome:
        first, _, body = data.partition(b"\n")
        seed, _, boundary = first.decode("utf-8", "replace").partition(" ")
        whole = self._parts(io.BytesIO(body), boundary)

        def check() -> None:
            cut = self._parts(_Pieces(body, random.Random(seed)), boundary)
            hold(cut == whole, "parts do not depend on the pieces in which they arrive")

        return Outcome(whole if isinstance(whole, str) else f"{len(whole).bit_length()}", check=check)

    def _parts(self, body: Any, boundary: str) -> list[tuple[str, str | None, bytes]] | str:
        try:
            return [
                (part.name, part.filename, part.read(self._settings.max_document_bytes) or b"")
                for part in incoming.parts(body, boundary)
            ]
        except incoming.MalformedMultipartError:
            return "malformed"

    # Searches

    def _query(self, data: bytes) -> Outcome:
        query = data.decode("utf-8", "replace")[: self._settings.max_query_chars]
        parsed = parse_query(query, max_words=self._settings.max_query_terms)
        responses = []
        if query.strip():
            responses.append(self._reading.search(query, include_scores=True, context=1))

        def check() -> None:
            hold(len(parsed.about) == len(query), "what a query is about has its length")
            for response in responses:
                for result in response.results:
                    hold(
                        all(0 <= start < end <= len(result.text) for start, end in result.highlights),
                        "highlights are in the text",
                    )

        sizes = [
            len(part).bit_length()
            for part in (
                parsed.terms,
                parsed.required,
                parsed.excluded,
                *(response.warnings for response in responses),
            )
        ]
        return Outcome(f"{sizes} {parsed.is_text}", check=check)

    # Requests

    def _request(self, data: bytes) -> Outcome:
        status, body, headers, failures = self._send(data)
        if status >= 500:
            reason = body[:300].decode("utf-8", "replace")
            if status == 503 and any(
                "interrupt" in str(one) or "too long" in str(one) for one in (*failures, reason)
            ):
                return Outcome(f"503 {_skeleton(reason)}")
            cause = next((one for one in failures if isinstance(one, BaseException)), None)
            raise ServiceFailureError(f"{status}: {failures or reason}"[:500]) from cause

        def check() -> None:
            hold(
                status < 400 or len(body) <= ERROR_BYTES + 3 * len(data),
                "an error is not much longer than its request",
            )
            hold(
                b"Traceback (most recent" not in body or b"Traceback" in data, "a response holds no traceback"
            )
            hold("x-trace-id" in headers, "a response has a trace id")

        detail = body[:2000].decode("utf-8", "replace") if status >= 400 else ""
        return Outcome(f"{data.split(b'?')[0][:40]!r} {status} {_skeleton(detail)}", check=check)

    def _send(self, data: bytes) -> tuple[int, bytes, Mapping[str, str], list[Any]]:
        app = self._app if READING.match(data[:40].decode("latin-1")) else self._writing_service()
        self.failures.clear()
        response, status, headers = run_wsgi_app(app, environment(data), buffered=True)
        body = b"".join(response)
        return int(status.split()[0]), body, {k.lower(): v for k, v in headers.items()}, list(self.failures)

    def _log(self, _logger: object, _method: str, event: dict[str, Any]) -> Any:
        failure = event.get("exc_info")
        if isinstance(failure, BaseException):
            self.failures.append(failure)
        elif event.get("event") == "service failure":
            self.failures.append(f"{event.get('error')}: {event.get('reason')}")
        raise structlog.DropEvent

    # Libraries

    def _make_library(self) -> None:
        """Build a library of the sample corpus, a document with repeated words, and a document with odd
        fields."""
        if self._template.exists():
            return
        path = self._template.with_suffix(".making")
        path.unlink(missing_ok=True)
        with Engine(db_path=path, settings=self._settings, scorer=self._scorer) as engine:
            odd = {"language": "en", "": None, "a": True, "n": 1.5, "é": [1, {"b": 2}]}
            engine.ingest_many(
                [
                    *map(json.loads, sample_lines()),
                    {"content": "a b " * (DENSE_WORDS // 2), "title": "a b " * 100},
                    {
                        "content": "# <b>\n\nOdd & <i>odd</i>. Ash.\n",
                        "format": "markdown",
                        "title": "<script>",
                        "tags": ["a,b", "<x>", "é"],
                        "metadata": odd,
                        "source_path": "a/<b>.md",
                    },
                ]
            )
        path.rename(self._template)

    def _writer(self) -> Engine:
        """Return an engine whose library may be changed."""
        self._n_writes += 1
        if self._writing is None or self._n_writes % WRITES_OF_A_LIBRARY == 0:
            self._end_writing()
            self._n_libraries += 1
            path = self._writing_folder / f"write{self._n_libraries}.db"
            shutil.copyfile(self._template, path)
            settings = _at(self._settings, path)
            self._writing = Engine(settings=settings, scorer=self._scorer)
            self._writing_app = create_app(settings, engine=self._writing)
        return self._writing

    def _writing_service(self) -> Any:
        self._writer()
        return self._writing_app

    def _end_writing(self) -> None:
        if self._writing is None:
            return
        path = self._writing.settings.database_path
        self._writing.close()
        for each in path.parent.glob(path.name + "*"):
            shutil.rmtree(each) if each.is_dir() else each.unlink()


def _at(settings: Settings, path: Path) -> Settings:
    return dataclasses.replace(settings, database_url=f"sqlite:///{path}")


class _Pieces:
    """A body that is read in pieces of random sizes."""

    def __init__(self, body: bytes, rng: random.Random) -> None:
        self._body = io.BytesIO(body)
        self._rng = rng

    def read(self, size: int = -1, /) -> bytes:
        most = self._rng.choice((1, 2, 3, 7, 60, 61, 62, 4096))
        return self._body.read(most if size < 0 else min(size, most))


def environment(data: bytes) -> dict[str, Any]:
    """Build the WSGI environment of a request in the format of `fuzz_requests`."""
    head, _, body = data.partition(b"\n\n")
    line, *headers = head.decode("latin-1").split("\n")
    method, _, address = line.partition(" ")
    path, _, query = address.partition("?")
    environ = {
        "REQUEST_METHOD": method or "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path.encode("latin-1")).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "8000",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "localhost",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for header in headers:
        name, _, value = header.partition(": ")
        key = name.upper().replace("-", "_")
        environ["CONTENT_TYPE" if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    return environ


def check_parsed(content: str, parsed: ParsedDocument, longest: int) -> None:
    """Check that every character is in exactly one sentence or left-out span, in order, and that masking only
    blanks."""
    hold(len(parsed.masked) == len(content), "masking keeps the length")
    sentences = [(one.start_char, one.end_char) for one in parsed.sentences]
    hold(sentences == sorted(sentences), "sentences are in order")
    at = 0
    for start, end in sorted(sentences + [(one.start_char, one.end_char) for one in parsed.left_out]):
        hold(at <= start < end, "spans are disjoint and not empty")
        hold(not content[at:start].strip(), "what is between spans is white space")
        at = end
    hold(not content[at:].strip(), "nothing is lost at the end")
    for one in parsed.sentences:
        text = content[one.start_char : one.end_char]
        hold(text == text.strip(), "a sentence is stripped")
        hold(len(text) <= longest, "a sentence is not too long")
        section = parsed.sections[one.section]
        hold(
            section.start_char <= one.start_char and one.end_char <= section.end_char,
            "a sentence is in its section",
        )
    for before, after in zip(parsed.sections, parsed.sections[1:], strict=False):
        hold(before.end_char == after.heading_start, "sections follow one another")
    if parsed.masked != content:
        hold(
            all(new == old or new.isspace() for new, old in zip(parsed.masked, content, strict=True)),
            "masking only blanks",
        )


def _decoded(data: bytes) -> str:
    """Decode the data, keeping lone surrogates."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _skeleton(*texts: str) -> str:
    """Replace the parts of a message that differ between inputs."""
    return " ".join(re.sub(r"[\d,.]+|'[^']*'|\"[^\"]{40,}\"|[0-9a-f]{32}", "#", text)[:160] for text in texts)
