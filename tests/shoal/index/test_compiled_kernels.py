"""Compiled kernels are loaded only on request, and work where nothing can be cached."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shoal.index

pytest.importorskip("numba")

USE = "from shoal.index import kernels; assert kernels.use_compiled(); print(kernels.active().is_compiled)"


def run(code: str, path: Path, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=path,
        env={**environment, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1", **variables},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.fixture
def copied_package(tmp_path: Path) -> Path:
    """A copy of the code without write permission, where no cache of numba is."""
    root = Path(shoal.index.__file__).parents[2]
    for package in ("shoal", "lagoon"):
        shutil.copytree(
            root / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "data", "build")
        )
    (tmp_path / "shoal/index").chmod(0o555)
    return tmp_path


def test_searches_do_not_import_numba() -> None:
    root = Path(shoal.index.__file__).parents[2]
    modules = "index, scoring, matching, building, merging, kernels"
    code = f"import sys; from shoal.index import {modules}; print('numba' in sys.modules)"
    assert run(code, root) == "False"


def test_a_read_only_package_uses_the_cache_of_the_user(copied_package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert run(USE, copied_package, NUMBA_CACHE_DIR=str(cache)) == "True"
    assert list(cache.rglob("*.nbi"))


def test_kernels_compile_without_any_place_for_a_cache(copied_package: Path) -> None:
    # No folder can be made below a file.
    nowhere = copied_package / "file"
    nowhere.touch()
    code = "import numba.core.caching as c; c.CacheImpl._locator_classes = []; " + USE
    assert run(code, copied_package, HOME=str(nowhere)) == "True"
