"""Tags of a project's dependencies, from the files that declare them.

Only the names of dependencies count. A broken file declares nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

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
