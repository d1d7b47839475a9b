"""The whole service as a person runs it: real processes, a real broker, a database in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path(__file__).parents[2] / "shoal" / "sample_corpus"
SHOAL = [sys.executable, "-m", "shoal.cli"]
START_S = 60.0
STOP_S = 60.0
IDLE_STOP_S = 60.0
"""An idle service is gone after 1.5 seconds; this leaves room for a busy machine."""
REDIS = shutil.which("redis-server")


def shoal(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SHOAL, *map(str, arguments)], capture_output=True, text=True, timeout=120, **options
    )


def until(condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    """What `condition` returns as soon as that is true."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)
    return result


def descendants(pid: int, *, direct: bool = False) -> dict[int, str]:
    """Everything that a process started, itself or (unless `direct`) through others: command line by process id.

    Zombies are left out.
    """
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if fields[0] != "Z":
                    parents[int(entry.name)] = int(fields[1])
    found: dict[int, str] = {}
    queue = [pid]
    while queue:
        above = queue.pop()
        for child in (child for child, parent in parents.items() if parent == above):
            with contextlib.suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                queue += [] if direct else [child]
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Service:
    """A running `shoal up`."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.db = folder / "shoal.db"
        self.log = folder / "up.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*SHOAL, "--db", str(self.db), "--json", "up", "--port", "0"],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **environment},
            )
        assert self.process.stdout is not None
        printed = b""
        for line in self.process.stdout:
            printed += line
            if line.rstrip() == b"}":
                break
        assert printed, f"the service did not start:\n{self.log.read_text()}"
        self.url: str = json.loads(printed)["url"]

    def child(self, module: str) -> int | None:
        """The process that leads a part of the service; None while that is away."""
        running = descendants(self.process.pid, direct=True)
        return next((pid for pid, line in running.items() if module in line), None)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(STOP_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture(params=["filesystem", "redis"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an embedded broker, or of a Redis of this test."""
    if request.param == "filesystem":
        yield "filesystem://"
        return
    if REDIS is None:
        pytest.skip("there is no redis-server on this machine")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder = tmp_path / "redis"
    folder.mkdir()
    redis = subprocess.Popen(
        [REDIS, "--port", str(port), "--dir", str(folder), "--save", "", "--bind", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
    )
    try:
        until(lambda: _answers(port))
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        redis.terminate()
        redis.wait()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Three articles, and a file that is none."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in ("bees-and-pollination.md", "juries.md", "monsoons.txt"):
        shutil.copy(SAMPLES / name, folder)
    return folder


@pytest.mark.slow
def test_upload_search_stop_with_either_broker(broker: str, tmp_path: Path, texts: Path) -> None:
    service = Service(tmp_path, SHOAL_BROKER_URL=broker, SHOAL_WORKERS="2")
    try:
        until(lambda: len(descendants(service.process.pid)) >= 5)  # API and its process, worker and its two
        started = descendants(service.process.pid)
        first = shoal("upload", texts, "--tags", "sample,test", "--server", service.url, "--wait", "--json")
        assert first.returncode == 0, first.stderr
        job = json.loads(first.stdout)
        assert job["status"] == "succeeded"
        assert job["progress"]["done"] == 3

        found = shoal("--db", service.db, "search", "how bees pollinate flowers", "--json")
        result = json.loads(found.stdout)["results"][0]
        assert result["document_title"] == "Bees and Pollination"
        assert set(result["tags"]) == {"sample", "test"}
        content = (texts / "bees-and-pollination.md").read_text()
        assert content[result["start_char"] : result["end_char"]] == result["text"]

        again = shoal("upload", texts, "--server", service.url, "--wait")
        assert again.returncode == 0, again.stderr
        assert "0 stored, 3 duplicates, 0 failed" in again.stdout

        listed = json.loads(shoal("jobs", "--server", service.url, "--json").stdout)
        assert [entry["status"] for entry in listed["jobs"]] == ["succeeded", "succeeded"]
        started = descendants(service.process.pid)
    finally:
        code = service.stop()
    assert code == 0
    assert [line for pid, line in started.items() if is_alive(pid)] == []
    assert not service.is_ready()


def test_a_bad_file_is_listed_with_its_reason_and_the_rest_is_stored(
    service: Service, texts: Path, tmp_path: Path
) -> None:
    (texts / "broken.md").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(400))
    gone = tmp_path / "gone.txt"
    ran = shoal("upload", texts, gone, "--server", service.url, "--wait")
    assert ran.returncode == 1
    assert f"failed: {gone}: no such file or directory" in ran.stderr
    assert "broken.md: " in ran.stderr
    assert "partial: 3 stored, 0 duplicates, 1 failed" in ran.stdout
    (job,) = json.loads(shoal("jobs", "--server", service.url, "--json").stdout)["jobs"]
    items = json.loads(
        shoal("jobs", job["id"], "--status", "failed", "--server", service.url, "--json").stdout
    )["items"]
    assert [Path(item["source_path"]).name for item in items] == ["broken.md"]
    assert "broken.md" in shoal("jobs", job["id"], "--server", service.url).stdout


