"""`shoal key …` on the command line."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.access.key_store import KeyStore
from shoal.cli.app import run
from shoal.collections.catalog import Catalog
from shoal.errors import SettingsError
from shoal.service.addresses import check_listen_address
from shoal.settings import Settings

Shoal = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shoal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Shoal:
    """Run a command for a library of its own, which need not exist yet."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["--db", str(tmp_path / "shoal.db"), *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def only(shoal: Shoal, *arguments: str) -> dict[str, Any]:
    code, out, err = shoal("--json", *arguments)
    assert (code, err) == (0, "")
    value: dict[str, Any] = json.loads(out)
    return value


def test_the_life_of_a_key(shoal: Shoal, tmp_path: Path) -> None:
    assert shoal("key", "list")[1].startswith("there are no keys")
    scopes = ["--scope", "main:write", "--scope", "*:read"]
    code, out, _ = shoal("key", "create", "web", *scopes, "--owner", "ann", "--expires", "90d", "--rate", "5")
    assert code == 0
    key = re.findall(r"^key: (shoal_[0-9a-f]{48})$", out, re.MULTILINE)[0]
    _, listed, _ = shoal("key", "list", "--active")
    assert key not in listed
    for part in ("web", "active", "main:write, *:read", "owners ann", "5 requests a second", "never used"):
        assert part in listed
    catalog = Catalog(Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}"))
    found = KeyStore(catalog).find(key)
    assert found is not None
    assert f"; fingerprint {hashlib.sha256(key.encode()).hexdigest()[:8]};" in listed
    rotated = only(shoal, "key", "rotate", found.id, "--grace", "1h")
    assert rotated["key"] != key
    assert only(shoal, "key", "revoke", rotated["details"]["id"])["state"] == "revoked"
    page = only(shoal, "key", "list", "--limit", "1")
    assert (page["total"], len(page["keys"])) == (2, 1)
    catalog.close()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["create", "web"], 2, "--scope"),
        (["create", "web", "--scope", "main"], 2, "COLLECTION:RIGHT"),
        (["create", "web", "--scope", "main:root"], 2, "--scope: 'root' is not a right"),
        (["create", "web", "--scope", "main:"], 2, "write COLLECTION:RIGHT"),
        (["create", "web", "--scope", "nope:read"], 2, "--scope: there is no collection 'nope'"),
        (["create", "", "--scope", "main:read"], 2, "NAME: must be"),
        (["create", "web", "--scope", "main:read", "--expires", "soon"], 2, "90d"),
        (["create", "web", "--scope", "main:read", "--expires", "2001-01-31"], 2, "--expires: must be in"),
        (["create", "web", "--scope", "main:read", "--expires", "999999999w"], 2, "hundred years"),
        (["create", "web", "--scope", "main:read", "--rate", "5e-324"], 2, "--rate: must be from 0.001 to"),
        (["create", "web", "--scope", "main:read", "--rate", "x"], 2, "'x' is not a number"),
        (["revoke", "nope"], 1, "no key with the id 'nope'"),
        (["rotate", "nope"], 1, "no key with the id 'nope'"),
        (["rotate", "nope", "--grace", "1y"], 2, "90d"),
    ],
)
def test_mistakes_are_explained(shoal: Shoal, arguments: list[str], code: int, message: str) -> None:
    assert shoal("key", *arguments)[0] == code
    answer = shoal("key", *arguments)
    assert answer[0] == code
    assert message in answer[2]
    assert only(shoal, "key", "list")["total"] == 0


def test_a_service_with_a_key_in_the_catalog_may_listen_anywhere(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="shoal key create"):
        check_listen_address(Settings(host="0.0.0.0"))
    check_listen_address(Settings(host="0.0.0.0"), has_keys=True)
