"""Without an encoder, no process imports what one needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal import Engine

NEURAL = ("onnxruntime", "tokenizers", "onnx", "torch", "transformers")
OF_ENCODERS = ("shoal.encoders.local_model", "shoal.encoders.http_endpoint", "shoal.encoders.conversion")
RAIN = "Rain fell on the harbour all night. The storm broke two masts. In the morning the wind dropped."
API = """
from shoal_api.app import create_app
from shoal.settings import Settings
client = create_app(Settings.from_environment()).test_client()
print(client.get("/search?q=storm").status_code, client.get("/status").status_code, file=sys.stderr)
"""
WORKER = """
import shoal_worker.health, shoal_worker.process, shoal_worker.reconciler
from shoal import Engine
with Engine() as engine:
    engine.ingest(title="Snow", content="Snow falls. It is white.")
"""
SEARCH = """
from shoal.cli.app import run
run(["search", "storm"])
"""


@pytest.mark.parametrize(
    ("program", "also"),
    [(API, ("httpx",)), (WORKER, ()), (SEARCH, ("httpx", "numba"))],
    ids=["api", "worker", "search"],
)
def test_disabled_encoder_imports_nothing(program: str, also: tuple[str, ...], tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db") as engine:
        engine.ingest(title="Weather", content=RAIN)
    names = (*NEURAL, *OF_ENCODERS, *also)
    code = f"import sys\n{program}\nprint('imported:', [name for name in {names!r} if name in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")},
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SHOAL_DATABASE_URL": f"sqlite:///{tmp_path / 'shoal.db'}",
        },
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[-1] == "imported: []", process.stderr