@pytest.mark.chaos
@pytest.mark.parametrize("module", ["shoal_worker", "shoal_api"])
def test_a_part_that_is_killed_is_started_again(service: Service, texts: Path, module: str) -> None:
    killed = service.child(module)
    assert killed is not None
    left = descendants(killed)
    os.kill(killed, signal.SIGKILL)
    until(lambda: service.child(module) not in (None, killed))
    until(service.is_ready)
    until(lambda: not any(is_alive(pid) for pid in left))
    ran = shoal("upload", texts, "--server", service.url, "--wait")
    assert ran.returncode == 0, ran.stderr
    assert "was ended by SIGKILL; it is started again in" in service.log.read_text()


def test_ctrl_c_ends_everything_that_was_started(tmp_path: Path) -> None:
    service = Service(tmp_path)
    started = descendants(service.process.pid)
    began = time.monotonic()
    assert service.stop(signal.SIGINT) == 0
    assert time.monotonic() - began < IDLE_STOP_S
    assert "ending; work in progress is finished first" in service.log.read_text()
    assert [line for pid, line in started.items() if is_alive(pid)] == []
    assert "Traceback" not in service.log.read_text()


def test_everything_ends_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    service = Service(tmp_path)
    started = descendants(service.process.pid)
    service.stop(signal.SIGKILL)
    until(lambda: not any(is_alive(pid) for pid in started))


def test_a_port_that_is_taken_is_refused_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = shoal("--db", tmp_path / "shoal.db", "up", "--port", port)
    assert ran.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken" in ran.stderr
    assert "--port" in ran.stderr
    assert not (tmp_path / "shoal.db").exists()


def test_an_address_that_lets_strangers_in_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    ran = shoal("--db", tmp_path / "shoal.db", "up", "--host", "0.0.0.0", "--port", "0")
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: `shoal up` refuses to listen on 0.0.0.0: ")
    assert ran.stderr.count("\n") == 1
    assert "SHOAL_ALLOW_ANONYMOUS=1" in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_uploading_to_nobody_says_how_to_start_the_service(texts: Path) -> None:
    ran = shoal("upload", texts, "--server", "http://127.0.0.1:9")
    assert ran.returncode == 1
    assert "`shoal up` starts one" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    db = tmp_path / "shoal.db"
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(
            f"The bees of hive {number} carry pollen to the flowers. " * 2000
        )
    assert shoal("--db", db, "ingest-dir", tmp_path).returncode == 0
    for command in (["export"], ["show", "1", "--json"], ["search", "bees", "--scores"]):
        with subprocess.Popen(
            [*SHOAL, "--db", str(db), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b"", command
        assert process.returncode == 0, command


@pytest.mark.slow
def test_the_demo_runs_from_start_to_end(tmp_path: Path) -> None:
    began = time.monotonic()
    ran = shoal("demo", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "16 stored, 0 duplicates, 0 failed" in ran.stdout
    assert ran.stdout.count("The query is about:") == 3
    assert "chunk z" in ran.stdout
    assert "Everything that was started has ended." in ran.stdout
    assert time.monotonic() - began < 60
    assert list(tmp_path.iterdir()) == []
