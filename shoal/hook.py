"""The process of a hook: `shoal hook EVENT` reads JSON on stdin and answers with JSON on stdout.

An agent waits for this process before each prompt and each use of a tool. So it imports only small modules
where a service answers, speaks HTTP itself, and ends after LIMIT_SECONDS. It never disturbs the agent: after
any error the answer is `{}`, the exit code 0, and the reason is a line in a log.

It reads the few variables that it needs itself: `shoal.settings` would take half of the time.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

EVENTS = ("session-start", "prompt", "tool-use", "stop")
NOTHING = b"{}"

LIMIT_SECONDS = 5.0
"""The whole process ends after this time."""
SERVICE_SECONDS = 3.0
"""Longest wait for one read from the service."""
MAX_INPUT_BYTES = 8 * 1024 * 1024
MAX_SENT_BYTES = 256 * 1024
"""Larger inputs are shortened before they are sent: they write whole files."""
MAX_ANSWER_BYTES = 1024 * 1024
MAX_LOG_BYTES = 1024 * 1024
"""A larger log is renamed, in place of the one renamed before it."""

SQLITE = "sqlite:///"
MAIN = "main"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
OK = 200
REFUSED = (400, 413, 422)
"""Statuses of inputs that are not JSON in the strict form of the service, such as with a lone surrogate."""

OPTIONS = {
    "--db": "SHOAL_DATABASE_URL",
    "--server": "SHOAL_SERVER",
    "--owner": "SHOAL_NOTE_OWNER",
    "--collection": "SHOAL_COLLECTION",
    "--start": "SHOAL_HOOK_START",
}
"""Options of the command, and the variables in whose place they are."""


class HookError(Exception):
    """Why there is no answer. The message is a line for the log."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Answer the hook whose event and options the arguments name, and end the process."""
    answered = _thread.allocate_lock()
    hook = Hook()
    _thread.start_new_thread(_end_late, (hook, answered))
    answer = NOTHING
    try:
        hook.configure(arguments)
        answer = hook.answer(read_input())
    except BaseException as error:  # also Ctrl-C: nothing may disturb the agent
        hook.log(error)
    _end(answer, answered)


