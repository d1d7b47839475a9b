"""Reefs that readers trust more or less as labels, and those that are never shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lagoon.build.senses import TRUST, with_trust
from lagoon.model import NEVER
from lagoon.results import LabelScores, probabilities
from lagoon.scorer import PACKAGED_DATA, load
from tests.lagoon.small_model import REEF_NAMES, build_model


def test_declared_reefs_are_raised_lowered_or_silent(tmp_path: Path) -> None:
    path = tmp_path / "trust.toml"
    path.write_text('[readers]\nbody = -1.5\nmoney = 0.5\n[silent]\nwar = "a figure of speech"\n')
    trust = dict(zip(REEF_NAMES, with_trust(build_model(), path).reef_trust.tolist(), strict=True))
    assert trust == {"body": -1.5, "money": 0.5, "war": NEVER, "feeling": 0.0, "plants": 0.0, "stars": 0.0}


def test_reef_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "trust.toml"
    path.write_text('[readers]\nbodies = 1.0\n[silent]\nwars = "no"\n')
    with pytest.raises(ValueError, match="bodies, wars"):
        with_trust(build_model(), path)


def test_trust_changes_probabilities_and_silence_ends_them() -> None:
    z = np.full((1, 3), 9.0)
    scores = LabelScores.of_text_alone(np.array([40.0]), z, np.full((1, 3), 3.0))
    ids, island_of = np.array([[0, 0, 0]]), np.zeros(3, dtype=np.int64)
    of_trust = [
        probabilities(scores, ids[:, :1], island_of, np.array([trust, 0.0, 0.0]))[0, 0]
        for trust in (NEVER, -1.0, 0.0, 1.0)
    ]
    assert of_trust[0] == 0
    assert of_trust == sorted(of_trust)
    assert of_trust[1] < of_trust[2] < of_trust[3]


def test_packaged_data_has_the_declared_trust() -> None:
    if not (PACKAGED_DATA / "manifest.json").exists():
        pytest.skip("lagoon/data has not been built")
    model = load()._model
    assert np.array_equal(model.reef_trust, with_trust(model, TRUST).reef_trust)
    assert (model.reef_trust == NEVER).sum() > 10
