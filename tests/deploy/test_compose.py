"""The image and the compose file agree with the Makefile, the CLI and the settings.

No container engine is needed: both files are read, their commands are compared with what they name, and
the health check of the API is run for real against a small server.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cli.app import run
from shoal.jobs import statements
from shoal.settings import Settings, describe
from shoal.storage.database import Database

ROOT = Path(__file__).resolve().parents[2]
LONG_RUNNING = {"api", "worker", "redis"}


def _interpolate(text: str) -> str:
    """`${NAME:-default}` becomes its default and `$$` a dollar, as where no variable is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text).replace("$$", "$")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load(_interpolate((ROOT / "docker-compose.yml").read_text()))


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return compose["services"]


@pytest.fixture(scope="module")
def dockerfile() -> list[tuple[str, str]]:
    """Instructions and their arguments, in order, continuation lines joined."""
    lines = [
        line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")
    ]
    text = "\n".join(lines).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines())]


def _arguments(dockerfile: list[tuple[str, str]], instruction: str) -> list[str]:
    return [rest for word, rest in dockerfile if word == instruction]


def test_the_compose_file_is_valid_by_the_compose_specification() -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema brings the schema of compose files")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*check, str(ROOT / "docker-compose.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_an_api_workers_and_a_redis(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) == LONG_RUNNING | {"migrate"}


