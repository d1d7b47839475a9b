"""The process of a hook: it answers from the service or the database, and never disturbs the agent."""

from __future__ import annotations

import fcntl
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from scripted_service import BROKEN, scripted

from shoal import Engine, hook
from shoal.errors import SchemaError
from shoal.service import addresses
from shoal.service.addresses import announced
from shoal.storage.opening import open_database

SCRIPT = "from shoal.cli import main; main()"  # the console script
SHOAL = [sys.executable, "-m", "shoal.cli"]
ANSWER = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "x"}}
NOTE = "Install packages with pnpm, because npm breaks the lockfile of the workspace."
PROMPT = json.dumps({"session_id": "s1", "prompt": "How do I install packages with npm?"}).encode()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one note, scored with the real data."""
    path = tmp_path_factory.mktemp("notes") / "notes.db"
    with Engine(path) as engine:
        engine.notes.of("default").add(NOTE)
    return path


def run(*arguments: str, data: bytes = PROMPT, **options: Any) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [*SHOAL, "hook", *arguments], input=data, capture_output=True, timeout=60, **options
    )
    assert done.returncode == 0
    return done


def log_of(database: Path) -> str:
    return (database.with_name(f"{database.name}-data") / "hooks.log").read_text()


def asked(event: str, *arguments: str, data: bytes = PROMPT) -> Any:
    """The answer of a hook in this process."""
    process = hook.Hook()
    process.configure([event, *arguments])
    return json.loads(process.answer(data))


# Whole processes


def test_without_a_service_the_database_is_read(database: Path) -> None:
    shown = json.loads(run("prompt", "--db", str(database)).stdout)
    assert NOTE in shown["hookSpecificOutput"]["additionalContext"]
    assert json.loads(run("prompt", f"--db={database}").stdout) == {}


def test_process_imports_little_where_a_service_answers() -> None:
    with scripted() as service:
        service.will_respond((200, {}, ANSWER))
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", SCRIPT, "hook", "prompt", "--server", service.url],
            input=PROMPT,
            capture_output=True,
            timeout=60,
        )
        assert json.loads(done.stdout) == ANSWER
        [request] = service.requests
        assert request.path == "/api/v1/hooks/prompt"
        assert request.json() == {"input": json.loads(PROMPT), "environment": None}
    imported = {line.split("|")[-1].strip() for line in done.stderr.decode().splitlines() if "|" in line}
    assert "shoal.hook" in imported
    assert not imported & {"typing", "re", "json", "pathlib", "http.client", "shoal.settings"}


def test_process_ends_in_time_with_an_answer(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The agent never closes stdin.
    code = "import sys; from shoal import hook; hook.LIMIT_SECONDS = 0.2; hook.main(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "prompt", "--db", str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read() == b"{}\n"
    assert process.wait(60) == 0
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.close()
    assert "no answer within 0.2 s" in log_of(database)


def test_error_is_an_empty_answer_and_a_line_in_the_log(tmp_path: Path) -> None:
    missing = tmp_path / "missing.db"
    done = run("prompt", "--db", str(missing), data=b"not JSON, and secret")
    assert (done.stdout, done.stderr) == (b"{}\n", b"")
    assert "there is no database" in log_of(missing)
    assert "secret" not in log_of(missing)
    assert not missing.exists()


def test_misspelt_event_is_no_failure_for_the_agent() -> None:
    done = run("promt")
    assert done.stdout == b"{}\n"
    assert b"unknown argument 'promt'" in done.stderr


def test_gone_agent_is_no_failure(database: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*SHOAL, "hook", "stop"], input=b"", stdout=writer, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writer)
    assert done.returncode == 0


# Inside of the process


SERVICE = """
import os, signal, sys
signal.alarm(60)
with open(sys.argv[1], "w") as started:
    started.write(f"{os.getpid()} {os.environ['SHOAL_DATABASE_URL']} {os.getcwd()} {os.getpgrp()}")
with open(sys.argv[2]) as ended:
    ended.read()
