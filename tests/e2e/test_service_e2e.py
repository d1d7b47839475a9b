"""The whole service as a person runs it: real processes, a real broker, a database in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from running_service import (
    REDIS_SERVER,
    SHOAL,
    RedisServer,
    Service,
    descendants,
    is_alive,
    shoal,
)
from waiting import DEADLINE_SECONDS, until

SAMPLES = Path(__file__).parents[2] / "shoal" / "sample_corpus"


@pytest.fixture(params=["filesystem", "redis"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an embedded broker, or of a Redis of this test."""
    if request.param == "filesystem":
        yield "filesystem://"
        return
    if REDIS_SERVER is None:
        pytest.skip("there is no redis-server on this machine")
    server = RedisServer(tmp_path / "redis")
    yield server.url
    server.kill()


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
    until(lambda: not any(is_alive(pid) for pid in started))
    assert not service.is_ready()


TOPICS = {
    "bees": "A bee of colony {} carries the nectar of a flower to its hive, and zebras pass by.",
    "courts": "The judge of court {} asks the jury for its verdict, and zebras pass by.",
    "rain": "The monsoon of year {} brings rain to the forest, and zebras pass by.",
    "glass": "The furnace of works {} melts sand to glass, and zebras pass by.",
}


def test_who_searches_meanwhile_sees_all_of_a_document_or_nothing(service: Service) -> None:
    """Every chunk speaks of zebras, so that a search for them shows how much of a document there is."""
    lines = [
        json.dumps({"title": title, "content": " ".join(sentence.format(i) for i in range(400))})
        for title, sentence in TOPICS.items()
    ]
    wrong: list[str] = []
    seen: dict[str, set[int]] = defaultdict(set)
    done = threading.Event()

    def search() -> None:
        asked = {"query": "zebras", "mode": "lexical", "top_k": 100, "max_per_document": 100}
        with httpx.Client(base_url=service.url, timeout=DEADLINE_SECONDS) as client:
            ended = False
            # Once more after the end, to see what all of it is.
            while not ended:
                ended = done.is_set()
                answer = client.post("/api/v1/search", json=asked)
                if answer.status_code != 200:
                    wrong.append(answer.text)
                    continue
                titles = [result["document_title"] for result in answer.json()["results"]]
                for title in TOPICS:
                    seen[title].add(titles.count(title))

    readers = [threading.Thread(target=search) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        with httpx.Client(base_url=service.url, timeout=DEADLINE_SECONDS) as client:
            for line in lines:
                answer = client.post(
                    "/api/v1/documents/bulk", content=line, headers={"Content-Type": "application/x-ndjson"}
                )
                job = answer.json()["job"]["id"]
                until(lambda job=job: client.get(f"/api/v1/jobs/{job}").json()["status"] == "succeeded")
            listed = client.get("/api/v1/documents").json()["documents"]
    finally:
        done.set()
        for reader in readers:
            reader.join()
    whole = {document["title"]: document["n_chunks"] for document in listed}
    assert wrong == []
    assert set(whole) == set(TOPICS)
    assert sum(whole.values()) <= 100, "all of it fits in one answer"
    assert seen.keys() == whole.keys()
    for title, counts in seen.items():
        assert whole[title] in counts
        assert counts <= {0, whole[title]}


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
    assert "was killed by SIGKILL; restart in" in service.log.read_text()


def test_ctrl_c_ends_everything_that_was_started(tmp_path: Path) -> None:
    service = Service(tmp_path)
    started = descendants(service.process.pid)
    assert service.stop(signal.SIGINT) == 0
    assert "stopping; work in progress is finished first" in service.log.read_text()
    until(lambda: not any(is_alive(pid) for pid in started))
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
    assert "`shoal up --port 9`" in ran.stderr
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
    ran = shoal("demo", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "16 stored, 0 duplicates, 0 failed" in ran.stdout
    assert ran.stdout.count("The query is about:") == 3
    assert "passage z" in ran.stdout
    assert "All processes have stopped." in ran.stdout
    assert list(tmp_path.iterdir()) == []
