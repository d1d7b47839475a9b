"""The environment of a session is read from files, bounded, and never fails."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidFieldError
from shoal.notes import environment_tags
from shoal.notes.environment import Environment, checked_tags, detect
from shoal.notes.environment_tags import MANIFESTS, tags_of_manifest

ORIGIN = '[core]\n\tbare = false\n[remote "origin"]\n\turl = {}\n\tfetch = +refs/heads/*\n'


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The project of 002: ~/work/acme/app-repo."""
    return write(
        tmp_path / "work" / "acme" / "app-repo",
        {
            ".git/config": ORIGIN.format("git@github.com:Acme/app-repo.git"),
            "package.json": json.dumps(
                {"dependencies": {"react": "^18"}, "devDependencies": {"tailwindcss": "3", "jest": "29"}}
            ),
            "tsconfig.json": "{}",
            "Dockerfile": "FROM scratch",
            "packages/web/src/index.ts": "",
        },
    )


def test_example_of_the_document(app: Path) -> None:
    environment = detect(app, ["tickets", "browser"])
    assert environment == Environment(
        os=platform.system().lower(),
        repo="app-repo",
        cwd=str(app),
        mcp_servers=("browser", "tickets"),
        tags=(
            *("acme", "docker", "frontend", "github", "jest", "monorepo", "nodejs", "react", "tailwind"),
            *("testing", "typescript"),
        ),
    )


def test_a_folder_inside_has_the_tags_of_the_repository_and_its_own(app: Path) -> None:
    write(app, {"packages/api/pyproject.toml": '[project]\ndependencies = ["fastapi>=0.1"]\n'})
    environment = detect(app / "packages" / "api")
    assert environment.repo == "app-repo"
    assert {"acme", "github", "react", "fastapi", "backend", "python"} <= set(environment.tags)
    assert "fastapi" not in detect(app / "packages" / "web").tags


@pytest.mark.parametrize(
    ("address", "repo", "tags"),
    [
        ("git@github.com:acme/app.git", "app", ("acme", "github")),
        ("https://user:secret@github.com/Acme/app.git", "app", ("acme", "github")),
        ("ssh://git@gitlab.acme.com:2222/group/sub/app", "app", ("gitlab", "group")),
        ("https://git.example.org/app", "app", ()),
        ("/srv/git/app.git", "app", ()),
        ("../app/", "app", ()),
        ("C:\\\\git\\\\app.git", "app", ()),
        ('"https://bitbucket.org/team/app.git"', "app", ("bitbucket", "team")),
        ("..", "folder", ()),
    ],
)
def test_repository_and_tags_of_a_remote(
    tmp_path: Path, address: str, repo: str, tags: tuple[str, ...]
) -> None:
    folder = write(tmp_path / "folder", {".git/config": ORIGIN.format(address)})
    environment = detect(folder)
    assert (environment.repo, environment.tags) == (repo, tags)
    assert "secret" not in str(environment)


def test_origin_names_the_repository_among_several_remotes(tmp_path: Path) -> None:
    config = '[remote "fork"]\nurl = https://github.com/ann/fork\n' + ORIGIN.format(
        "https://github.com/acme/app"
    )
    environment = detect(write(tmp_path, {".git/config": config}))
    assert environment.repo == "app"
    assert {"ann", "acme"} <= set(environment.tags)


def test_worktrees_and_submodules_have_the_remotes_of_their_repository(app: Path, tmp_path: Path) -> None:
    write(app, {".git/worktrees/fix/commondir": "../..\n"})
    write(app, {".git/modules/lib/config": ORIGIN.format("https://gitlab.com/other/lib.git")})
    write(app, {"lib/.git": "gitdir: ../.git/modules/lib\n"})
    worktree = write(tmp_path / "fix", {".git": f"gitdir: {app}/.git/worktrees/fix\n"})
    assert detect(worktree).repo == "app-repo"
    assert "acme" in detect(worktree).tags
    assert detect(app / "lib").repo == "lib"
    assert {"gitlab", "other"} <= set(detect(app / "lib").tags)


def test_a_repository_without_remotes_is_named_after_its_main_folder(tmp_path: Path) -> None:
    main = write(
        tmp_path / "main-name", {".git/config": "[core]\n", ".git/worktrees/fix/commondir": "../..\n"}
    )
    worktree = write(tmp_path / "fix", {".git": f"gitdir: {main}/.git/worktrees/fix"})
    assert detect(main).repo == detect(worktree).repo == "main-name"
    assert detect(tmp_path / "plain").repo == "plain"


def test_path_tags_of_the_settings_and_of_owner_folders(tmp_path: Path) -> None:
    folder = write(tmp_path / "clients" / "globex" / "site", {".git/config": ""})
    assert detect(folder).tags == ("globex",)
    assert detect(folder, path_tags=[("clients/*/site", "Web Shop"), ("/elsewhere", "no")]).tags == (
        "globex",
        "web shop",
    )


