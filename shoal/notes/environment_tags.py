"""Tags of an environment, from its path, its marker files and folders, and its dependencies.

The tables are data: an entry is a name and the tags that it stands for.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from shoal.errors import DocumentError
from shoal.support.patterns import matches
from shoal.support.regular_files import read_file

FRONTEND_REACT = ("frontend", "react")

DEPENDENCY_TAGS: dict[str, tuple[str, ...]] = {
    # JavaScript and TypeScript
    "@angular/core": ("angular", "frontend"),
    "@nestjs/core": ("backend", "nestjs"),
    "@playwright/test": ("playwright", "testing"),
    "@prisma/client": ("database", "prisma"),
    "@storybook/react": (*FRONTEND_REACT, "storybook"),
    "@sveltejs/kit": ("frontend", "svelte"),
    "@testing-library/react": (*FRONTEND_REACT, "testing"),
    "astro": ("astro", "frontend"),
    "cypress": ("cypress", "testing"),
    "electron": ("desktop", "electron"),
    "eslint": ("eslint",),
    "express": ("backend", "express"),
    "fastify": ("backend", "fastify"),
    "graphql": ("graphql",),
    "jest": ("jest", "testing"),
    "mocha": ("mocha", "testing"),
    "mongoose": ("database", "mongodb"),
    "next": (*FRONTEND_REACT, "nextjs"),
    "nuxt": ("frontend", "nuxt", "vue"),
    "preact": ("frontend", "preact"),
    "prettier": ("prettier",),
    "prisma": ("database", "prisma"),
    "react": FRONTEND_REACT,
    "react-dom": FRONTEND_REACT,
    "react-native": ("mobile", "react-native"),
    "redux": ("frontend", "redux"),
    "solid-js": ("frontend", "solid"),
    "styled-components": ("frontend", "styled-components"),
    "svelte": ("frontend", "svelte"),
    "tailwindcss": ("frontend", "tailwind"),
    "three": ("frontend", "threejs"),
    "typescript": ("typescript",),
    "vite": ("frontend", "vite"),
    "vitest": ("testing", "vitest"),
    "vue": ("frontend", "vue"),
    "webpack": ("frontend", "webpack"),
    # Python
    "aiohttp": ("aiohttp", "backend"),
    "airflow": ("airflow", "data"),
    "apache-airflow": ("airflow", "data"),
    "boto3": ("aws",),
    "celery": ("celery", "backend"),
    "click": ("cli",),
    "dbt-core": ("data", "dbt"),
    "django": ("backend", "django"),
    "djangorestframework": ("backend", "django"),
    "fastapi": ("backend", "fastapi"),
    "flask": ("backend", "flask"),
    "jax": ("jax", "machine-learning"),
    "jupyter": ("jupyter",),
    "langchain": ("langchain", "llm"),
    "mypy": ("mypy",),
    "numpy": ("numpy",),
    "openai": ("llm",),
    "anthropic": ("llm",),
    "pandas": ("data", "pandas"),
    "polars": ("data", "polars"),
    "psycopg": ("database", "postgresql"),
    "psycopg2": ("database", "postgresql"),
    "pydantic": ("pydantic",),
    "pyspark": ("data", "spark"),
    "pytest": ("pytest", "testing"),
    "redis": ("redis",),
    "ruff": ("ruff",),
    "scikit-learn": ("machine-learning", "scikit-learn"),
    "sqlalchemy": ("database", "sqlalchemy"),
    "tensorflow": ("machine-learning", "tensorflow"),
    "torch": ("machine-learning", "pytorch"),
    "transformers": ("llm", "machine-learning"),
    "typer": ("cli",),
    # Rust
    "actix-web": ("actix", "backend"),
    "axum": ("axum", "backend"),
    "bevy": ("bevy", "games"),
    "clap": ("cli",),
    "diesel": ("database", "diesel"),
    "rocket": ("backend", "rocket"),
    "serde": ("serde",),
    "sqlx": ("database", "sqlx"),
    "tauri": ("desktop", "tauri"),
    "tokio": ("async", "tokio"),
    "wasm-bindgen": ("wasm",),
    # Go: the path without its host and version
    "gin-gonic/gin": ("backend", "gin"),
    "gofiber/fiber": ("backend", "fiber"),
    "gorm.io/gorm": ("database", "gorm"),
    "jackc/pgx": ("database", "postgresql"),
    "k8s.io/client-go": ("kubernetes",),
    "labstack/echo": ("backend", "echo"),
    "spf13/cobra": ("cli",),
    "stretchr/testify": ("testing",),
    # Ruby
    "rails": ("backend", "rails"),
    "rspec": ("rspec", "testing"),
    "rspec-rails": ("rspec", "testing"),
    "rubocop": ("rubocop",),
    "sidekiq": ("sidekiq",),
    "sinatra": ("backend", "sinatra"),
    # JVM
    "hibernate-core": ("database", "hibernate"),
    "junit": ("junit", "testing"),
    "junit-jupiter": ("junit", "testing"),
    "kotlin-stdlib": ("kotlin",),
    "ktor-server-core": ("backend", "ktor"),
    "micronaut-core": ("backend", "micronaut"),
    "quarkus-core": ("backend", "quarkus"),
    "spring-boot-starter": ("backend", "spring"),
    "spring-boot-starter-web": ("backend", "spring"),
    # PHP
    "laravel/framework": ("backend", "laravel"),
    "phpunit/phpunit": ("phpunit", "testing"),
    "symfony/framework-bundle": ("backend", "symfony"),
    # Dart
    "flutter": ("flutter", "mobile"),
}
"""Name of a dependency in lower case -> tags."""

TOOL_EXTRAS = frozenset({"dev", "develop", "test", "testing", "tests"})
"""Extras of a Python project that its developers install; others are for some of its users."""

MAX_DOTS = 300
"""Most dots in a line of a TOML file; versions of dependencies have dots as well."""

_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*+")
_GEM = re.compile(r"""^\s*+gem\s*+\(?\s*+["']([A-Za-z0-9._-]++)["']""", re.MULTILINE)
_ARTIFACT = re.compile(r"<artifactId>\s*+([A-Za-z0-9._-]++)\s*+</artifactId>")
_GRADLE = re.compile(r"""["']([A-Za-z0-9._-]++):([A-Za-z0-9._-]++)(?::[^"'\s]*+)?["']""")
_GO_MODULE = re.compile(r"^\s*+(?:require\s++)?([a-z0-9.-]++/\S++)\s++v\d", re.MULTILINE)
_GO_VERSION = re.compile(r"/v\d++$")
_PUBSPEC_NAME = re.compile(r"^ {2}([a-z0-9_]++):", re.MULTILINE)


def tags_of_manifest(file_name: str, text: str) -> list[str]:
    """Return the tags of the dependencies that a file declares; `file_name` is a key of MANIFESTS."""
    try:
        # What a broken file declares may be anything.
        names = [name for name in MANIFESTS[file_name](text) if isinstance(name, str)]
    except (ValueError, TypeError, AttributeError, RecursionError):
        return []
    tags = (tag for name in names for tag in DEPENDENCY_TAGS.get(name.lower(), ()))
    return list(dict.fromkeys(tags))


def _package_json(text: str) -> Iterator[str]:
    package = json.loads(text)
    for field in ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies"):
        yield from package.get(field) or {}


def _composer_json(text: str) -> Iterator[str]:
    package = json.loads(text)
    for field in ("require", "require-dev"):
        yield from package.get(field) or {}


def _pyproject(text: str) -> Iterator[str]:
    table = _toml(text)
    project = table.get("project", {})
    groups = [
        project.get("dependencies", []),
        *(group for name, group in project.get("optional-dependencies", {}).items() if name in TOOL_EXTRAS),
        *table.get("dependency-groups", {}).values(),
    ]
    for group in groups:
        yield from _requirements(item for item in group if isinstance(item, str))
    poetry = table.get("tool", {}).get("poetry", {})
    yield from poetry.get("dependencies", {})
    yield from poetry.get("dev-dependencies", {})
    for group in poetry.get("group", {}).values():
        yield from group.get("dependencies", {})


def _pipfile(text: str) -> Iterator[str]:
    table = _toml(text)
    yield from table.get("packages", {})
    yield from table.get("dev-packages", {})


def _cargo(text: str) -> Iterator[str]:
    table = _toml(text)
    for part in (table, table.get("workspace", {})):
        for field in ("dependencies", "dev-dependencies", "build-dependencies"):
            yield from part.get(field, {})


def _requirements(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        match = _REQUIREMENT.match(line.strip())
        if match:
            yield match[0].replace("_", "-")


def _go_mod(text: str) -> Iterator[str]:
    for path in _GO_MODULE.findall(text):
        module = _GO_VERSION.sub("", path)
        yield module
        yield module.partition("/")[2]


def _gradle(text: str) -> Iterator[str]:
    for _group, artifact in _GRADLE.findall(text):
        yield artifact


def _toml(text: str) -> Mapping[str, Any]:
    # The time of tomllib grows with the square of the number of parts of a dotted key.
    if any(line.count(".") > MAX_DOTS for line in text.splitlines()):
        raise ValueError("a key has too many parts")
    # A late import: most folders have no such file.
    import tomllib

    return tomllib.loads(text)


MANIFESTS: dict[str, Callable[[str], Iterable[str]]] = {
    "build.gradle": _gradle,
    "build.gradle.kts": _gradle,
    "cargo.toml": _cargo,
    "composer.json": _composer_json,
    "gemfile": _GEM.findall,
    "go.mod": _go_mod,
    "package.json": _package_json,
    "pipfile": _pipfile,
    "pom.xml": _ARTIFACT.findall,
    "pubspec.yaml": _PUBSPEC_NAME.findall,
    "pyproject.toml": _pyproject,
    "requirements-dev.txt": lambda text: _requirements(text.splitlines()),
    "requirements.txt": lambda text: _requirements(text.splitlines()),
}
"""Name of a file in lower case -> function that returns the names of dependencies in its text."""


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
        if lower_name in MANIFESTS:
            yield from tags_of_manifest(lower_name, _read(folder, name))
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