def test_the_image_is_installed_by_the_steps_of_make_install(dockerfile: list[tuple[str, str]]) -> None:
    inherited = {
        k: v for k, v in os.environ.items() if k not in {"PYTHON", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    }
    dry = subprocess.run(
        ["make", "--dry-run", "--always-make", "install"],
        cwd=ROOT,
        env=inherited,
        capture_output=True,
        text=True,
        check=True,
    )
    # `test -x … || make the venv`: in an image there never is one yet.
    steps = [line.split("||")[-1].strip() for line in dry.stdout.splitlines()]
    installing = [step for step in steps if " venv " in step or " pip " in step]
    in_image = [step for step in _arguments(dockerfile, "RUN") if " venv " in step or " pip " in step]
    assert len(installing) == 3
    assert in_image == installing


def test_the_image_runs_a_python_that_the_project_supports(dockerfile: list[tuple[str, str]]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (base,) = _arguments(dockerfile, "FROM")
    version = re.fullmatch(r"python:(\d+\.\d+)-slim-\w+", base)
    assert version, f"{base} does not pin a Python and a release of Debian"
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]


def test_the_image_gets_every_package_of_the_project(dockerfile: list[tuple[str, str]]) -> None:
    copied = {name for copy in _arguments(dockerfile, "COPY") for name in copy.split()[:-1]}
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


def test_nothing_of_ours_runs_as_root(
    dockerfile: list[tuple[str, str]], services: dict[str, dict[str, Any]]
) -> None:
    user = _arguments(dockerfile, "USER")[-1]
    uid, _, gid = user.partition(":")
    assert int(uid) > 0
    assert int(gid) > 0
    instructions = [word for word, _ in dockerfile]
    assert instructions.index("USER") < instructions.index("CMD")
    for name, service in services.items():
        assert service.get("user", "unset") not in {"root", "0", "0:0"}, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name


def test_every_command_is_one_of_the_cli(
    dockerfile: list[tuple[str, str]],
    services: dict[str, dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands = [service["command"] for service in services.values() if service["image"].startswith("shoal")]
    commands += [json.loads(command) for command in _arguments(dockerfile, "CMD")]
    assert len(commands) == 4
    for program, *arguments in commands:
        assert program == "shoal"
        assert run([*arguments, "--help"]) == 0, capsys.readouterr().err


def test_every_variable_is_a_setting_with_a_usable_value(
    dockerfile: list[tuple[str, str]],
    services: dict[str, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {setting["name"] for setting in describe()}
    for name in [name for name in os.environ if name.startswith("SHOAL_")]:
        monkeypatch.delenv(name)
    image = dict(pair.split("=", 1) for env in _arguments(dockerfile, "ENV") for pair in shlex.split(env))
    for service in ("migrate", "api", "worker"):
        variables = {k: v for k, v in image.items() if k.startswith("SHOAL_")}
        variables |= {k: str(v) for k, v in services[service]["environment"].items()}
        assert set(variables) <= known
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            settings = Settings.from_environment()
        assert settings.database_path == Path("/data/shoal.db")
        assert settings.broker_url.startswith("redis://redis:"), "the broker is the service of that name"


def test_api_and_workers_share_the_volume_that_holds_the_database(
    compose: dict[str, Any], services: dict[str, dict[str, Any]]
) -> None:
    for service in ("migrate", "api", "worker"):
        assert services[service]["volumes"] == ["data:/data"]
    assert set(compose["volumes"]) == {"data", "redis"}


def test_redis_keeps_its_queue_on_disk(services: dict[str, dict[str, Any]]) -> None:
    command = services["redis"]["command"]
    assert command[command.index("--appendonly") + 1] == "yes"
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert services["redis"]["volumes"] == ["redis:/data"]


def test_every_lasting_service_has_a_health_check_and_comes_back(
    services: dict[str, dict[str, Any]],
) -> None:
    for name in LONG_RUNNING:
        assert services[name]["restart"] == "unless-stopped"
        assert services[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert "redis-cli ping" in services["redis"]["healthcheck"]["test"][1]


def test_services_wait_for_a_migrated_database_and_a_healthy_broker(
    services: dict[str, dict[str, Any]],
) -> None:
    for name in ("api", "worker"):
        waits = {other: how["condition"] for other, how in services[name]["depends_on"].items()}
        assert waits == {"migrate": "service_completed_successfully", "redis": "service_healthy"}


def test_workers_can_be_scaled(services: dict[str, dict[str, Any]]) -> None:
    # A fixed name or a published port can be had by one container only.
    assert not {"container_name", "ports", "hostname"} & set(services["worker"])


def test_an_api_without_keys_is_published_to_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    assert services["api"]["environment"]["SHOAL_ALLOW_ANONYMOUS"] == "1"
    (port,) = services["api"]["ports"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+:8000", port)
    assert services["api"]["environment"]["SHOAL_PORT"] == "8000"
    assert "ports" not in services["redis"]


def _sign_of_life(database: Database, hostname: str, seen_at: float) -> None:
    worker = {"name": f"{hostname}:7", "hostname": hostname, "pid": 7, "processes": 1, "version": "0"}
    with database.write() as connection:
        connection.execute(
            statements.SIGN_OF_LIFE, {**worker, "started_at": "2026-01-31T00:00:00.000Z", "seen_at": seen_at}
        )


@pytest.mark.parametrize(
    ("hostname", "silence", "healthy"),
    [
        pytest.param(socket.gethostname(), 5.0, True, id="seen just now"),
        pytest.param(socket.gethostname(), 60.0, False, id="silent for a minute"),
        pytest.param("another-container", 5.0, False, id="another worker seen"),
    ],
)
def test_the_health_check_of_the_worker_tells_its_own_sign_of_life(
    services: dict[str, dict[str, Any]],
    database: Database,
    settings: Settings,
    hostname: str,
    silence: float,
    healthy: bool,
) -> None:
    kind, program, *arguments = services["worker"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    _sign_of_life(database, hostname, time.time() - silence)
    environment = {**os.environ, "SHOAL_DATABASE_URL": settings.database_url}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) is healthy, done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def _server(status: int) -> Iterator[int]:
    """A server that answers /ready with the status and everything else with 404; gives its port."""

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


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_the_health_check_of_the_api_tells_ready_from_not_ready(
    services: dict[str, dict[str, Any]], status: int, healthy: bool
) -> None:
    kind, program, *arguments = services["api"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    with _server(status) as port:
        arguments = [argument.replace(":8000", f":{port}") for argument in arguments]
        done = subprocess.run([sys.executable, *arguments], capture_output=True)
    assert (done.returncode == 0) is healthy
