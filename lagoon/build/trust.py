"""How far a reef is trusted as a label, whatever its words say: ``lagoon/build/reef_trust.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np

from lagoon.model import NEVER, Model

TRUST = Path(__file__).parent / "reef_trust.toml"


def with_trust(model: Model, path: Path = TRUST) -> Model:
    """The model with the trust of a file: its table `readers` has what the logit of a reef is raised by, its
    table `silent` the reefs that are never labels, with the reason.

    Raises ValueError if it names a reef that the model does not have."""
    declared = tomllib.loads(path.read_text(encoding="utf-8"))
    raised: dict[str, float] = declared["readers"] | dict.fromkeys(declared["silent"], NEVER)
    names = [reef.name for reef in model.hierarchy.reefs]
    unknown = sorted(set(raised) - set(names))
    if unknown:
        raise ValueError(f"{path.name} names reefs that do not exist: {', '.join(unknown)}")
    return replace(model, reef_trust=np.array([raised.get(name, 0.0) for name in names]))
