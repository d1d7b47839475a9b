"""The encoder that `SHOAL_ENCODER=minilm` names: the files of the distribution shoal-minilm (`minilm/`).

The files are data, and are checked by their digests before they are loaded, so that another distribution of
this name, or a damaged file, is refused. No code of the distribution runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from shoal.errors import EncoderError

PACKAGE = "shoal_minilm"
DIGESTS = {
    "model.onnx": "5060c9c987bc0540070a65b38dcffbf04805764fd1aa5ca785ed0e7be065e4e5",
    "tokenizer.json": "6681992d43e581b35b3dd61f3c81ee0f891fbf13ad54f8b692ea868bd46b066b",
    "encoder.json": "a0c726e4db1d9b99bab4580fe5011b1f963e2b94d1299436dd42585be8b399fb",
}
"""SHA-256 of each file that is loaded. A build of `minilm/` gives the same bytes on every machine."""


def find_packaged_model() -> Path:
    """Return the folder of the packaged encoder. Raises EncoderError if it is missing or another."""
    spec = importlib.util.find_spec(PACKAGE)
    places = None if spec is None else spec.submodule_search_locations
    for place in places or ():
        folder = Path(place) / "model"
        if folder.is_dir():
            check_files(folder)
            return folder
    raise EncoderError(
        "SHOAL_ENCODER=minilm needs its weights, the distribution shoal-minilm: `pip install ./minilm` in a "
        "checkout, or the wheel of `make dist`"
    )


def check_files(folder: Path) -> None:
    """Check the files of the model by their digests. Raises EncoderError, which names one that differs."""
    for name, digest in DIGESTS.items():
        try:
            with (folder / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise EncoderError(f"cannot read {name} of the packaged encoder: {error.strerror}") from error
        if found != digest:
            raise EncoderError(
                f"{name} of the packaged encoder is not the one of shoal-minilm; install it anew"
            )
