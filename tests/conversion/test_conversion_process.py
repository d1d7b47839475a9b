"""A file that crashes, hangs or floods its converter ends as one error, and the next file converts."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import until

from shoal.conversion.converted import ConversionError
from shoal.conversion.file_kinds import FileKind
from shoal.conversion.process import ConversionProcess, Limits
from shoal.models.documents import DocFormat
from shoal.models.files import LocatorKind

MIB = 1024**2
LIMITS = Limits(seconds=2.0, memory_bytes=400 * MIB, output_bytes=2 * MIB)


def kind(function: str, extra: str | None = None) -> FileKind:
    return FileKind("test", "test", (".test",), (), f"faulty_converters:{function}", extra)


@pytest.fixture(scope="module")
def process() -> Iterator[ConversionProcess]:
    with ConversionProcess(LIMITS) as process:
        yield process


def failure(process: ConversionProcess, function: str, data: bytes = b"") -> ConversionError:
    with pytest.raises(ConversionError) as caught:
        process.convert(data, "a.test", kind(function))
    return caught.value


def test_returns_what_the_converter_returns_although_it_prints(process: ConversionProcess) -> None:
    converted = process.convert("עברית, 日本".encode(), "имя.test", kind("fine"))
    assert converted.content == "עברית, 日本"
    assert converted.format is DocFormat.plaintext
    assert converted.title == "имя.test"
    assert converted.locators == ((0, 9, LocatorKind.page, "имя.test", 1, 1),)
    assert converted.warnings == ("a warning",)


def test_passes_options_to_the_converter(process: ConversionProcess) -> None:
    converted = process.convert(b"text", "a.test", kind("with_options"), {"ocr": True, "language": "eng"})
    assert converted.content == "text True eng"


def test_passes_reports_on_before_the_answer(process: ConversionProcess) -> None:
    shares: list[float] = []
    converted = process.convert(b"1 2 9 -1 4", "a.test", kind("reports"), watch=shares.append)
    assert converted.content == "1 2 9 -1 4"
    assert shares == [0.25, 0.5, 1.0, 0.0, 1.0]
    # The next file, in the same process, has no reports of the last one.
    assert process.convert(b"x", "a.test", kind("fine"), watch=shares.append).content == "x"
    assert len(shares) == 5


def test_converts_a_large_file_while_its_answer_is_as_large() -> None:
    with ConversionProcess(Limits(seconds=30, output_bytes=64 * MIB)) as process:
        assert len(process.convert(b"word " * 4_000_000, "a.test", kind("fine")).content) == 20_000_000


@pytest.mark.parametrize(
    ("function", "code"),
    [
        ("exits", "crashed"),
        ("segfaults", "crashed"),
        ("loops", "time_limit"),
        ("loops_in_c", "time_limit"),
        ("sleeps", "time_limit"),
        ("eats_memory", "memory_limit"),
        ("writes_much", "too_large"),
        ("writes_unasked", "too_large"),
        ("lies", "crashed"),
        ("returns_nothing", "broken"),
        ("fails", "broken"),
        ("nests", "broken"),
        ("refuses", "encrypted"),
        ("imports_missing", "missing_extra"),
    ],
)
def test_ends_as_one_error_and_converts_the_next_file(
    process: ConversionProcess, function: str, code: str
) -> None:
    process.convert(b"x", "a.test", kind("fine"))  # the child has started, so that only the file takes time
    error = failure(process, function)
    assert error.code == code
    assert "secret" not in str(error)
    assert process.convert(b"next", "b.test", kind("fine")).content == "next"


def test_a_flood_does_not_grow_the_parent(process: ConversionProcess) -> None:
    failure(process, "writes_unasked")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        failure(process, "writes_unasked")
        failure(process, "eats_memory")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


def test_says_how_to_install_a_missing_library(process: ConversionProcess) -> None:
    with pytest.raises(ConversionError, match=r"pip install 'shoal\[pdf\]'") as caught:
        process.convert(b"", "a.pdf", kind("imports_missing", "pdf"))
    assert caught.value.code == "missing_extra"


def test_a_converter_has_no_network(process: ConversionProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert failure(process, "connects", str(port).encode()).code == "broken"
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_converter_sees_no_secret_and_has_limits(
    process: ConversionProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_API_KEYS", "secret")
    monkeypatch.setenv("TESSDATA_PREFIX", "/data")
    process.close()
    seen = json.loads(process.convert(b"", "a.test", kind("shows_itself")).content)
    assert "secret" not in json.dumps(seen["environment"])
    assert seen["environment"]["TESSDATA_PREFIX"] == "/data"
    assert seen["folder"] == "/"
    assert seen["limits"] == [LIMITS.memory_bytes, LIMITS.open_files, 0]
    assert seen["modules"] == [], "what converters do not need would slow the start of the process"


def test_small_files_share_a_process_which_is_renewed() -> None:
    with ConversionProcess(LIMITS, files_per_child=3) as process:
        pids = [json.loads(process.convert(b"", "", kind("shows_itself")).content)["pid"] for _ in range(7)]
    assert [len(set(pids[i : i + 3])) for i in (0, 3, 6)] == [1, 1, 1]
    assert len(set(pids)) == 3


def test_closing_ends_the_child() -> None:
    process = ConversionProcess(LIMITS)
    process.convert(b"x", "a.test", kind("fine"))
    pid = process.child_pid
    assert pid is not None
    process.close()
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_many_errors_leave_no_descriptor_open(process: ConversionProcess) -> None:
    failure(process, "exits")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        failure(process, "exits")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_fork_has_a_child_of_its_own(process: ConversionProcess) -> None:
    process.convert(b"x", "a.test", kind("fine"))
    pid = process.child_pid
    fork = os.fork()
    if not fork:
        status = 1
        try:
            status = 0 if process.convert(b"fork", "a.test", kind("fine")).content == "fork" else 2
            process.close()
        finally:
            os._exit(status)
    assert os.waitpid(fork, 0)[1] == 0
    assert process.convert(b"parent", "a.test", kind("fine")).content == "parent"
    assert process.child_pid == pid


def test_threads_take_turns(process: ConversionProcess) -> None:
    contents: list[str] = []

    def convert(number: int) -> None:
        contents.append(process.convert(str(number).encode(), "a.test", kind("fine")).content)

    threads = [threading.Thread(target=convert, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(contents) == sorted(map(str, range(8)))


@pytest.mark.chaos
@pytest.mark.parametrize("function", ["loops", "loops_in_c", "sleeps", "fine"])
def test_the_child_dies_with_its_parent(function: str) -> None:
    program = (
        "import sys, threading, time\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "from shoal.conversion.file_kinds import FileKind\n"
        "from shoal.conversion.process import ConversionProcess, Limits\n"
        "process = ConversionProcess(Limits(seconds=100))\n"
        "def kind(name): return FileKind('test', 'test', (), (), 'faulty_converters:' + name)\n"
        "process.convert(b'x', 'a', kind('fine'))\n"
        "print(process.child_pid, flush=True)\n"
        f"process.convert(b'x', 'a', kind({function!r}))\n"
        "time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.3)
        assert is_running(child)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        until(lambda: not is_running(child))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