class Hook:
    """One run of a hook."""

    def __init__(self) -> None:
        self.event = ""
        self._given = {name: os.environ.get(name, "") for name in OPTIONS.values()}

    def configure(self, arguments: Sequence[str]) -> None:
        """Take over the arguments of the command. Raises HookError."""
        remaining = iter(arguments)
        for argument in remaining:
            name, separator, value = argument.partition("=")
            if name in OPTIONS:
                self._given[OPTIONS[name]] = value if separator else next(remaining, "")
            elif argument in EVENTS and not self.event:
                self.event = argument
            else:
                raise HookError(f"unknown argument {argument[:100]!r}; `shoal hook --help` lists all")
        if not self.event:
            raise HookError(f"the event is missing: one of {', '.join(EVENTS)}")

    def answer(self, data: bytes) -> bytes:
        """Return the answer of the service, or of this process where no service runs. Raises any error."""
        server, database = self._given["SHOAL_SERVER"], self._database()
        if server:
            return self._ask(server, data)
        if not database:
            raise HookError("no notes: give --db PATH (absolute) or --server URL")
        address = running_service(database)
        if address:
            try:
                return self._ask(address, data)
            except ConnectionRefusedError:
                pass  # it has just ended
        if self.event == "session-start" and self._given["SHOAL_HOOK_START"] and os.path.exists(database):
            self._start_service(database)
        return self._answer_from(database, data)

    def _start_service(self, database: str) -> None:
        """Start the service, for the hooks that come later; this one does not wait for it."""
        from pathlib import Path

        from shoal.service.starting import start_service

        command, log = self._given["SHOAL_HOOK_START"], Path(self._folder()) / "service.log"
        try:
            process = start_service(Path(database), command, log)
        except (OSError, ValueError) as error:
            self.write(f"could not start `{command}`: {error}")
        else:
            self.write(
                f"`{command}` was started before and is not ready yet"
                if process is None
                else f"started `{command}` as process {process}; what it prints is in {log}"
            )

    def log(self, error: BaseException) -> None:
        """Write a line about an error, without the input."""
        reason = f": {error}" if isinstance(error, HookError | OSError) else ""
        self.write(f"{type(error).__name__}{reason}")

    def write(self, text: str) -> None:
        """Write a line into the log beside the database, or to stderr."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{moment} {self.event or 'hook'}: {' '.join(text.split())[:400]}\n"
        try:
            write_log(self._folder(), line.encode("utf-8", "replace"))
        except OSError:
            os.write(2, line.encode("utf-8", "replace"))

    def _folder(self) -> str:
        """Return the data folder; empty without a database."""
        database = self._database()
        return os.environ.get("SHOAL_DATA_DIR") or (f"{database}-data" if database else "")

    def _database(self) -> str:
        """Return the path of the database; empty if none is named by an absolute path.

        A hook runs in the folder of a project. A database there could be part of a foreign project, and its
        notes would be put before the agent.
        """
        path = os.path.expanduser(self._given["SHOAL_DATABASE_URL"].removeprefix(SQLITE))
        return path if os.path.isabs(path) else ""

    def _ask(self, server: str, data: bytes) -> bytes:
        """Return the answer of a service. Raises HookError, OSError."""
        data = data.strip() or b"{}"
        if len(data) <= MAX_SENT_BYTES:
            status, answer = self._post(server, data)
        if len(data) > MAX_SENT_BYTES or status in REFUSED:
            status, answer = self._post(server, shortened(data, self.event))
        if status != OK or not answer.startswith(b"{"):
            raise HookError(f"the service at {server} answered with status {status}")
        return answer

    def _post(self, server: str, data: bytes) -> tuple[int, bytes]:
        environment = b"null" if host_of(server) in LOOPBACK else detected(data, self.event)
        body = b'{"input":' + data + b',"environment":' + environment + b"}"
        owner = self._given["SHOAL_NOTE_OWNER"]
        query = f"?owner={percent_encoded(owner)}" if owner else ""
        key = os.environ.get("SHOAL_API_KEY", "")
        collection = self._given["SHOAL_COLLECTION"]
        prefix = f"collections/{percent_encoded(collection)}/" if collection not in ("", MAIN) else ""
        return post(server, f"/api/v1/{prefix}hooks/{self.event}{query}", body, key)

    def _answer_from(self, database: str, data: bytes) -> bytes:
        if not os.path.exists(database):
            raise HookError(f"there is no database {database}")
        # Only now: all of Shoal that a search needs.
        from shoal.notes.hooks import answer_from_database

        overrides = {"note_owner": self._given["SHOAL_NOTE_OWNER"] or None}
        url = f"{SQLITE}{database}"
        collection = self._given["SHOAL_COLLECTION"]
        if collection not in ("", MAIN):
            from shoal.collections.registry import Registry
            from shoal.settings import Settings

            found = Registry(Settings.from_environment(database_url=url)).open_for_process(collection)
            url, overrides["data_dir"] = found.database_url, found.data_dir
        return answer_from_database(url, self.event, data, overrides).encode()  # type: ignore[arg-type]


def read_input() -> bytes:
    """Read stdin; nothing if it is too long. Raises OSError."""
    parts, n_bytes = [], 0
    while part := os.read(0, 65_536):
        n_bytes += len(part)
        if n_bytes > MAX_INPUT_BYTES:
            raise HookError(f"the input has over {MAX_INPUT_BYTES:,} bytes")
        parts.append(part)
    return b"".join(parts).removeprefix(b"\xef\xbb\xbf")


def running_service(database: str) -> str:
    """Return the address of the service that `shoal up` runs for a database; empty if none runs.

    The service holds a lock on the file with its address, so a file that a dead one has left counts as none.
    """
    import fcntl

    try:
        descriptor = os.open(f"{database}.service", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        address = os.read(descriptor, 300).decode("ascii", "replace").strip()
        return address if host_of(address) in LOOPBACK else ""
    finally:
        os.close(descriptor)
    return ""


def post(server: str, path: str, body: bytes, key: str) -> tuple[int, bytes]:
    """Send a request; return the status and the body of the answer. Raises HookError, OSError."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    if not all(value.isprintable() for value in (server, path, key)):
        raise HookError("the address or the key has control characters")
    if server.startswith("https://"):
        return _post_encrypted(server, path, body, headers)
    if not server.startswith("http://"):
        raise HookError(f"the address {server[:100]!r} must begin with http:// or https://")
    import socket

    authority, _, prefix = server.removeprefix("http://").partition("/")
    host, port = _host_and_port(authority, 80)
    lines = [
        f"POST {_prefixed(prefix, path)} HTTP/1.0",
        f"Host: {authority}",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    # Of a host as text, `socket` would import the encoding of international names.
    name = host.encode("ascii" if host.isascii() else "idna")
    address: Any = (name, port)
    with socket.create_connection(address, timeout=SERVICE_SECONDS) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("utf-8") + body)
        parts, n_bytes = [], 0
        while part := connection.recv(65_536):
            n_bytes += len(part)
            if n_bytes > MAX_ANSWER_BYTES:
                raise HookError(f"the answer of the service has over {MAX_ANSWER_BYTES:,} bytes")
            parts.append(part)
    head, separator, answer = b"".join(parts).partition(b"\r\n\r\n")
    words = head.split(None, 2)
    if not separator or len(words) < 2 or not words[1].isdigit():
        raise HookError("the answer of the service is incomplete")
    return int(words[1]), answer


