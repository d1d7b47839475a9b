"""Branches of Git repositories as sources. The repositories are on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer
from scripted_store import stored

from shoal import Engine
from shoal.errors import InvalidFieldError, ObjectGoneError, SourceError
from shoal.models.sources import RunStatus
from shoal.settings import Settings
from shoal.sources import git_repositories
from shoal.sources.stores import Place, checked_url, open_store

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

FIRST = {
    "a.txt": "Lava rose in the volcano.",
    "docs/b.md": "# Sea\n\nThe whale swims in the sea.",
    "docs/deep/c.txt": "The bee finds nectar in a flower.",
}


class Repository:
    """A repository with one branch, `main`, that a test commits to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"git+file://{path}"
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(path))

    def git(self, *arguments: str, given: bytes = b"") -> str:
        names = {f"GIT_{who}_{what}": f"{what.lower()}@example.org" for who in ("AUTHOR", "COMMITTER")
                 for what in ("NAME", "EMAIL")}  # fmt: skip
        command = ["git", f"--git-dir={self.path}", *arguments]
        environment = {"PATH": os.environ["PATH"], "GIT_COMMITTER_DATE": "1700000000 +0000", **names}
        answer = subprocess.run(command, input=given, env=environment, check=True, capture_output=True)
        return answer.stdout.decode().strip()

    def commit(self, files: dict[str, str], branch: str = "main", modes: dict[str, str] | None = None) -> str:
        """Commit a tree with these files and nothing else."""
        lines = [f"commit refs/heads/{branch}", "committer T <t@example.org> 1700000000 +0000", "data 0"]
        lines.append("deleteall")
        for name, text in files.items():
            mode = (modes or {}).get(name, "100644")
            if mode == "160000":
                lines.append(f"M {mode} {text} {name}")
            else:
                lines += [f"M {mode} inline {name}", f"data {len(text.encode())}", text]
        self.git("fast-import", "--quiet", "--force", given="\n".join([*lines, ""]).encode())
        return self.git("rev-parse", branch)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "texts" / "repository.git")
    made.commit(FIRST)
    return made


@pytest.fixture
def engine(settings: Settings, migrated_file: Path, tmp_path: Path) -> Iterator[Engine]:
    put_empty_library(migrated_file, settings)
    allowed = f"git+file://{tmp_path}/texts git+https://127.0.0.1"
    with Engine(settings=dataclasses.replace(settings, sources=allowed), scorer=FakeScorer()) as opened:
        yield opened


def paths(repository: Repository, files: dict[str, str]) -> dict[str, str]:
    return {f"{repository.url}//{name}": text for name, text in files.items()}


def test_a_branch_is_followed_and_cites_its_commit(engine: Engine, repository: Repository) -> None:
    first = repository.git("rev-parse", "main")
    engine.sources.add("texts", repository.url)
    assert [each.title for each in engine.sources.preview("texts").first] == ["A", "B", "C"]
    run = engine.sources.run("texts")
    assert (run.status, run.n_new) == (RunStatus.succeeded, 3)
    assert stored(engine) == paths(repository, FIRST)
    assert engine.documents.list().documents[0].metadata == {
        "commit": first, "committed_at": "2023-11-14T22:13:20.000Z",
    }  # fmt: skip
    changed = {**FIRST, "a.txt": "Lava sank in the volcano."}
    second = repository.commit(changed)
    run = engine.sources.run("texts")
    assert (run.n_changed, run.n_bytes) == (1, len(changed["a.txt"]))
    assert stored(engine) == paths(repository, changed)
    commits = {
        str(each.source_path)[-5:]: each.metadata["commit"] for each in engine.documents.list().documents
    }
    assert commits == {"a.txt": second, "/b.md": first, "c.txt": first}


def test_another_history_and_moved_files_keep_documents(engine: Engine, repository: Repository) -> None:
    engine.sources.add("texts", repository.url)
    engine.sources.run("texts")
    ids = {engine.documents.content(each.id): each.id for each in engine.documents.list().documents}
    repository.git("update-ref", "-d", "refs/heads/main")
    moved = {name.replace("docs/", "texts/"): text for name, text in FIRST.items()}
    repository.commit(moved)
    run = engine.sources.run("texts")
    assert (run.n_moved, run.n_new, run.n_changed, run.n_removed) == (2, 0, 0, 0)
    assert stored(engine) == paths(repository, moved)
    assert {engine.documents.content(each.id): each.id for each in engine.documents.list().documents} == ids


