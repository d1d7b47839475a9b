"""Fixtures with the parsed Dockerfile and compose file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployment_files import ROOT, Image, read_dockerfile


def _interpolate(text: str) -> str:
    """Replace `${NAME:-default}` by its default and `$$` by a dollar, as if no variable were set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text).replace("$$", "$")


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(_interpolate((ROOT / "docker-compose.yml").read_text()))
    return loaded


@pytest.fixture(scope="session")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    by_name: dict[str, dict[str, Any]] = compose["services"]
    return by_name


@pytest.fixture(scope="session")
def image() -> Image:
    return read_dockerfile(Path(ROOT / "Dockerfile").read_text())
