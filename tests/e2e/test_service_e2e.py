"""The whole service as a user runs it: real processes, a real broker and a database on disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from rabbitmq_server import delete_queue, require_rabbitmq
from running_service import (
    SHOAL,
    Service,
    descendants,
    is_alive,
    shoal,
)
from waiting import DEADLINE_SECONDS, until

from shoal.cli.app import run
from shoal.cli.demo import LEGEND

SAMPLES = Path(__file__).parents[2] / "shoal" / "sample_corpus"


# Not with Redis: uploads through it, with all their kills, are in tests/chaos.
@pytest.fixture(params=["filesystem", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The variables for the embedded broker, or for a queue of RabbitMQ."""
    if request.param == "filesystem":
        yield {"SHOAL_BROKER_URL": "filesystem://"}
        return
    queue = f"test-{uuid.uuid4().hex}"
    yield {"SHOAL_BROKER_URL": require_rabbitmq(), "SHOAL_BROKER_QUEUE": queue}
    delete_queue(queue)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the default settings, shared by tests that leave it running."""
    running = Service(tmp_path_factory.mktemp("service"))
    yield running
    running.stop()


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder with files of the sample corpus."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in ("bees-and-pollination.md", "juries.md", "monsoons.txt"):
        shutil.copy(SAMPLES / name, folder)
    return folder


@pytest.mark.slow
def test_upload_search_stop_with_each_broker(
    broker: dict[str, str], tmp_path: Path, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = Service(tmp_path, SHOAL_WORKERS="2", **broker)
    try:
        until(lambda: len(descendants(service.process.pid)) >= 5)  # API with one child, worker with two
        started = descendants(service.process.pid)
        upload = shoal("upload", texts, "--tags", "sample,test", "--server", service.url, "--wait", "--json")
        assert upload.returncode == 0, upload.stderr
        job = json.loads(upload.stdout)
        assert job["status"] == "succeeded"
        assert job["progress"]["done"] == 3

        search = output_of(capsys, "--db", service.db, "search", "how bees pollinate flowers", "--json")
        result = json.loads(search)["results"][0]
        assert result["document_title"] == "Bees and Pollination"
        assert set(result["tags"]) == {"sample", "test"}
        content = (texts / "bees-and-pollination.md").read_text()
        assert content[result["start_char"] : result["end_char"]] == result["text"]

        repeated = output_of(capsys, "upload", texts, "--server", service.url, "--wait")
        assert "0 stored, 3 duplicates, 0 failed" in repeated

        jobs = json.loads(output_of(capsys, "jobs", "--server", service.url, "--json"))
        assert [entry["status"] for entry in jobs["jobs"]] == ["succeeded", "succeeded"]
        started = descendants(service.process.pid)
    finally:
        code = service.stop()
    assert code == 0
    until(lambda: not any(is_alive(pid) for pid in started))
    assert not service.is_ready()


def output_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command in this process, which is faster than `shoal` for a command that is no part of the test."""
    capsys.readouterr()
    code = run([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return printed.out


TOPICS = {
    "bees": "A bee of colony {} carries the nectar of a flower to its hive, and zebras pass by.",
    "courts": "The judge of court {} asks the jury for its verdict, and zebras pass by.",
    "rain": "The monsoon of year {} brings rain to the forest, and zebras pass by.",
    "glass": "The furnace of works {} melts sand to glass, and zebras pass by.",
}


def test_concurrent_searches_see_whole_documents_or_none(service: Service) -> None:
    """Every chunk contains "zebras", so a search for it returns all visible chunks of a document."""
    lines = [
        json.dumps({"title": title, "content": " ".join(sentence.format(i) for i in range(400))})
        for title, sentence in TOPICS.items()
    ]
    errors: list[str] = []
    seen: dict[str, set[int]] = defaultdict(set)
    done = threading.Event()

    def search() -> None:
        body = {"query": "zebras", "mode": "lexical", "top_k": 100, "max_per_document": 100}
        with httpx.Client(base_url=service.url, timeout=DEADLINE_SECONDS) as client:
            is_last = False
            # One more search after the end sees the complete documents.
            while not is_last:
                is_last = done.is_set()
                response = client.post("/api/v1/search", json=body)
                if response.status_code != 200:
                    errors.append(response.text)
                    continue
                titles = [result["document_title"] for result in response.json()["results"]]
                for title in TOPICS:
                    seen[title].add(titles.count(title))

    readers = [threading.Thread(target=search) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        with httpx.Client(base_url=service.url, timeout=DEADLINE_SECONDS) as client:
            for line in lines:
                response = client.post(
                    "/api/v1/documents/bulk", content=line, headers={"Content-Type": "application/x-ndjson"}
                )
                job = response.json()["job"]["id"]
                until(lambda job=job: client.get(f"/api/v1/jobs/{job}").json()["status"] == "succeeded")
            documents = client.get("/api/v1/documents").json()["documents"]
    finally:
        done.set()
        for reader in readers:
            reader.join()
    n_chunks = {document["title"]: document["n_chunks"] for document in documents}
    assert errors == []
    assert n_chunks.keys() >= TOPICS.keys()
    assert sum(n_chunks[title] for title in TOPICS) <= 100, "all chunks fit in one response"
    assert seen.keys() == TOPICS.keys()
    for title, counts in seen.items():
        assert n_chunks[title] in counts
        assert counts <= {0, n_chunks[title]}


def test_bad_file_is_reported_and_the_rest_is_stored(
    service: Service, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (texts / "broken.md").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(400))
    missing = tmp_path / "missing.txt"
    result = shoal("upload", texts, missing, "--server", service.url, "--wait")
    assert result.returncode == 1
    assert f"failed: {missing}: no such file or directory" in result.stderr
    assert "broken.md: " in result.stderr
    assert "partial: 3 stored, 0 duplicates, 1 failed" in result.stdout
    server = ("--server", service.url)
    job = json.loads(output_of(capsys, "jobs", *server, "--json"))["jobs"][0]
    failed = output_of(capsys, "jobs", job["id"], "--status", "failed", *server, "--json")
    assert [Path(item["source_path"]).name for item in json.loads(failed)["items"]] == ["broken.md"]
    # Paths below the working directory are relative, so this one is too short to be wrapped.
    assert "broken.md" in shoal("jobs", job["id"], *server, cwd=texts).stdout


@pytest.mark.chaos
def test_killed_child_processes_are_restarted(
    service: Service, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("shoal_worker", "shoal_api"):
        killed = service.child(module)
        assert killed is not None
        orphans = descendants(killed)
        os.kill(killed, signal.SIGKILL)
        until(lambda module=module, killed=killed: service.child(module) not in (None, killed))
        until(service.is_ready)
        until(lambda orphans=orphans: not any(is_alive(pid) for pid in orphans))
        (texts / "juries.md").write_text(f"The judge asks the jury about the {module}.")
        printed = output_of(capsys, "upload", texts / "juries.md", "--server", service.url, "--wait")
        assert "1 stored" in printed
    assert service.log.read_text().count("was killed by SIGKILL; restart in") == 2


def test_several_api_processes_answer_as_one_service_until_ctrl_c(tmp_path: Path) -> None:
    service = Service(tmp_path, SHOAL_API_PROCESSES="2")
    try:
        children = descendants(service.process.pid, direct=True)
        apis = [pid for pid, line in children.items() if "shoal_api" in line]
        assert len(apis) == 2
        n_searches = 20
        for _ in range(n_searches):
            assert httpx.get(f"{service.url}/api/v1/search", params={"q": "juries"}).status_code == 200
        assert searches_counted(service.url) == n_searches
        port = service.url.rsplit(":", 1)[1]
        assert "is taken" in shoal("--db", tmp_path / "other.db", "up", "--port", port).stderr
        os.kill(apis[0], signal.SIGKILL)
        until(lambda: "was killed by SIGKILL; restart in" in service.log.read_text())
        until(service.is_ready)
        assert searches_counted(service.url) == n_searches
        started = descendants(service.process.pid)
    finally:
        code = service.stop(signal.SIGINT)
    assert code == 0
    assert "stopping; work in progress is finished first" in service.log.read_text()
    until(lambda: not any(is_alive(pid) for pid in started))
    assert "Traceback" not in service.log.read_text()


def searches_counted(url: str) -> float:
    """The number of searches in the metrics of a service, which may be restarting a process."""
    transport = httpx.HTTPTransport(retries=5)
    with httpx.Client(transport=transport) as client:
        lines = client.get(f"{url}/metrics").text.splitlines()
    counts = [line.rsplit(" ", 1)[1] for line in lines if line.startswith("shoal_search_seconds_count")]
    return sum(map(float, counts))


def test_taken_port_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = shoal("--db", tmp_path / "shoal.db", "up", "--port", port)
    assert result.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken" in result.stderr
    assert "--port" in result.stderr
    assert not (tmp_path / "shoal.db").exists()


def test_public_address_without_keys_is_refused_before_the_start(tmp_path: Path) -> None:
    result = shoal("--db", tmp_path / "shoal.db", "up", "--host", "0.0.0.0", "--port", "0")
    assert result.returncode == 1
    assert result.stderr.startswith("error: `shoal up` refuses to listen on 0.0.0.0: ")
    assert result.stderr.count("\n") == 1
    assert "SHOAL_ALLOW_ANONYMOUS=1" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_upload_without_a_service_explains_how_to_start_one(texts: Path) -> None:
    result = shoal("upload", texts, "--server", "http://127.0.0.1:9")
    assert result.returncode == 1
    assert "start one with `shoal up --port 9`" in result.stderr
    assert "Traceback" not in result.stderr


def test_closed_output_pipe_is_not_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = tmp_path / "shoal.db"
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(
            f"The bees of hive {number} carry pollen to the flowers. " * 2000
        )
    output_of(capsys, "--db", db, "ingest", *tmp_path.glob("*.txt"))
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
def test_demo_runs_to_its_end(tmp_path: Path) -> None:
    result = shoal("demo", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "16 stored, 0 duplicates, 0 failed" in result.stdout
    assert result.stdout.count("Reefs searched for:") == 3
    assert result.stdout.count("shared topics") >= 3
    for name, _ in LEGEND:
        assert f"\n{name}  " in result.stdout, name
    assert "The service has stopped" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_all_processes_end_when_the_supervisor_is_killed(service: Service) -> None:
    """The last test of the shared service."""
    started = descendants(service.process.pid)
    service.stop(signal.SIGKILL)
    until(lambda: not any(is_alive(pid) for pid in started))