def test_an_unchanged_branch_is_not_read(
    engine: Engine, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.sources.add("texts", repository.url)
    engine.sources.run("texts")
    n_jobs = len(engine.jobs.list())
    monkeypatch.setattr(git_repositories, "_Reader", None)
    run = engine.sources.run("texts")
    assert (run.status, run.n_bytes, len(engine.jobs.list())) == (RunStatus.succeeded, 0, n_jobs)


def test_folders_and_branches_have_documents_of_their_own(engine: Engine, repository: Repository) -> None:
    repository.commit({"docs/b.md": "The whale sleeps.", "docs/x.pdf": "%PDF-1.7 nothing"}, branch="next/1")
    engine.sources.add("docs", f"{repository.url}//docs/")
    engine.sources.add("next", f"{repository.url}//docs", options={"branch": "next/1"})
    engine.sources.run("docs")
    engine.sources.run("next")
    assert stored(engine) == {
        f"{repository.url}//docs/b.md": FIRST["docs/b.md"],
        f"{repository.url}//docs/deep/c.txt": FIRST["docs/deep/c.txt"],
        f"{repository.url}@next/1//docs/b.md": "The whale sleeps.",
    }
    found, broken = engine.sources.objects("next").objects
    assert found.document_id is not None
    assert broken.error is not None
    assert engine.sources.remove("next", with_documents=True) == 1


def test_links_submodules_and_references_to_large_files_are_not_texts(
    engine: Engine, repository: Repository
) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n"
    special = {"link.txt": "/etc/passwd", "module": "1" * 40, ".hidden.txt": "Hidden.", "large.txt": pointer}
    modes = {"link.txt": "120000", "module": "160000"}
    repository.commit({**FIRST, **special}, modes=modes)
    engine.sources.add("texts", repository.url, exclude=["docs/deep"])
    run = engine.sources.run("texts")
    assert (run.n_new, run.n_skipped, run.n_failed) == (2, 4, 1)
    (failed,) = engine.sources.objects("texts", only_errors=True).objects
    assert (failed.name, "Git LFS" in str(failed.error)) == ("large.txt", True)
    assert engine.sources.run("texts").n_failed == 0, "it is read again when it changes"


def test_a_listing_goes_on_in_the_same_commit(
    engine: Engine, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_repositories, "PAGE_OBJECTS", 1)
    store = open_store(Place(repository.url), engine.settings)
    pages = [store.list(None)]
    repository.commit({"z.txt": "The tide."})
    while pages[-1].place is not None:
        pages.append(open_store(Place(repository.url), engine.settings).list(pages[-1].place))
    assert [each.name for page in pages for each in page.objects] == sorted(FIRST)


def test_a_copy_that_is_lost_or_damaged_is_fetched_again(engine: Engine, repository: Repository) -> None:
    def read(name: str) -> bytes:
        with contextlib.closing(open_store(Place(repository.url), engine.settings)) as store:
            return store.read(name, 100)

    def damage(pattern: str) -> None:
        (copy,) = (engine.settings.data_path / "sources").glob("*.git")
        for path in (copy / "objects").glob(pattern):
            if path.is_file():
                path.chmod(0o600)
                path.write_bytes(b"damaged")

    assert read("a.txt") == FIRST["a.txt"].encode()
    damage("**/*")
    assert read("a.txt") == FIRST["a.txt"].encode()
    blob = repository.git("rev-parse", "main:a.txt")
    damage(f"{blob[:2]}/{blob[2:]}")
    with pytest.raises(SourceError, match="it is fetched again") as failure:
        read("a.txt")
    assert failure.value.is_temporary
    assert read("a.txt") == FIRST["a.txt"].encode()
    with pytest.raises(ObjectGoneError):
        read("b.txt")


def test_what_a_killed_fetch_leaves_does_not_stop_the_next(engine: Engine, repository: Repository) -> None:
    engine.sources.add("texts", repository.url)
    engine.sources.run("texts")
    (copy,) = (engine.settings.data_path / "sources").glob("*.git")
    for left in ("shallow.lock", "refs/shoal/followed.lock", "objects/pack/tmp_pack_abc"):
        (copy / left).touch()
    repository.commit({**FIRST, "d.txt": "The tide."})
    assert engine.sources.run("texts").n_new == 1
    assert not (copy / "objects/pack/tmp_pack_abc").exists()


def test_one_process_fetches_at_a_time(
    engine: Engine, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_repositories, "LOCK_SECONDS", 0.0)
    store = open_store(Place(repository.url), engine.settings)
    store.list(None)
    (copy,) = (engine.settings.data_path / "sources").glob("*.git")
    with git_repositories._locked(copy), pytest.raises(SourceError, match="another process fetches"):
        store.list(None)


def test_copies_that_nothing_uses_any_more_are_removed(engine: Engine, repository: Repository) -> None:
    folder = engine.settings.data_path / "sources"
    (folder / "old.git").mkdir(parents=True)
    os.utime(folder / "old.git", (0, 0))
    open_store(Place(repository.url), engine.settings).list(None)
    assert len(list(folder.glob("*.git"))) == 1
    assert not (folder / "old.git").exists()


def test_limits_end_a_fetch(engine: Engine, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(Place(repository.url), engine.settings)
    monkeypatch.setattr(git_repositories, "FETCH_SECONDS", -1.0)
    with pytest.raises(SourceError, match="could not be fetched in"):
        store.list(None)
    assert not list((engine.settings.data_path / "sources").glob("*.git"))


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("/nothing.git", {}, "does not appear to be a git repository|not found|not exist"),
        ("", {"branch": "missing"}, "has no branch missing"),
        ("//missing", {}, "has no folder 'missing'"),
    ],
)
def test_wrong_addresses_fail_at_once(
    engine: Engine, repository: Repository, path: str, options: dict[str, str], message: str
) -> None:
    store = open_store(Place(f"{repository.url}{path}", options), engine.settings)
    with pytest.raises(SourceError, match=message) as failure:
        store.list(None)
    assert not failure.value.is_temporary


