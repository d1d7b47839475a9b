"""Branches of Git repositories as stores, through the program `git`.

The newest commit of a branch is fetched, without its history, into a bare repository of this machine, and
files are read from there. Nothing is checked out, so no hook, filter or submodule of a repository has any
effect. The version of a file is the id of its content, which Git computes from the content alone.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from shoal.errors import (
    DocumentTooLargeError,
    FileConversionError,
    InvalidFieldError,
    ObjectGoneError,
    SourceError,
)
from shoal.settings import Settings
from shoal.sources.stores import MAX_NAME_BYTES, Listed, ListedPage, Place, Store
from shoal.support.byte_units import GIB, MIB
from shoal.support.clock import timestamp_at

PAGE_OBJECTS = 50_000
"""Each page reads the listing of the whole commit from its beginning, so pages are large."""
FETCH_SECONDS = 720.0
"""Longest fetch; with the listing of a page, it ends before the lease of a step."""
READ_SECONDS = 120.0
"""Longest listing of a page, and shortest time between two reads after which reading has failed."""
LOCK_SECONDS = 60.0
"""Longest wait for another process that fetches the same branch."""
MAX_COPY_BYTES = 4 * GIB
"""Most bytes of the copy of a branch on this machine, packed."""
KEPT_SECONDS = 14 * 86_400.0
"""Copies that were not fetched into for so long are removed when another one is."""
POLL_SECONDS = 0.1
MAX_OUTPUT_BYTES = 8_192
REF = "refs/shoal/followed"
_BRANCH = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]{1,250}")
"""What may follow `refs/heads/` in a refspec; git refuses further names itself."""
_KEPT_VARIABLES = frozenset(
    {"PATH", "TMPDIR", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
     "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"}
)  # fmt: skip
"""How this machine reaches others. No other variable of the service reaches git."""
_CONFIG = (
    ("core.hooksPath", os.devnull),
    ("core.bigFileThreshold", "32m"),
    ("credential.helper", ""),
    ("fetch.recurseSubmodules", "false"),
    ("gc.autoDetach", "false"),
    ("maintenance.autoDetach", "false"),
    # A redirect would leave the address that is allowed, with the token.
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "60"),
)
_REFUSALS = (
    "authentication failed", "could not read password", "permission denied", "certificate",
    "access denied", "returned error: 401", "returned error: 403", "not found", "redirect",
    "does not appear to be a git repository", "host key verification failed", "dubious ownership",
    "invalid refspec", "mismatched algorithms",
)  # fmt: skip
"""Parts of messages of git after which no other try helps."""
_DAMAGES = ("corrupt", "bad object", "unable to read", "did not send all necessary objects")
"""Parts of messages of git after which the copy is fetched anew."""
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_MAX_POINTER_BYTES = 1_024
_FILE_MODES = frozenset({b"100644", b"100755", b"100664"})


class GitStore(Store):
    """The files of a branch of a Git repository, or of a folder in it.

    An address is `git+https://HOST/PATH` or the same with `git+ssh` or `git+file`, and `//FOLDER` if only a
    folder is followed.
    """

    def __init__(self, place: Place, settings: Settings) -> None:
        scheme, _, path = place.url.partition("://")
        repository, _, folder = path.removeprefix("/").partition("//")
        self._folder = folder.strip("/")
        self._branch = place.options.get("branch", "")
        if self._branch and not _BRANCH.fullmatch(self._branch):
            raise InvalidFieldError("options.branch", "is not the name of a branch")
        base = f"{scheme}://{'/' if path.startswith('/') else ''}{repository}"
        # Branches have documents of their own. pip writes addresses of branches in this way, too.
        self._shown = f"{base}@{self._branch}" if self._branch else base
        self._copy = _Copy(base, self._shown, place, settings.data_path / "sources")
        self._selection = place.selection
        self._reader: _Reader | None = None
        self._expected: Mapping[str, str] = {}
        self._is_fetched = False
        self._lock = threading.Lock()

    def list(self, place: str | None) -> ListedPage:
        if place is None:
            commit, begin = self._copy.fetch(self._branch)[0], 0
        else:
            commit, begin = json.loads(place)
            if not self._copy.has(commit):
                raise SourceError(
                    "the copy of the commit that was being listed is gone; the next run lists anew",
                    is_temporary=False,
                )
        objects: list[Listed] = []
        n_skipped = 0
        with self._copy.started("ls-tree", "-r", "-l", "-z", f"{commit}:{self._folder}") as process:
            assert process.stdout is not None
            for position, entry in enumerate(_records(process.stdout)):
                if position < begin:
                    continue
                if len(objects) >= PAGE_OBJECTS:
                    return ListedPage(tuple(objects), json.dumps([commit, position]), n_skipped)
                found = self._listed(entry)
                if found is None:
                    n_skipped += 1
                else:
                    objects.append(found)
            if process.wait() < 0:
                raise SourceError(f"its files could not be listed in {READ_SECONDS:g} seconds")
        if process.returncode:
            raise SourceError(
                f"the commit {commit[:12]} has no folder {self._folder!r}, or cannot be read",
                is_temporary=False,
            )
        return ListedPage(tuple(objects), None, n_skipped)

    def _listed(self, entry: bytes) -> Listed | None:
        """Return a file of `git ls-tree`; None for links, submodules, and names that are not followed."""
        described, _, path = entry.partition(b"\t")
        mode, _, blob, size = described.split()
        try:
            name = path.decode()
        except UnicodeDecodeError:
            return None
        is_usable = name.isprintable() and len(path) <= MAX_NAME_BYTES and mode in _FILE_MODES
        if not is_usable or any(part.startswith(".") for part in name.split("/")):
            return None
        if self._selection.reason_against(name) is not None:
            return None
        return Listed(name, blob.decode(), int(size))

    def read(self, name: str, max_bytes: int) -> bytes:
        path = f"{self._folder}/{name}" if self._folder else name
        with self._lock:
            data = self._read_listed(path, self._expected.get(name), max_bytes)
        if data.startswith(_LFS_POINTER) and len(data) <= _MAX_POINTER_BYTES:
            raise FileConversionError(
                "unsupported", "the repository has a reference to Git LFS in its place, which is not followed"
            )
        return data

    def expect(self, versions: Mapping[str, str]) -> None:
        self._expected = versions

    def _read_listed(self, path: str, blob: str | None, max_bytes: int) -> bytes:
        """Read a file as it was listed, perhaps on another machine, whose copy may be newer than this one.

        Raises ObjectGoneError if it is not there, or another one, also after a fetch.
        """
        try:
            found, data = self._opened().read(path, max_bytes)
            if blob in (None, found):
                return data
        except ObjectGoneError:
            if self._is_fetched:
                raise
        if not self._is_fetched:
            self.close()
            self._reader = _Reader(self._copy, self._copy.fetch(self._branch))
            self._is_fetched = True
            found, data = self._reader.read(path, max_bytes)
            if blob in (None, found):
                return data
        raise ObjectGoneError("it has changed since it was listed")

    def _opened(self) -> _Reader:
        if self._reader is None:
            self._reader = _Reader(self._copy, self._copy.tip() or self._copy.fetch(self._branch))
        return self._reader

    def source_path(self, name: str) -> str:
        return f"{self._shown}//{self._folder}/{name}" if self._folder else f"{self._shown}//{name}"

    def fields(self, name: str) -> Mapping[str, Any]:
        """Return the commit at which a file was read; later commits that do not change it are not named."""
        with self._lock:
            reader = self._opened()
        return {"metadata": {"commit": reader.commit, "committed_at": timestamp_at(reader.committed_at)}}

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


class _Copy:
    """The bare repository of this machine into which a branch is fetched."""

    def __init__(self, base: str, shown: str, place: Place, folder: Path) -> None:
        self._remote = _remote(base, place.options)
        self._folder = folder
        self._path = folder / f"{hashlib.sha256(shown.encode()).hexdigest()[:32]}.git"
        self._environment = _environment(self._remote, place)

    def fetch(self, branch: str) -> tuple[str, float]:
        """Fetch the newest commit; return its id and its time. Raises SourceError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(self._path) as lock:
            self._remove_unused()
            if self.tip() is None:
                self.remove()  # it is damaged, or empty
            self._run("init", "--bare", "--quiet", "--template=", str(self._path))
            self._clear()
            spec = f"+refs/heads/{branch}:{REF}" if branch else f"+HEAD:{REF}"
            self._fetch(spec, lock)
            os.utime(self._path)
        tip = self.tip()
        if tip is None:
            raise SourceError("the branch that was fetched has no commit", is_temporary=False)
        return tip

    def tip(self) -> tuple[str, float] | None:
        """Return the commit that was fetched last, and its time; None if there is none on this machine."""
        if not self._path.is_dir():
            return None
        output = self._run("log", "-1", "--no-show-signature", "--format=%H %ct", REF, "--", may_fail=True)
        commit, _, seconds = output.partition(" ")
        return (commit, float(seconds)) if seconds else None

    def has(self, commit: str) -> bool:
        kind = self._run("cat-file", "-t", commit, may_fail=True) if self._path.is_dir() else ""
        return kind.strip() == "commit"

    def has_entry(self, commit: str, path: str) -> bool:
        """Whether a commit names a file, even if its content cannot be read."""
        return bool(self._run("rev-parse", "--verify", "--quiet", f"{commit}:{path}", may_fail=True))

    def remove(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)

    @contextlib.contextmanager
    def started(self, *arguments: str, seconds: float = READ_SECONDS) -> Iterator[subprocess.Popen[bytes]]:
        """Run git; it is killed at the end of the block, and after `seconds`."""
        process = self.start(*arguments)
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()
            _end(process)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start git with a pipe to its output. Raises SourceError if it is not installed."""
        defaults: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        try:
            return subprocess.Popen(
                ["git", f"--git-dir={self._path}", *arguments],
                stdout=subprocess.PIPE,
                env=self._environment,
                **defaults | options,
            )
        except FileNotFoundError:
            raise SourceError(
                "Git repositories need the program git, which is not installed", is_temporary=False
            ) from None

    def _run(self, *arguments: str, may_fail: bool = False) -> str:
        with self.started(*arguments) as process:
            assert process.stdout is not None
            output = process.stdout.read(MAX_OUTPUT_BYTES)
            if process.wait() and not may_fail:
                raise SourceError(f"git {arguments[0]} failed in {self._path}")
        return output.decode("utf-8", "replace")

    def _fetch(self, spec: str, lock: int) -> None:
        process = self.start(
            "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
            "--", self._remote, spec,
            stderr=subprocess.STDOUT, start_new_session=True, pass_fds=(lock,),
        )  # fmt: skip
        tail = _Tail(process)
        end = time.monotonic() + FETCH_SECONDS
        reason = None
        try:
            while process.poll() is None:
                tail.join(POLL_SECONDS)
                if time.monotonic() > end:
                    reason = f"its files could not be fetched in {FETCH_SECONDS:g} seconds"
                elif _n_bytes(self._path) > MAX_COPY_BYTES:
                    reason = f"its files have more than {MAX_COPY_BYTES:,} bytes, which is the limit"
                if reason is not None:
                    break
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with its own children
                process.wait()
        tail.join()
        if reason is not None:
            self.remove()  # what was fetched before may be most of it
            raise SourceError(reason, is_temporary=False)
        if process.returncode:
            if any(each in tail.text for each in _DAMAGES):
                self.remove()
            raise _fetch_error(tail.text, spec)

    def _clear(self) -> None:
        """Remove what a fetch that was killed has left: git refuses to go on beside its locks."""
        for pattern in ("*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/**/tmp_obj_*"):
            for path in self._path.glob(pattern):
                path.unlink(missing_ok=True)

    def _remove_unused(self) -> None:
        for path in self._folder.glob("*.git"):
            if path != self._path and time.time() - path.stat().st_mtime > KEPT_SECONDS:
                with contextlib.suppress(SourceError), _locked(path, seconds=0):
                    shutil.rmtree(path, ignore_errors=True)


class _Reader:
    """Reads files of a commit through one process."""

    def __init__(self, copy: _Copy, tip: tuple[str, float]) -> None:
        self.commit, self.committed_at = tip
        self._copy = copy
        self._process = copy.start("cat-file", "--batch", stdin=subprocess.PIPE)

    def read(self, path: str, max_bytes: int) -> tuple[str, bytes]:
        """Return the id of a blob and its content.

        Raises ObjectGoneError, DocumentTooLargeError, SourceError."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(READ_SECONDS, process.kill)
        timer.start()
        blob = ""
        try:
            process.stdin.write(f"{self.commit}:{path}\n".encode())
            process.stdin.flush()
            header = process.stdout.readline()
            blob = header.partition(b" ")[0].decode("ascii", "replace")
            if header.endswith(b" missing\n") and not self._copy.has_entry(self.commit, path):
                raise ObjectGoneError("it is gone since it was listed")
            last = header.rpartition(b" ")[2].strip()
            size = int(last) if last.isdigit() else -1
            data = b"" if size < 0 else _exactly(process.stdout, size + 1, max_bytes)
        except BrokenPipeError:
            size, data = -1, b""
        finally:
            timer.cancel()
        if size > max_bytes:
            raise DocumentTooLargeError(f"it has {size:,} bytes; the limit is {max_bytes:,}")
        if size < 0 or len(data) != size + 1:
            self._copy.remove()
            raise SourceError("the copy of the repository cannot be read; it is fetched again")
        return blob, data[:-1]

    def close(self) -> None:
        _end(self._process)


