"""`.ci/run` installs Chromium if it can, and runs the tests in any case.

The scripts really run, in a separate folder, with only the programs of the test case on the PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from waiting import DEADLINE_SECONDS, until

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "chmod", "dirname", "env", "grep", "mktemp", "rm", "sleep", "tail", "timeout", "true")
"""Standard Debian programs that the scripts or the stubs below use."""
CLOSING_LINE = "==== 3 passed in 0.05s ===="
MAKE = f'echo "make $*" >> calls; echo "{CLOSING_LINE}"'
APT_GET = """
echo "apt-get $* [$DEBIAN_FRONTEND]" >> calls
case " $* " in
    *" --download-only "*) ;;
    *" install "*) printf '#!/bin/sh\\n' > bin/chromium; chmod +x bin/chromium;;
esac
"""
SUDO = 'echo "sudo" >> calls; [ "$1" = -n ] && shift; exec "$@"'
ROOT_USER, OTHER_USER = "echo 0", "echo 1000"


class Checkout:
    """A folder with the scripts of the checkout and stub programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / ".ci", folder / ".ci")
        (folder / "bin").mkdir()
        (folder / "calls").touch()
        for tool in TOOLS:
            program = shutil.which(tool)
            assert program, f"this machine has no {tool}"
            (folder / "bin" / tool).symlink_to(program)

    def run(self, programs: Mapping[str, str], **environment: str) -> subprocess.CompletedProcess[str]:
        """Run `.ci/run` with stub programs, each given as shell code."""
        for name, text in {"make": MAKE, **programs}.items():
            program = self.folder / "bin" / name
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
        return subprocess.run(
            [str(self.folder / "bin" / "bash"), str(self.folder / ".ci" / "run")],
            cwd=self.folder.parent,
            env={"PATH": str(self.folder / "bin"), "TMPDIR": str(self.folder), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
        )

    def calls(self) -> list[str]:
        """The calls of the stub programs in order, with their arguments."""
        return (self.folder / "calls").read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


def _chromium_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the line about Chromium; assert that the only other output is the last line of the tests."""
    line, *between, last = done.stdout.splitlines()
    assert (done.returncode, between, last, done.stderr) == (0, [], CLOSING_LINE, "")
    return line


@pytest.mark.parametrize("program", ["chromium", "chromium-browser", "google-chrome"])
def test_an_installed_browser_is_used(checkout: Checkout, program: str) -> None:
    line = _chromium_line(checkout.run({program: "", "apt-get": APT_GET, "id": ROOT_USER}))
    assert line == f"chromium: {checkout.folder / 'bin' / program} is there"
    assert checkout.calls() == ["make test"]


def test_no_browser_is_installed_if_one_is_configured(checkout: Checkout) -> None:
    named = {"SHOAL_TEST_BROWSER": "/opt/a browser"}
    line = _chromium_line(checkout.run({"apt-get": APT_GET, "id": ROOT_USER}, **named))
    assert "/opt/a browser" in line
    assert checkout.calls() == ["make test"]


@pytest.mark.parametrize(
    ("programs", "by"), [({"id": ROOT_USER}, []), ({"id": OTHER_USER, "sudo": SUDO}, ["sudo"])]
)
def test_a_missing_browser_is_installed_without_questions(
    checkout: Checkout, programs: dict[str, str], by: list[str]
) -> None:
    line = _chromium_line(checkout.run({"apt-get": APT_GET, **programs}))
    assert line == "chromium: installed from Debian's packages"
    *before, tested = checkout.calls()
    assert tested == "make test"
    update, fetched, unpacked = [call for call in before if call.startswith("apt-get")]
    assert "update" in update
    assert "--download-only" in fetched
    assert " chromium " in unpacked
    assert all("--yes" in call and call.endswith("[noninteractive]") for call in (update, fetched, unpacked))
    assert [call for call in before if call == "sudo"] == by * 4, (
        "asked once whether it may, then three steps"
    )


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        pytest.param({"id": ROOT_USER}, "this machine has no apt-get", id="no apt"),
        pytest.param({"id": OTHER_USER, "apt-get": APT_GET}, "neither root nor sudo", id="no rights"),
        pytest.param(
            {"id": OTHER_USER, "apt-get": APT_GET, "sudo": "echo 'a password is required' >&2; exit 1"},
            "sudo wants a password",
            id="sudo that asks",
        ),
        pytest.param(
            {"id": ROOT_USER, "apt-get": "echo Get:1; echo 'E: Temporary failure resolving' >&2; exit 100"},
            "fetching the list of packages failed: E: Temporary failure resolving",
            id="no network",
        ),
        pytest.param(
            {"id": ROOT_USER, "apt-get": ":"}, "the package brought no program of that name", id="a snap"
        ),
    ],
)
def test_the_tests_run_without_a_browser(checkout: Checkout, programs: dict[str, str], reason: str) -> None:
    line = _chromium_line(checkout.run(programs))
    assert line == f"chromium: not installed, browser tests will be skipped: {reason}"
    assert checkout.calls()[-1] == "make test"


def test_the_installation_times_out_if_a_mirror_hangs(checkout: Checkout) -> None:
    hanging = {"id": ROOT_USER, "apt-get": "echo $$ > hanging; exec sleep 1000"}
    line = _chromium_line(checkout.run(hanging, CHROMIUM_INSTALL_SECONDS="1"))
    assert line.endswith("fetching the list of packages took more than 1 s")
    process = int((checkout.folder / "hanging").read_text())
    until(lambda: not Path(f"/proc/{process}").exists())


def test_the_exit_code_is_that_of_the_tests(checkout: Checkout) -> None:
    done = checkout.run({"chromium": "", "make": "echo '1 failed'; exit 2"})
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1] == "1 failed"


def test_the_tests_run_after_a_broken_installation_script(checkout: Checkout) -> None:
    (checkout.folder / ".ci" / "install-chromium").write_text("set -u; echo $nothing_of_that_name\n")
    done = checkout.run({})
    assert (done.returncode, checkout.calls()) == (0, ["make test"])


def test_the_ci_script_is_executable(checkout: Checkout) -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
