"""Settings: how they are read from the environment."""

from __future__ import annotations

import dataclasses

import pytest

from shoal.errors import SettingsError
from shoal.settings import Settings, describe


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in describe():
        monkeypatch.delenv(setting["name"], raising=False)


@pytest.mark.parametrize("name", [setting["name"] for setting in describe()])
def test_an_empty_variable_means_the_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "")
    assert dataclasses.asdict(Settings.from_environment()) == dataclasses.asdict(Settings())


def test_an_empty_variable_does_not_hide_the_value_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_HOST", "")
    monkeypatch.setenv("SHOAL_PORT", "9000")
    settings = Settings.from_environment(workers=3)
    assert (settings.host, settings.port, settings.workers) == ("127.0.0.1", 9000, 3)


def test_an_unknown_variable_is_an_error_even_when_it_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_PROT", "")
    with pytest.raises(SettingsError, match="SHOAL_PROT: there is no such setting; did you mean SHOAL_PORT"):
        Settings.from_environment()


def test_a_blank_variable_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_PORT", " ")
    with pytest.raises(SettingsError, match="SHOAL_PORT=' ': must be a whole number"):
        Settings.from_environment()