def _post_encrypted(server: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    import http.client

    authority, _, prefix = server.removeprefix("https://").partition("/")
    host, port = _host_and_port(authority, 443)
    connection = http.client.HTTPSConnection(host, port, timeout=SERVICE_SECONDS)
    try:
        connection.request("POST", _prefixed(prefix, path), body, headers)
        response = connection.getresponse()
        return response.status, response.read(MAX_ANSWER_BYTES)
    except http.client.HTTPException as error:
        raise HookError(f"the answer of the service is not HTTP: {type(error).__name__}") from error
    finally:
        connection.close()


def host_of(server: str) -> str:
    """Return the host in a URL, an IPv6 address with its brackets."""
    authority = server.partition("://")[2].partition("/")[0]
    return authority.partition("]")[0] + "]" if authority.startswith("[") else authority.partition(":")[0]


def _prefixed(prefix: str, path: str) -> str:
    return f"/{prefix.strip('/')}{path}" if prefix.strip("/") else path


def _host_and_port(authority: str, default: int) -> tuple[str, int]:
    host = host_of(f"x://{authority}")
    port = authority[len(host) :].removeprefix(":")
    if not host or (port and not (port.isascii() and port.isdigit())):
        raise HookError(f"the address {authority[:100]!r} is not HOST:PORT")
    return host.strip("[]"), int(port or default)


def percent_encoded(text: str) -> str:
    """Return a text for the query of a URL."""
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in text.encode()
    )


def shortened(data: bytes, event: str) -> bytes:
    """Return an input that says the same in a few kilobytes."""
    import json

    from shoal.notes.hook_input import parse_hook_input

    return json.dumps(parse_hook_input(data, event).as_json()).encode()  # type: ignore[arg-type]


def detected(data: bytes, event: str) -> bytes:
    """Return the environment of the session as JSON, for a service on another machine."""
    import json
    from pathlib import Path

    from shoal.notes.environment import Environment, detect
    from shoal.notes.hook_input import parse_hook_input
    from shoal.support.patterns import parse_path_tags

    cwd = parse_hook_input(data, event).cwd  # type: ignore[arg-type]
    path_tags = parse_path_tags(os.environ.get("SHOAL_NOTE_PATH_TAGS", ""))
    environment = detect(Path(cwd), path_tags=path_tags) if cwd else Environment()
    return json.dumps(environment.as_json()).encode()


def write_log(folder: str, line: bytes) -> None:
    """Append a line to `hooks.log` in a folder, which is made if necessary. Raises OSError."""
    if not folder:
        raise FileNotFoundError
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, "hooks.log")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line)
        is_full = os.fstat(descriptor).st_size > MAX_LOG_BYTES
    finally:
        os.close(descriptor)
    if is_full:
        os.replace(path, f"{path}.1")


def _end_late(hook: Hook, answered: _thread.LockType) -> None:
    time.sleep(LIMIT_SECONDS)
    hook.log(HookError(f"no answer within {LIMIT_SECONDS:g} s"))
    _end(NOTHING, answered)


def _end(answer: bytes, answered: _thread.LockType) -> NoReturn:
    """Write the answer, unless another thread does, and end the process at once."""
    answered.acquire()
    try:
        remaining = memoryview(answer.strip() + b"\n")
        while remaining:
            remaining = remaining[os.write(1, remaining) :]
    except OSError:
        pass  # the agent has gone
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