class _Tail(threading.Thread):
    """Reads the output of a process to its end and keeps the last part."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(name="git-output", daemon=True)
        assert process.stdout is not None
        self._output: IO[bytes] = process.stdout
        self._kept = b""
        self.start()

    def run(self) -> None:
        with self._output:
            while piece := os.read(self._output.fileno(), 65_536):
                self._kept = (self._kept + piece)[-MAX_OUTPUT_BYTES:]

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


def _remote(base: str, options: Mapping[str, str]) -> str:
    """Return the address that git is given: without `git+`, and with the user of SSH."""
    parts = urlsplit(base.removeprefix("git+"))
    if parts.netloc.startswith("-"):
        raise InvalidFieldError("url", "must name a host")
    if parts.scheme != "ssh":
        return parts.geturl()
    user = options.get("username", "git")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}", user):
        raise InvalidFieldError("options.username", "is not the name of a user")
    return f"ssh://{user}@{parts.netloc}{parts.path}"


def _environment(remote: str, place: Place) -> dict[str, str]:
    """Return the variables of git. A token stands in one of them: not in arguments, files or addresses."""
    parts = urlsplit(remote)
    config = list(_CONFIG)
    if "token" in place.secrets:
        user = place.options.get("username", "x-access-token")
        encoded = base64.b64encode(f"{user}:{place.secrets['token']}".encode()).decode()
        origin = f"{parts.scheme}://{parts.netloc}/"
        config.append((f"http.{origin}.extraHeader", f"Authorization: Basic {encoded}"))
    variables = {name: value for name, value in os.environ.items() if name in _KEPT_VARIABLES}
    if "SSL_CERT_FILE" in variables:  # which other connections of the service heed
        variables.setdefault("GIT_SSL_CAINFO", variables["SSL_CERT_FILE"])
    variables |= {
        "LC_ALL": "C",
        "HOME": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ALLOW_PROTOCOL": parts.scheme,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=20",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for i, (key, value) in enumerate(config):
        variables |= {f"GIT_CONFIG_KEY_{i}": key, f"GIT_CONFIG_VALUE_{i}": value}
    return variables


@contextlib.contextmanager
def _locked(path: Path, seconds: float | None = None) -> Iterator[int]:
    """Hold the lock of a copy, and yield its descriptor: a child that has it keeps the lock after our death.

    Raises SourceError if another process holds it for `seconds`; without them, for LOCK_SECONDS.
    """
    descriptor = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + (LOCK_SECONDS if seconds is None else seconds)
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise SourceError("another process fetches the same branch") from None
                time.sleep(POLL_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)


def _fetch_error(output: str, spec: str) -> SourceError:
    lines = [line for line in output.splitlines() if not line.startswith("remote:")]
    text = "".join(char for char in " ".join(" ".join(lines).split()) if char.isprintable())
    if "couldn't find remote ref" in text:
        ref = spec.removeprefix("+").partition(":")[0]
        what = "no commit" if ref == "HEAD" else f"no branch {ref.removeprefix('refs/heads/')}"
        return SourceError(f"the repository has {what}", is_temporary=False)
    if "could not read Username" in text:
        return SourceError("access was refused; check the secret token", is_temporary=False)
    is_refused = any(each in text.lower() for each in _REFUSALS)
    return SourceError(text[:300] or "git fetch failed", is_temporary=not is_refused)


def _records(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield what is between the NUL characters of a stream."""
    rest = b""
    while piece := stream.read(65_536):
        *records, rest = (rest + piece).split(b"\0")
        yield from records


def _exactly(stream: IO[bytes], size: int, max_bytes: int) -> bytes:
    """Read `size` bytes; return them, or nothing if they are more than `max_bytes` and one."""
    if size <= max_bytes + 1:
        return stream.read(size)
    while size and (piece := stream.read(min(size, MIB))):
        size -= len(piece)
    return b""


def _n_bytes(path: Path) -> int:
    """Return the bytes of the packs of a repository, those that are being written too."""
    total = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(path / "objects" / "pack") as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                total += entry.stat().st_size
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
    process.wait()