@pytest.mark.parametrize(
    ("output", "message", "is_temporary"),
    [
        (
            "fatal: could not read Username for 'https://h': terminal prompts disabled",
            "the secret token",
            False,
        ),
        ("git@h: Permission denied (publickey).\nfatal: Could not read from remote", "publickey", False),
        ("remote: \x1b[31mred\nfatal: the remote end hung up", "^fatal: the remote end hung up$", True),
        ("", "git fetch failed", True),
    ],
)
def test_failures_of_git_are_told_in_a_line(output: str, message: str, is_temporary: bool) -> None:
    failure = git_repositories._fetch_error(output, "+HEAD:x")
    assert re.search(message, str(failure))
    assert failure.is_temporary is is_temporary


def test_a_machine_without_git_says_so(
    engine: Engine, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceError, match="need the program git, which is not installed"):
        open_store(Place(repository.url), engine.settings).list(None)


@pytest.mark.parametrize(
    "url",
    ["git+file://host/x.git", "git+https:///x.git", "git+file:///srv/../x.git", "git+https://h/%2e%2e/x.git",
     "git+ext://sh/x", "git+http://host/x.git", "git+https://user:secret@host/x.git"],
)  # fmt: skip
def test_addresses_that_git_must_not_get_are_refused(url: str) -> None:
    with pytest.raises(InvalidFieldError):
        checked_url(url)


@pytest.mark.parametrize("branch", ["a:b", "a b", "*", "a~1", "^a", "a\\b", "a" * 251])
def test_names_that_no_branch_has_are_refused(engine: Engine, repository: Repository, branch: str) -> None:
    with pytest.raises(InvalidFieldError, match="branch"):
        open_store(Place(repository.url, {"branch": branch}), engine.settings)


def test_a_link_leads_to_no_other_repository(engine: Engine, repository: Repository, tmp_path: Path) -> None:
    Repository(tmp_path / "other.git")
    (tmp_path / "texts" / "link.git").symlink_to(tmp_path / "other.git")
    with pytest.raises(InvalidFieldError, match="none of the addresses in SHOAL_SOURCES"):
        engine.sources.add("other", f"git+file://{tmp_path}/texts/link.git//docs")


def test_a_token_stands_in_no_argument(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[Any, Any]] = []

    def recorded(command: list[str], **options: Any) -> None:
        started.append((command, options["env"]))
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "Popen", recorded)
    monkeypatch.setenv("GIT_TRACE_CURL", "1")
    place = Place("git+https://127.0.0.1/x.git", secrets={"token": "the-token"})
    with pytest.raises(SourceError):
        open_store(place, engine.settings).list(None)
    ((command, environment),) = started
    assert "the-token" not in repr(place)
    encoded = "eC1hY2Nlc3MtdG9rZW46dGhlLXRva2Vu"
    assert encoded not in " ".join(command)
    names = [name for name, value in environment.items() if encoded in value]
    (key,) = [environment[name.replace("VALUE", "KEY")] for name in names]
    assert key == "http.https://127.0.0.1/.extraHeader"
    assert environment["GIT_ALLOW_PROTOCOL"] == "https"
    assert "GIT_TRACE_CURL" not in environment


def test_a_copy_that_is_behind_the_listing_is_fetched_again(
    repository: Repository, engine: Engine, tmp_path: Path
) -> None:
    behind = dataclasses.replace(engine.settings, data_dir=str(tmp_path / "elsewhere"))
    place = Place(repository.url)
    open_store(place, behind).list(None)
    repository.commit({**FIRST, "a.txt": "Lava sank.", "new.txt": "The tide turns."})
    versions = {each.name: each.version for each in open_store(place, engine.settings).list(None).objects}
    reader = open_store(place, behind)
    reader.expect(versions)
    assert reader.read("a.txt", 1_000) == b"Lava sank."
    assert reader.read("new.txt", 1_000) == b"The tide turns."
    reader.expect({"a.txt": "0" * 40})
    with pytest.raises(ObjectGoneError, match="has changed since it was listed"):
        reader.read("a.txt", 1_000)
    reader.close()
