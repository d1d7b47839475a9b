"""Addresses and secrets of sources, folders, and file systems of fsspec."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shoal import Engine
from shoal.errors import InvalidFieldError, QueryError, SourceError
from shoal.models.rights import Rights
from shoal.models.sources import RunStatus
from shoal.sources.arguments import check_every, secret_of
from shoal.sources.file_systems import OnlyKnownKeys
from shoal.sources.stores import checked_url

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("Lava rose in the volcano.")
    (folder / "sub" / "b.md").write_text("# Sea\n\nThe whale swims in the sea.")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


def test_a_folder_is_followed_without_its_links(engine: Engine, texts: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("The judge read the law.")
    (texts / "link.txt").symlink_to(outside)
    engine.sources.add("texts", str(texts), tags=["sea"])
    run = engine.sources.run("texts")
    assert (run.status, run.n_new, run.n_skipped) == (RunStatus.succeeded, 2, 2)
    paths = {(each.source_path, each.tags) for each in engine.documents.list().documents}
    assert paths == {(f"{texts}/a.txt", ("sea",)), (f"{texts}/sub/b.md", ("sea",))}


def test_rights_of_a_folder_reach_stored_documents(engine: Engine, texts: Path) -> None:
    engine.sources.add("texts", str(texts))
    engine.sources.run("texts")
    (texts / ".shoal-access").write_text("allow group:sea\n")
    run = engine.sources.run("texts")
    assert run.n_changed == 0
    rights = {each.rights for each in engine.documents.list().documents}
    assert rights == {Rights(("group:sea",), ())}


def test_a_folder_that_is_gone_removes_nothing(engine: Engine, texts: Path) -> None:
    engine.sources.add("texts", str(texts))
    engine.sources.run("texts")
    texts.rename(texts.with_name("elsewhere"))
    with pytest.raises(SourceError, match="is it mounted"):
        engine.sources.run("texts")
    assert engine.documents.list().total == 2


def test_a_file_system_is_followed_folder_by_folder(engine: Engine) -> None:
    files = fsspec.filesystem("memory")
    files.store.clear()
    files.pipe("/trial/a.txt", b"Lava rose in the volcano.")
    files.pipe("/trial/deep/er/b.txt", b"The whale swims in the sea.")
    files.pipe("/trial/deep/.hidden.txt", b"The judge read the law.")
    files.pipe("/trials/c.txt", b"The bee finds nectar.")
    engine.sources.add("trial", "memory://trial", exclude=["*.md"])
    run = engine.sources.run("trial")
    assert (run.status, run.n_new, run.n_skipped) == (RunStatus.succeeded, 2, 1)
    files.pipe("/trial/a.txt", b"Lava sank in the volcano.")
    files.rm("/trial/deep/er/b.txt")
    run = engine.sources.run("trial")
    assert (run.n_changed, run.n_removed) == (1, 1)
    paths = [each.source_path for each in engine.documents.list().documents]
    assert paths == ["memory://trial/a.txt"]


def test_only_allowed_addresses_are_followed(engine: Engine, texts: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (texts / "out").symlink_to(secret)
    for url in (
        str(secret),
        f"{texts}/../secret",
        f"{texts}/out",
        f"{texts}2",
        "s3://reports2",
        "s3://other",
    ):
        with pytest.raises(InvalidFieldError, match="is none of the addresses in SHOAL_SOURCES"):
            engine.sources.add("bad", url)
    with pytest.raises(InvalidFieldError, match="none of the addresses in SHOAL_SOURCES"):
        engine.sources.add("bad", "s3://reports", options={"endpoint_url": "http://169.254.169.254"})


@pytest.mark.parametrize(
    "url",
    [
        "",
        "texts",
        "ftp://host/x",
        "s3://key:secret@bucket",
        "s3:///x",
        "file://host/x",
        "s3://a/../b",
        "s3://a?b",
        7,
    ],
)
def test_bad_addresses_are_refused(url: Any) -> None:
    with pytest.raises(InvalidFieldError):
        checked_url(url)


def test_only_servers_with_known_keys_are_trusted() -> None:
    key = SimpleNamespace(fingerprint="SHA256:right")
    OnlyKnownKeys("SHA256:right").missing_host_key(None, "host", key)
    for given in (None, "SHA256:other"):
        with pytest.raises(SourceError, match="SHA256:right") as caught:
            OnlyKnownKeys(given).missing_host_key(None, "host", key)
        assert not caught.value.is_temporary


def test_secrets_are_references_and_never_values(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (
        "AKIA12345",
        "env:PATH",
        "env:HOME",
        "file:../x",
        "file:/etc/passwd",
        "file:..",
        "keyring:x",
    ):
        with pytest.raises(QueryError, match="where the secret is"):
            engine.sources.add("bad", "s3://reports", secrets={"key": value})
    added = engine.sources.add("reports", "s3://reports", secrets={"key": "env:SOURCE_SECRET_KEY"})
    assert added.secrets == {"key": "env:SOURCE_SECRET_KEY"}
    with pytest.raises(SourceError, match="SOURCE_SECRET_KEY is not set"):
        secret_of("env:SOURCE_SECRET_KEY", engine.settings)
    monkeypatch.setenv("SOURCE_SECRET_KEY", "the-key")
    assert secret_of("env:SOURCE_SECRET_KEY", engine.settings) == "the-key"
    (tmp_path / "secrets" / "s3").write_text("from-a-file\n")
    assert secret_of("file:s3", engine.settings) == "from-a-file"
    (tmp_path / "secrets" / "out").symlink_to("/etc/hostname")
    with pytest.raises(SourceError, match="cannot be read"):
        secret_of("file:out", engine.settings)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15 min", 900.0), ("every 2 hours", 7200.0), ("1d", 86_400.0), ("week", 604_800.0), ("", None)],
)
def test_times_between_runs(text: str, seconds: float | None) -> None:
    assert check_every(text) == seconds


@pytest.mark.parametrize("text", ["5 s", "soon", "15", "-1 h", "9999999 d", True])
def test_bad_times_are_refused(text: Any) -> None:
    with pytest.raises(QueryError, match="must be a time"):
        check_every(text)


def test_a_document_takes_the_rights_of_the_file_that_it_follows(engine: Engine, texts: Path) -> None:
    (texts / "board").mkdir()
    (texts / "public").mkdir()
    for folder, rule in (("board", "allow group:board\n"), ("public", "allow everyone\n")):
        (texts / folder / ".shoal-access").write_text(rule)
    (texts / "public" / "x.txt").write_text("The judge read the law.")
    engine.sources.add("texts", str(texts))
    engine.sources.run("texts")
    (texts / "board" / "x.txt").write_text("The judge read the law.")
    engine.sources.run("texts")
    (texts / "public" / "x.txt").unlink()
    engine.sources.run("texts")
    rights = {each.source_path: each.rights for each in engine.documents.list().documents}
    assert rights[f"{texts}/board/x.txt"] == Rights(("group:board",), ())


def test_names_that_cannot_be_stored_are_passed_over(engine: Engine, texts: Path) -> None:
    (texts / "a\x01.txt").write_text("The tide turns.")
    (texts / os.fsdecode(b"caf\xe9.txt")).write_text("The tide turns again.")
    engine.sources.add("texts", str(texts))
    run = engine.sources.run("texts")
    assert (run.status, run.n_new, run.n_skipped) == (RunStatus.succeeded, 2, 3)
