"""Settings: how they are read from the environment."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from shoal.errors import SettingsError
from shoal.settings import Settings, describe, shown


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


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("SHOAL_ENCODER", "bert", "must be disabled, minilm, local:FOLDER or the http"),
        ("SHOAL_ENCODER", "https://me:secret@embeddings.example", "without a user"),
        ("SHOAL_ENCODER", "local:", "must name a folder"),
        ("SHOAL_ENCODER_KEY", "line\nbreak", "must be printable ASCII"),
        ("SHOAL_ENCODER_DEVICE", "gpu", "must be one of cpu, cuda"),
        ("SHOAL_ENCODER_BATCH", "0", "must be between 1 and 1024"),
        ("SHOAL_RERANKER", "http://127.0.0.1", "must be encoder or local:FOLDER"),
        ("SHOAL_RERANK", "101", "must be between 0 and 100"),
    ],
)
def test_a_wrong_setting_of_the_encoder_is_an_error_that_shows_no_secret(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=message) as caught:
        Settings.from_environment()
    assert "secret" not in str(caught.value)
    assert "break" not in str(caught.value)


def test_an_encoder_is_disabled_an_endpoint_or_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("disabled", "http://127.0.0.1:11434/v1", f"local:{tmp_path}"):
        monkeypatch.setenv("SHOAL_ENCODER", value)
        assert Settings.from_environment().encoder == value


@pytest.mark.parametrize("name", ["SHOAL_BROKER_URL", "SHOAL_DATABASE_URL", "SHOAL_READ_DATABASE_URL"])
@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@host:6379/0",
        "amqp://me:secret@a//;amqp://me:secret@b//",
        "postgresql://me:secret@a:1,b:2/db?target_session_attrs=read-write",
        "postgresql://me:sec ret secret@host/db",
        "postgresql://me:secret/secret@host/db",
        "postgresql://me:secret@secret@host/db",
        "postgresql://host/db?user=me&password=secret",
        "postgresql://host/db?PassWord=secret&sslpassword=secret&schema=lib",
        "me:secret@host/db",
    ],
)
def test_the_password_of_a_url_is_never_shown(name: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = shown(name, url)
    assert "secret" not in printed
    assert "***" in printed
    monkeypatch.setenv(name, f"x{url}")
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment()
    assert "secret" not in str(caught.value)


def test_a_url_without_a_password_is_shown_as_it_is() -> None:
    for url in ("redis://host:6379/0", "postgresql://me@host:5432/db?schema=lib", "sqlite:////a b/c@d.db"):
        assert shown("SHOAL_DATABASE_URL", url) == url


@pytest.mark.parametrize(
    "url", ["redis://:se/cret@host/0", "redis://:9#cret@h/0", "amqp://a:b@h//;amqp://me:se/cret@h"]
)
def test_a_broker_whose_password_is_not_escaped_is_an_error_that_shows_none_of_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_BROKER_URL", url)
    with pytest.raises(SettingsError, match="%2F") as caught:
        Settings.from_environment()
    assert "cret" not in str(caught.value)
    assert "'se'" not in str(caught.value)
