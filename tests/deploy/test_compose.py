"""The compose file agrees with the image, the CLI and the settings, and grants least privilege.

The tests need no container engine: they parse the file, check its commands, and run the worker's health
check.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from deployment_files import PINNED, ROOT, Image

from shoal.cli.app import run
from shoal.jobs.queue import statements
from shoal.settings import Settings, describe
from shoal.storage.database import Database
from shoal_api.server import STOP_SECONDS
from shoal_worker.reconciler import worker_host

LONG_RUNNING = {"api", "worker", "redis"}


def test_the_compose_file_matches_the_compose_specification() -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema contains the schema of compose files")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*check, str(ROOT / "docker-compose.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_service_runs_as_root_or_can_become_root(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service.get("user", "unset") not in {"root", "0", "0:0"}, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["read_only"] is True, name
        assert "privileged" not in service, name


def test_only_the_api_has_a_network_with_outside_access(
    compose: dict[str, Any], services: dict[str, dict[str, Any]]
) -> None:
    closed = {name for name, network in compose["networks"].items() if network and network.get("internal")}
    assert services["migrate"]["network_mode"] == "none"
    for name in ("worker", "redis"):
        assert set(services[name]["networks"]) <= closed, name
    assert set(services["api"]["networks"]) > closed, "the broker's network, and one with a published port"
    assert [name for name, service in services.items() if "ports" in service] == ["api"]


def test_third_party_images_are_pinned_by_digest(services: dict[str, dict[str, Any]]) -> None:
    foreign = [service["image"] for service in services.values() if "build" not in service]
    assert foreign
    assert [image for image in foreign if not PINNED.fullmatch(image)] == []


def test_the_stop_grace_period_exceeds_the_shutdown_time(services: dict[str, dict[str, Any]]) -> None:
    given = re.fullmatch(r"(\d+)s", services["api"]["stop_grace_period"])
    assert given
    assert int(given[1]) > STOP_SECONDS


def test_every_command_is_a_cli_command(
    image: Image,
    services: dict[str, dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands = [service["command"] for service in services.values() if service["image"].startswith("shoal")]
    commands += [json.loads(command) for command in image.last.arguments("CMD")]
    assert len(commands) == 4
    for program, *arguments in commands:
        assert program == "shoal"
        assert run([*arguments, "--help"]) == 0, capsys.readouterr().err


def test_every_variable_is_a_setting_with_a_usable_value(
    image: Image,
    services: dict[str, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {setting["name"] for setting in describe()}
    for name in [name for name in os.environ if name.startswith("SHOAL_")]:
        monkeypatch.delenv(name)
    for service in ("migrate", "api", "worker"):
        variables = {k: v for k, v in image.last.environment().items() if k.startswith("SHOAL_")}
        variables |= {k: str(v) for k, v in services[service]["environment"].items()}
        assert set(variables) <= known
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            settings = Settings.from_environment()
        assert settings.database_path == Path("/data/shoal.db")
        assert settings.broker_url.startswith("redis://redis:"), "the broker is the service of that name"


def test_api_and_workers_share_the_volume_of_the_database(
    compose: dict[str, Any], services: dict[str, dict[str, Any]]
) -> None:
    mounts = {tuple(services[service]["volumes"]) for service in ("migrate", "api", "worker")}
    ((mount,),) = mounts
    volume, _, folder = mount.partition(":")
    assert volume in compose["volumes"], "a named volume outlives its containers"
    assert services["api"]["environment"]["SHOAL_DATABASE_URL"].startswith(f"sqlite:///{folder}/")


def test_every_long_running_service_has_a_health_check_and_restarts(
    image: Image,
    services: dict[str, dict[str, Any]],
) -> None:
    for name in LONG_RUNNING:
        assert services[name]["restart"] in {"always", "unless-stopped"}
    for name in LONG_RUNNING - {"api"}:
        assert services[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert "healthcheck" not in services["api"], "the image has the health check"
    assert image.last.arguments("HEALTHCHECK")


def test_workers_can_be_scaled(services: dict[str, dict[str, Any]]) -> None:
    # Only one container can have a fixed name or a published port.
    assert not {"container_name", "ports", "hostname"} & set(services["worker"])


def test_an_api_without_keys_is_published_to_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    assert services["api"]["environment"]["SHOAL_ALLOW_ANONYMOUS"] == "1"
    (port,) = services["api"]["ports"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+:8000", port)
    assert services["api"]["environment"]["SHOAL_PORT"] == "8000"
    assert "ports" not in services["redis"]


def _write_heartbeat(database: Database, hostname: str, seen_at: float) -> None:
    worker = {
        "name": f"{worker_host()}:7" if hostname == socket.gethostname() else f"{hostname}:7",
        "hostname": hostname,
        "pid": 7,
        "processes": 1,
        "version": "0",
    }
    with database.write() as transaction:
        transaction.execute(
            statements.UPSERT_WORKER, {**worker, "started_at": "2026-01-31T00:00:00.000Z", "seen_at": seen_at}
        )


@pytest.mark.parametrize(
    ("hostname", "silence", "healthy"),
    [
        pytest.param(socket.gethostname(), 5.0, True, id="seen just now"),
        pytest.param(socket.gethostname(), 60.0, False, id="silent for a minute"),
        pytest.param("another-container", 5.0, False, id="another worker seen"),
    ],
)
def test_the_health_check_of_the_worker_depends_on_its_own_heartbeat(
    services: dict[str, dict[str, Any]],
    database: Database,
    settings: Settings,
    hostname: str,
    silence: float,
    healthy: bool,
) -> None:
    kind, program, *arguments = services["worker"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    _write_heartbeat(database, hostname, time.time() - silence)
    environment = {**os.environ, "SHOAL_DATABASE_URL": settings.database_url}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) is healthy, done.stderr
    assert "Traceback" not in done.stderr
