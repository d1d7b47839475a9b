"""The image has a pinned base, all packages, a user without rights, and a correct health check.

The tests need no container engine: they parse the Dockerfile, and check or run its commands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from deployment_files import PINNED, ROOT, Image


def test_the_base_is_a_supported_python_pinned_by_digest(image: Image) -> None:
    bases = {image.base_of(stage) for stage in image.stages}
    (base,) = bases
    pinned = PINNED.fullmatch(base)
    assert pinned, f"{base} can become another image overnight"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    minor = pinned["version"].rpartition(".")[0]
    assert f"Programming Language :: Python :: {minor}" in project["classifiers"]


def test_the_first_stage_gets_every_package_of_the_project(image: Image) -> None:
    copied = {name for copy in image.stages[0].arguments("COPY") for name in copy.split()[:-1]}
    allowed = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {package.split("/")[0] for package in wheel["packages"]} | set(wheel["force-include"])
    assert needed <= copied
    assert copied == allowed, ".dockerignore lets through exactly what is copied"
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_compiled_files_do_not_depend_on_source_timestamps(image: Image, tmp_path: Path) -> None:
    # Layers keep whole seconds only, so that half of the files compiled with timestamps would be stale in the
    # image.
    command = next(
        part.strip()
        for run in image.stages[0].arguments("RUN")
        for part in run.split("&&")
        if "compileall" in part
    )
    assert command.startswith(".venv/bin/python ")
    library = tmp_path / ".venv" / "lib"
    library.mkdir(parents=True)
    source = library / "tide.py"
    source.write_text("LEVEL = 'as compiled'\n")
    arguments = command.removeprefix(".venv/bin/python ").split()
    subprocess.run([sys.executable, *arguments], cwd=tmp_path, check=True)
    (compiled,) = library.rglob("*.pyc")
    os.utime(source, (0, 0))
    run = [sys.executable, "-v", "-c", "import tide"]
    environment = {**os.environ, "PYTHONPATH": str(library), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    assert f"matches {source}" in done.stderr
    assert f"code object from '{compiled}'" in done.stderr


def test_the_service_does_not_run_as_root(image: Image) -> None:
    user = image.last.arguments("USER")[-1]
    assert int(user.partition(":")[0]) > 0


@contextmanager
def _server(status: int) -> Iterator[int]:
    """Run a server that returns the status for /ready and 404 otherwise; yield its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/ready" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _health_check(image: Image) -> list[str]:
    (health_check,) = image.last.arguments("HEALTHCHECK")
    program, *arguments = json.loads(health_check.partition("CMD ")[2])
    assert program == "python"
    return arguments


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_the_health_check_follows_the_readiness_of_the_service(
    image: Image, status: int, healthy: bool
) -> None:
    # The health check must not use the proxy that the engine sets in every container; nothing listens at this
    # one.
    proxy = dict.fromkeys(("http_proxy", "HTTP_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    with _server(status) as port:
        environment = {**os.environ, **proxy, "SHOAL_PORT": str(port)}
        done = subprocess.run([sys.executable, *_health_check(image)], env=environment, capture_output=True)
    assert (done.returncode == 0) is healthy


def test_the_health_check_runs_no_file_of_the_volume(image: Image, tmp_path: Path) -> None:
    (tmp_path / "http").mkdir()
    for name in ("http/__init__.py", "http/client.py", "os.py"):
        (tmp_path / name).write_text("raise SystemExit('code from the volume ran')\n")
    with _server(200) as port:
        environment = {**os.environ, "SHOAL_PORT": str(port)}
        done = subprocess.run([sys.executable, *_health_check(image)], cwd=tmp_path, env=environment)
    assert done.returncode == 0