@pytest.mark.parametrize(
    ("name", "text", "tags"),
    [
        ("package.json", '{"peerDependencies": {"vue": "3"}}', ["frontend", "vue"]),
        ("pyproject.toml", '[tool.poetry.dependencies]\ndjango = "^4"', ["backend", "django"]),
        ("pyproject.toml", '[dependency-groups]\ndev = ["pytest", {include-group = "x"}]', ["pytest", "testing"]),
        ("pyproject.toml", '[project.optional-dependencies]\ntest = ["pytest"]\nencoder = ["torch"]', ["pytest", "testing"]),
        ("requirements.txt", "# all\n-r x.txt\nFlask==3.0 ; python_version > '3'\nscikit_learn", ["backend", "flask", "machine-learning", "scikit-learn"]),
        ("pipfile", '[packages]\nredis = "*"', ["redis"]),
        ("cargo.toml", '[dependencies]\ntokio = {version = "1"}', ["async", "tokio"]),
        ("go.mod", "module x\nrequire (\n\tgithub.com/gofiber/fiber/v2 v2.1.0\n)", ["backend", "fiber"]),
        ("gemfile", "source 'x'\ngem 'rails', '~> 7'\n  gem(\"rspec\")", ["backend", "rails", "rspec", "testing"]),
        ("pom.xml", "<dependency><artifactId>junit-jupiter</artifactId></dependency>", ["junit", "testing"]),
        ("build.gradle.kts", 'implementation("io.ktor:ktor-server-core:2.0")', ["backend", "ktor"]),
        ("composer.json", '{"require": {"laravel/framework": "^10"}}', ["backend", "laravel"]),
        ("pubspec.yaml", "dependencies:\n  flutter:\n    sdk: flutter\n", ["flutter", "mobile"]),
    ],
)  # fmt: skip
def test_dependencies_of_each_kind_of_file(name: str, text: str, tags: list[str]) -> None:
    assert tags_of_manifest(name, text) == tags


@given(st.sampled_from(sorted(MANIFESTS)), st.text() | st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(
        ["dependencies", "require", "project", "tool", "poetry", "group"]) | st.text(max_size=3), inner),
).map(json.dumps))  # fmt: skip
def test_broken_files_declare_nothing_and_do_not_fail(name: str, text: str) -> None:
    assert isinstance(tags_of_manifest(name, text), list)


@pytest.mark.parametrize("name", sorted(MANIFESTS))
@pytest.mark.parametrize(
    "unit", ["[", "{", '{"a":', "a.", "\n [", " ", "gem ", "a/", "<artifactId>", "'a:", "\x00"]
)
def test_hostile_files_are_ignored(name: str, unit: str) -> None:
    assert tags_of_manifest(name, unit * (environment_tags.MAX_MANIFEST_BYTES // len(unit))) == []


def test_links_large_files_and_pipes_are_not_read(tmp_path: Path) -> None:
    package = json.dumps({"dependencies": {"react": "1"}})
    outside = write(
        tmp_path / "outside", {"package.json": package, "config": ORIGIN.format("https://github.com/a/b")}
    )
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "package.json").symlink_to(outside / "package.json")
    (folder / ".git").symlink_to(outside)
    (folder / "packages").symlink_to(outside)
    os.mkfifo(folder / "go.mod")
    (folder / "composer.json").write_text(package + " " * environment_tags.MAX_MANIFEST_BYTES)
    assert detect(folder).tags == ("go", "nodejs", "php")
    assert detect(folder).repo == "project"


def test_a_folder_of_many_files_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(50):
        (tmp_path / f"file{i}").touch()
    monkeypatch.setattr(environment_tags, "MAX_ENTRIES", 10)
    opened = []
    is_dir = Path.is_dir
    monkeypatch.setattr(Path, "is_dir", lambda path: opened.append(path) or is_dir(path))
    assert len(environment_tags._names(tmp_path)) == 10
    detect(tmp_path)
    assert len(opened) <= len(tmp_path.parts) + len(environment_tags.FOLDER_TAGS)


def test_a_deep_folder_reads_its_nearest_parents_and_the_root(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"abcdefghij")
    folders = environment_tags._read_folders(deep, tmp_path)
    assert len(folders) == environment_tags.MAX_FOLDERS
    assert (folders[0], folders[-1]) == (deep, tmp_path)


@pytest.mark.parametrize("path", ["missing/folder", "a\0b", "x" * 5000, "file", "/"])
def test_a_folder_that_cannot_be_read_has_no_tags(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    environment = detect(tmp_path / path)
    assert environment.os == platform.system().lower()
    assert Environment.from_json(environment.as_json()) == environment


def test_a_git_file_that_leads_to_itself_or_nowhere_is_ignored(tmp_path: Path) -> None:
    for text in ("gitdir: .", "gitdir: .git", "gitdir:", "", "gitdir: /dev", "gitdir: \0", "\xff" * 9000):
        (tmp_path / ".git").write_text(text)
        assert detect(tmp_path).repo == tmp_path.name


def test_names_of_hostile_folders_keep_no_control_characters(tmp_path: Path) -> None:
    folder = write(tmp_path / "work" / "a\x1b[31m\nb" / "re\x07po", {".git/config": ""})
    environment = detect(folder, ["se\x1brver"])
    assert Environment.from_json(environment.as_json()) == environment
    assert environment.tags == ("a [31m b",)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=120), max_size=60))
def test_checked_tags_are_stable(tags: list[str]) -> None:
    try:
        checked = checked_tags(tags)
    except InvalidFieldError:
        return
    assert checked_tags(list(checked)) == checked
    assert len(set(checked)) == len(checked) <= 50


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "environment: must be an object"),
        ({"home": "x"}, "'home' is not one of"),
        ({"os": 1}, "environment.os: must be a text"),
        ({"cwd": "/" * 5000}, "environment.cwd: has 5,000 characters"),
        ({"repo": "a\x00"}, "environment.repo: must not contain control characters"),
        ({"tags": [str(i) for i in range(51)]}, "environment.tags: has 51 values; the limit is 50"),
        ({"mcp_servers": 3}, "environment.mcp_servers: must be a list"),
    ],
)
def test_wrong_environments_are_refused_by_name(value: object, message: str) -> None:
    with pytest.raises(InvalidFieldError, match=message):
        Environment.from_json(value)


def test_missing_fields_of_an_environment_are_unknown() -> None:
    assert Environment.from_json({}) == Environment()
    assert Environment.from_json({"os": "macOS", "tags": ["React", "react "]}) == Environment(
        os="darwin", tags=("react",)
    )
