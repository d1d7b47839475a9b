"""Presets: how a setting defines them, and that searches use them."""

from __future__ import annotations

import dataclasses

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.errors import QueryError, SettingsError
from shoal.models.search import (
    BUILT_IN,
    MAX_DEFINED,
    MIN_WEIGHT,
    Preset,
    Weights,
    all_presets,
    parse_presets,
)
from shoal.settings import Settings

DEFINED = "manuals=0.7,0.2,0.1; letters = 3, 1, 0 ; letters2=0.5, 0.4, 0.1, 0.6"


def test_a_setting_defines_presets() -> None:
    assert parse_presets(DEFINED) == {
        "manuals": Preset(Weights(0.7, 0.2, 0.1)),
        "letters": Preset(Weights(3.0, 1.0, 0.0)),
        "letters2": Preset(Weights(0.5, 0.4, 0.1, dense=0.6)),
    }
    assert list(all_presets(DEFINED)) == [*BUILT_IN, "manuals", "letters", "letters2"]
    assert all_presets("") == BUILT_IN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("manuals", "must be written as manuals=0.55,0.35,0.10"),
        ("manuals=1,2", "must be written as manuals=0.55,0.35,0.10"),
        ("manuals=1,2,3,4,5", "must be written as"),
        ("manuals=0,0,0,1", "at least one signal a weight above 0, besides that of vectors"),
        ("manuals=a,b,c", "must be written as"),
        ("manuals=nan,1,1", "weights between 0 and 1,000,000"),
        ("manuals=1e999,1,1", "weights between 0 and 1,000,000"),
        ("manuals=-1,1,1", "weights between 0 and 1,000,000"),
        ("manuals=0,0,0", "at least one signal a weight above 0"),
        ("Manuals=1,1,1", "is not a name"),
        ("=1,1,1", "is not a name"),
        (f"{'a' * 41}=1,1,1", "is not a name"),
        ("balanced=1,1,1", "is taken"),
        ("hybrid=1,1,1", "is taken"),
        ("manuals=1,1,1;manuals=1,1,1", "is taken"),
        (";".join(f"p{n}=1,1,1" for n in range(MAX_DEFINED + 1)), "at most 32 presets"),
    ],
)
def test_a_bad_preset_says_what_is_wrong(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=message):
        parse_presets(text)
    monkeypatch.setenv("SHOAL_PRESETS", text)
    with pytest.raises(SettingsError, match=message):
        Settings.from_environment()


@given(st.text(alphabet="ab=,;.0-9e n\n", max_size=40) | st.text(max_size=40))
def test_every_text_gives_usable_presets_or_an_error(text: str) -> None:
    try:
        presets = parse_presets(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - one of two outcomes
        return
    for preset in presets.values():
        assert sum(preset.weights.normalized()) == pytest.approx(1.0)
        assert max(preset.weights) >= MIN_WEIGHT


def test_a_search_takes_the_weights_of_its_preset(settings: Settings) -> None:
    defined = dataclasses.replace(settings, presets=DEFINED)
    with Engine(settings=defined, scorer=FakeScorer()) as engine:
        engine.ingest(title="Fire", content="A volcano pours lava. An insect visits a flower.")
        for name, preset in all_presets(DEFINED).items():
            weights = engine.search("volcano insect", preset=name).weights
            given = preset.weights._replace(dense=0.0)  # there are no vectors
            is_as_given = weights == pytest.approx(given.normalized()._asdict())
            assert is_as_given is not preset.is_adaptive
        assert engine.status().presets["letters"] == Weights(3.0, 1.0, 0.0)._asdict()
        with pytest.raises(QueryError, match=r"'mannuals' is not one of .*corpus, manuals, letters"):
            engine.search("tide", preset="mannuals")
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        assert list(engine.status().presets) == list(BUILT_IN)