"""
"""Says that it runs through a pipe, and ends with another one."""


def test_session_start_starts_one_service_and_does_not_wait(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOAL_DATA_DIR", raising=False)
    library, folder = tmp_path / "library.db", tmp_path / "library.db-data"
    shutil.copyfile(database, library)
    script, started, ended = (tmp_path / name for name in ("service.py", "started", "ended"))
    script.write_text(SERVICE)
    for pipe in (started, ended):
        os.mkfifo(pipe)
    command = f"{sys.executable} {script} {started} {ended}"

    def begin(event: str = "session-start", database: Path = library) -> str:
        assert asked(event, "--db", str(database), "--start", command) == {}
        return (folder / "hooks.log").read_text().splitlines()[-1] if folder.exists() else ""

    with pytest.raises(hook.HookError, match="there is no database"):
        begin(database=tmp_path / "missing.db")
    assert begin("stop") == ""
    for _ in range(2):  # the second time after the first process was killed
        assert "started `" in (line := begin())
        assert "was started before" in begin()
        number, url, cwd, group = started.read_text().split()
        assert f"as process {number};" in line
        assert (url, cwd, group) == (f"sqlite:///{library}", str(tmp_path), number)
        os.kill(int(number), signal.SIGKILL)
        os.waitpid(int(number), 0)
    with announced(library, "http://127.0.0.1:9"):  # a service that has just ended: nothing answers
        assert "started `" in begin()
    number = started.read_text().split()[0]
    ended.write_text("")
    os.waitpid(int(number), 0)


@pytest.mark.parametrize("command", ["/no/such/program", "'", " "])
def test_service_that_cannot_be_started_is_no_failure(
    database: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("SHOAL_HOOK_START", command)
    assert asked("session-start", "--db", str(database)) == {}
    assert f"could not start `{command.strip()}" in log_of(database)


def test_relative_database_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project's folder may hold a foreign database, whose notes would reach the agent."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shoal.db").write_bytes(b"")
    for arguments in ([], ["--db", "shoal.db"]):
        with pytest.raises(hook.HookError, match="absolute"):
            asked("prompt", *arguments)


def test_database_of_another_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes(b"")
    with pytest.raises(SchemaError, match="shoal migrate"):
        asked("prompt", "--db", str(path))
    with open_database(f"sqlite:///{path}").snapshot() as snapshot:
        assert snapshot.value("SELECT COUNT(*) FROM sqlite_master") == 0


def test_running_service_of_the_database_is_asked(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "ATTEMPTS", 1)
    with scripted() as service:
        service.will_respond((200, {}, ANSWER))
        with announced(database, service.url):
            assert asked("prompt", "--db", str(database), "--owner", "me & co") == ANSWER
            # A second service of the library does not take its place, and leaves the file alone.
            with announced(database, "http://127.0.0.1:1"):
                assert asked("prompt", "--db", str(database)) == ANSWER
            assert asked("prompt", "--db", str(database)) == ANSWER
        assert service.requests[0].path == "/api/v1/hooks/prompt?owner=me%20%26%20co"
        assert not hook.running_service(str(database))
        assert not database.with_name(f"{database.name}.service").exists()


def test_file_of_a_dead_service_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "notes.db.service"
    path.write_text("http://127.0.0.1:1\n")
    assert hook.running_service(str(tmp_path / "notes.db")) == ""
    with announced(tmp_path / "notes.db", "http://127.0.0.1:2"):
        assert hook.running_service(str(tmp_path / "notes.db")) == "http://127.0.0.1:2"


def test_announced_address_of_another_machine_is_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "notes.db.service"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("http://192.0.2.1:80\n")
        file.flush()
        assert hook.running_service(str(tmp_path / "notes.db")) == ""


def test_service_that_has_just_ended_is_no_failure(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = tmp_path / "copied.db"
    shutil.copyfile(database, copied)
    data = json.dumps({"session_id": "s9", "prompt": "install packages with pnpm"}).encode()
    monkeypatch.setattr(hook, "running_service", lambda _database: "http://127.0.0.1:9")
    assert NOTE in str(asked("prompt", "--db", str(copied), data=data))


@pytest.mark.parametrize("status", [401, 404, 500, 503, BROKEN])
def test_service_that_fails_is_an_error_for_the_log(status: int) -> None:
    with scripted() as service:
        service.will_respond((status, {}, {}))
        with pytest.raises(hook.HookError):
            asked("prompt", "--server", service.url)


def test_input_that_the_service_refuses_is_sent_in_a_simple_form() -> None:
    data = b'{"session_id": "s1", "prompt": "half a \\ud83d character"}'
    with scripted() as service:
        service.will_respond((422, {}, {}), (200, {}, ANSWER))
        assert asked("prompt", "--server", service.url, data=data) == ANSWER
        assert service.requests[1].json()["input"]["prompt"] == "half a  character"


def test_large_input_is_shortened() -> None:
    tool = {"file_path": "/web/volcano.py", "content": "x" * 2_000_000}
    data = json.dumps({"session_id": "s1", "tool_name": "Write", "tool_input": tool}).encode()
    with scripted() as service:
        service.will_respond((200, {}, {}))
        assert asked("tool-use", "--server", service.url, data=data) == {}
        [request] = service.requests
        assert len(request.body) < 2_000
        assert "volcano" in request.json()["input"]["tool_input"]


def test_endless_answer_is_given_up() -> None:
    with _endless_server() as url, pytest.raises(hook.HookError, match="over"):
        asked("prompt", "--server", url)


@pytest.mark.parametrize(
    "server", ["ftp://127.0.0.1", "http://", "http://127.0.0.1:x", "http://a\r\nb", "127.0.0.1:8000"]
)
def test_address_that_is_none_is_an_error_for_the_log(server: str) -> None:
    with pytest.raises(hook.HookError):
        asked("prompt", "--server", server)


def test_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_API_KEY", "secret")
    with scripted() as service:
        service.will_respond((200, {}, ANSWER))
        asked("prompt", "--server", f"{service.url}/shoal/")
        [request] = service.requests
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.path == "/shoal/api/v1/hooks/prompt"


def test_environment_goes_along_to_a_service_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Cargo.toml").write_text("")
    monkeypatch.setattr(hook, "LOOPBACK", ())
    data = json.dumps({"session_id": "s1", "cwd": str(tmp_path)}).encode()
    with scripted() as service:
        service.will_respond((200, {}, {}))
        asked("session-start", "--server", service.url, data=data)
        assert "rust" in service.requests[0].json()["environment"]["tags"]


@pytest.mark.parametrize(
    ("server", "host"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1"),
        ("http://[::1]:8000/x", "[::1]"),
        ("http://localhost", "localhost"),
        ("http://127.0.0.1@evil.example", "127.0.0.1@evil.example"),
        ("http://127.0.0.1.evil.example:80", "127.0.0.1.evil.example"),
        ("nonsense", ""),
    ],
)
def test_host_of_an_address(server: str, host: str) -> None:
    assert hook.host_of(server) == host


def test_log_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "MAX_LOG_BYTES", 100)
    for number in range(50):
        hook.write_log(str(tmp_path / "data"), b"line %d\n" % number)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["hooks.log", "hooks.log.1"]
    assert sum(path.stat().st_size for path in (tmp_path / "data").iterdir()) < 250


@contextmanager
def _endless_server() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"{" * 65_536)
            except OSError:
                return

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
