"""Tags of an environment, from its path, its marker files and folders, and its dependencies.

The tables are data: an entry is a name and the tags that it stands for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from pathlib import Path

from shoal.errors import DocumentError
from shoal.notes import dependencies
from shoal.support.patterns import matches
from shoal.support.regular_files import read_file

MAX_ENTRIES = 2000
"""Most entries that are read of one folder."""
MAX_FOLDERS = 6
"""Most folders that are read: the working directory, its parents, and the root of the repository."""
MAX_MANIFEST_BYTES = 64 * 1024

OWNER_FOLDERS = ("work", "clients", "customers", "orgs")
"""A repository in a folder below one of these gets that folder's name as a tag: ~/work/acme/app -> acme."""

PATH_TAGS: tuple[tuple[str, str], ...] = (
    ("~/work", "work"),
    ("~/personal", "personal"),
    ("~/oss", "open-source"),
    ("~/opensource", "open-source"),
)
"""Folder pattern -> tag."""

FILE_TAGS: dict[str, tuple[str, ...]] = {
    ".clang-format": ("cpp",),
    ".dockerignore": ("docker",),
    ".gitlab-ci.yml": ("gitlab-ci",),
    ".pre-commit-config.yaml": ("pre-commit",),
    ".rubocop.yml": ("ruby",),
    "angular.json": ("angular", "frontend"),
    "ansible.cfg": ("ansible",),
    "astro.config.mjs": ("astro", "frontend"),
    "azure-pipelines.yml": ("azure-pipelines",),
    "build.gradle": ("gradle", "jvm"),
    "build.gradle.kts": ("gradle", "jvm", "kotlin"),
    "build.sbt": ("jvm", "scala"),
    "build.zig": ("zig",),
    "bun.lock": ("bun", "nodejs"),
    "bun.lockb": ("bun", "nodejs"),
    "cargo.toml": ("rust",),
    "chart.yaml": ("helm", "kubernetes"),
    "cmakelists.txt": ("cmake", "cpp"),
    "compose.yaml": ("docker",),
    "compose.yml": ("docker",),
    "composer.json": ("php",),
    "conanfile.txt": ("cpp",),
    "cypress.config.js": ("cypress", "testing"),
    "cypress.config.ts": ("cypress", "testing"),
    "deno.json": ("deno",),
    "docker-compose.yaml": ("docker",),
    "docker-compose.yml": ("docker",),
    "dockerfile": ("docker",),
    "flake.nix": ("nix",),
    "gemfile": ("ruby",),
    "go.mod": ("go",),
    "go.work": ("go", "monorepo"),
    "gradlew": ("gradle", "jvm"),
    "jenkinsfile": ("jenkins",),
    "jest.config.js": ("jest", "testing"),
    "jest.config.ts": ("jest", "testing"),
    "justfile": ("just",),
    "lerna.json": ("monorepo",),
    "makefile": ("make",),
    "manage.py": ("django", "python", "backend"),
    "meson.build": ("meson", "cpp"),
    "mix.exs": ("elixir",),
    "mkdocs.yml": ("mkdocs", "documentation"),
    "next.config.js": ("nextjs", "react", "frontend"),
    "next.config.mjs": ("nextjs", "react", "frontend"),
    "next.config.ts": ("nextjs", "react", "frontend"),
    "nuxt.config.ts": ("nuxt", "vue", "frontend"),
    "nx.json": ("monorepo", "nx"),
    "package.json": ("nodejs",),
    "package.swift": ("swift",),
    "pipfile": ("python",),
    "playwright.config.js": ("playwright", "testing"),
    "playwright.config.ts": ("playwright", "testing"),
    "pnpm-lock.yaml": ("nodejs", "pnpm"),
    "pnpm-workspace.yaml": ("monorepo", "pnpm"),
    "podfile": ("ios",),
    "poetry.lock": ("poetry", "python"),
    "pom.xml": ("java", "jvm", "maven"),
    "pubspec.yaml": ("dart",),
    "pyproject.toml": ("python",),
    "pytest.ini": ("pytest", "python", "testing"),
    "requirements.txt": ("python",),
    "rush.json": ("monorepo",),
    "serverless.yml": ("serverless",),
    "setup.py": ("python",),
    "svelte.config.js": ("svelte", "frontend"),
    "tailwind.config.js": ("tailwind", "frontend"),
    "tailwind.config.ts": ("tailwind", "frontend"),
    "tox.ini": ("python", "testing"),
    "tsconfig.json": ("typescript",),
    "turbo.json": ("monorepo", "turborepo"),
    "uv.lock": ("python", "uv"),
    "vercel.json": ("vercel",),
    "vite.config.js": ("vite", "frontend"),
    "vite.config.ts": ("vite", "frontend"),
    "vitest.config.ts": ("testing", "vitest"),
    "yarn.lock": ("nodejs", "yarn"),
}
"""Name of a file in lower case -> tags."""

