"""A real browser before a real service. Without a browser on this machine these tests are skipped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import KEY, Complaints, NoBrowserError, launched, opened
from playwright.sync_api import Browser, Page, sync_playwright
from waiting import until

STOP_S = 120.0
LISTENING = re.compile(r'"url": "(http://[^"]+)"')
"""What the log of the API says of its address."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of one file. Playwright keeps an event loop running in this thread meanwhile, and tests
    elsewhere have loops of their own."""
    with sync_playwright() as playwright:
        try:
            opened = launched(playwright)
        except NoBrowserError as error:
            pytest.skip(str(error))
        yield opened
        opened.close()


def serve(folder: Path, **environment: str) -> Iterator[str]:
    """The address of a running `shoal up`."""
    with (folder / "up.log").open("ab") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "shoal.cli",
                "--db",
                str(folder / "shoal.db"),
                "--json",
                "up",
                "--port",
                "0",
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **environment},
        )
    assert process.stdout is not None
    printed = b""
    for line in process.stdout:
        printed += line
        if line.rstrip() == b"}":
            break
    assert printed, f"the service did not start:\n{(folder / 'up.log').read_text()}"
    yield json.loads(printed)["url"]
    process.terminate()
    process.wait(STOP_S)
    process.stdout.close()


@pytest.fixture(scope="module")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that starts empty, for the tests of one file in their order."""
    yield from serve(tmp_path_factory.mktemp("service"))


@pytest.fixture(scope="module")
def idle_address(browser: Browser, idle_folder: Path) -> Iterator[str]:
    """A service without a worker: what is handed over waits for the test to do it."""
    path = idle_folder / "serve.log"
    command = [
        sys.executable,
        "-m",
        "shoal.cli",
        "--db",
        str(idle_folder / "shoal.db"),
        "serve",
        "--port",
        "0",
    ]
    with path.open("wb") as log:
        process = subprocess.Popen(command, stderr=log)
    yield until(lambda: next(iter(LISTENING.findall(path.read_text())), None))
    process.terminate()
    process.wait(STOP_S)


@pytest.fixture(scope="module")
def idle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idle")


@pytest.fixture(scope="module")
def locked_address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that asks for KEY."""
    yield from serve(tmp_path_factory.mktemp("locked"), SHOAL_API_KEYS=f"write:{KEY}")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of a wide window; what its scripts complain of fails the test."""
    complaints = Complaints()
    context = opened(browser, 1280, "light")
    page = context.new_page()
    complaints.watch(page)
    yield page
    context.close()
    assert complaints == []
