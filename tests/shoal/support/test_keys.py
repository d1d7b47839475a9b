"""API keys: their syntax, and that no output shows them."""

from __future__ import annotations

import dataclasses

import pytest

from shoal.errors import SettingsError
from shoal.settings import Settings, shown
from shoal.support import api_keys
from shoal.support.api_keys import Scope, find_key, hash_key, new_key, parse_keys

READ = "reader-0123456789abcdef"
WRITE = "writer-0123456789abcdef"


def test_the_scope_precedes_the_key_and_defaults_to_write() -> None:
    keys = parse_keys(f"read:{READ}, write:{WRITE} ,{WRITE}x")
    assert [key.scope for key in keys] == [Scope.read, Scope.write, Scope.write]
    assert [find_key(keys, presented) for presented in (READ, WRITE, f"{WRITE}x")] == list(keys)
    assert parse_keys("") == parse_keys("  ") == ()


def test_a_key_may_be_given_by_its_hash() -> None:
    (key,) = parse_keys(f"read:{hash_key(READ)}")
    assert find_key([key], READ) is key
    assert key == parse_keys(f"read:{READ}")[0]
    assert find_key([key], hash_key(READ)) is None, "the hash is not a key"


@pytest.mark.parametrize(
    "presented", ["", "reader", READ + " ", READ.upper(), f"read:{READ}", "\ud800", "é" * 20]
)
def test_find_key_returns_none_for_other_texts(presented: str) -> None:
    assert find_key(parse_keys(f"read:{READ}"), presented) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("short", "key 1 must have 16 to 256 characters"),
        (f"{READ},", "key 2 must have"),
        (f"{READ},,{WRITE}", "key 2 must have"),
        ("x" * 257, "key 1 must have"),
        (f"root:{READ}", "key 1 may contain only letters"),
        ("with a blank 0123456789", "key 1 may contain only letters"),
        ("ключ-ключ-ключ-ключ", "key 1 may contain only letters"),
        ("sha256:abc", "key 1 is not the SHA-256"),
        (f"{READ},write:{READ}", "key 2 is a duplicate"),
        (f"{READ},{hash_key(READ)}", "key 2 is a duplicate"),
    ],
)
def test_an_invalid_key_is_reported_by_position_and_not_shown(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_API_KEYS", text)
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment()
    assert f"SHOAL_API_KEYS: {message}" in str(caught.value)
    assert READ not in str(caught.value)
    assert "ключ" not in str(caught.value)


def test_new_keys_are_valid_and_distinct() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert len(parse_keys(",".join(sorted(keys)))) == 100
    assert all(key.startswith(api_keys.PREFIX) for key in keys)


def test_settings_do_not_show_their_secrets() -> None:
    settings = Settings(api_keys=READ, api_key=WRITE)
    assert READ not in repr(settings)
    assert WRITE not in repr(settings)
    assert READ not in repr(parse_keys(READ))
    assert shown("SHOAL_API_KEYS", READ) == "(hidden)"
    assert shown("SHOAL_API_KEYS", "") == ""
    assert shown("SHOAL_BROKER_URL", "redis://:pa:ss@host:6379/0") == "redis://:***@host:6379/0"
    assert shown("SHOAL_BROKER_URL", "redis://host:6379/0") == "redis://host:6379/0"
    assert dataclasses.asdict(settings)["api_keys"] == READ, "child processes need the key"


def test_an_invalid_url_does_not_show_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_BROKER_URL", "ftp://me:secret@host")
    with pytest.raises(SettingsError) as caught:
        Settings.from_environment()
    assert "secret" not in str(caught.value)
    assert "ftp://me:***@host" in str(caught.value)