SUFFIX_TAGS: dict[str, tuple[str, ...]] = {
    ".cabal": ("haskell",),
    ".csproj": ("csharp", "dotnet"),
    ".fsproj": ("dotnet", "fsharp"),
    ".ipynb": ("jupyter", "python"),
    ".sln": ("dotnet",),
    ".tf": ("terraform",),
    ".xcodeproj": ("ios", "swift"),
}
"""Suffix of a file or folder in lower case -> tags."""

FOLDER_TAGS: dict[str, tuple[str, ...]] = {
    ".circleci": ("circleci",),
    ".github/workflows": ("github-actions",),
    ".storybook": ("frontend", "storybook"),
    "android": ("android",),
    "ansible": ("ansible",),
    "apps": ("monorepo",),
    "charts": ("helm", "kubernetes"),
    "components": ("frontend",),
    "cypress": ("cypress", "testing"),
    "helm": ("helm", "kubernetes"),
    "ios": ("ios",),
    "k8s": ("kubernetes",),
    "kubernetes": ("kubernetes",),
    "notebooks": ("jupyter",),
    "packages": ("monorepo",),
    "src/components": ("frontend",),
    "terraform": ("terraform",),
}
"""Folder below one of the read folders -> tags."""


def of_path(folder: Path, root: Path, path_tags: Iterable[tuple[str, str]]) -> list[str]:
    """Return the tags of the path of a folder in the repository at `root`."""
    path = folder.as_posix()
    tags = [tag for pattern, tag in (*path_tags, *PATH_TAGS) if matches(path, pattern)]
    owners = root.parts[1:-1]
    tags += [owner for above, owner in pairwise(owners) if above in OWNER_FOLDERS]
    return tags


def of_files(folder: Path, root: Path) -> list[str]:
    """Return the tags of files, dependencies and folders between a folder and the root of its repository."""
    tags: dict[str, None] = {}
    for read_folder in _read_folders(folder, root):
        tags.update(dict.fromkeys(_tags_of_folder(read_folder)))
    return list(tags)


def _read_folders(folder: Path, root: Path) -> list[Path]:
    """Return the folder, its nearest parents, and the root."""
    if not folder.is_relative_to(root):
        return [folder]
    inside = [folder, *(parent for parent in folder.parents if parent.is_relative_to(root))]
    return [*inside[: MAX_FOLDERS - 1], root] if len(inside) > MAX_FOLDERS else inside


def _tags_of_folder(folder: Path) -> Iterator[str]:
    names = _names(folder)
    for name in names:
        lower_name = name.lower()
        yield from FILE_TAGS.get(lower_name, ())
        yield from SUFFIX_TAGS.get(os.path.splitext(lower_name)[1], ())  # noqa: PTH122 - many names
        if lower_name in dependencies.MANIFESTS:
            yield from dependencies.tags_of_manifest(lower_name, _read(folder, name))
    for path, tags in FOLDER_TAGS.items():
        first = path.partition("/")[0]
        if first in names and _is_folder(folder / path):
            yield from tags


def _names(folder: Path) -> list[str]:
    """Return the sorted names in a folder. Of a folder with more than MAX_ENTRIES, some are left out."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, MAX_ENTRIES))
    except (OSError, ValueError):
        return []


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink() and not path.parent.is_symlink()
    except (OSError, ValueError):
        return False


def _read(folder: Path, name: str) -> str:
    """Return the text of a file; empty if it is a link, too large, or cannot be read."""
    try:
        return read_file(folder / name, MAX_MANIFEST_BYTES, folder).decode("utf-8", "replace")
    except (OSError, ValueError, DocumentError):
        return ""
