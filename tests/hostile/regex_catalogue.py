"""Catalogue of all regular expressions of the code and of their uses."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import lagoon
import shoal
import shoal_api
import shoal_worker

PACKAGES = (shoal, shoal_api, shoal_worker, lagoon)
# Not needed at run time, and has dependencies that the tests lack.
LEFT_OUT = ("lagoon.build",)

ANCHORED = frozenset({"match", "fullmatch"})
SCANNING = frozenset({"search", "finditer", "findall", "sub", "subn", "split"})
METHODS = ANCHORED | SCANNING
# Only code with such a call is parsed, since parsing and walking all of it takes seconds.
OF_RE = re.compile(rf"\bre\.(?:compile|{'|'.join(METHODS)})\b")
THROUGH_MODULES = re.compile(rf"[\w)\]]\s*\.\s*\w+\s*\.\s*(?:{'|'.join(METHODS)})\b")
WAYS = ("match", "fullmatch", "finditer")
"""The methods that are tested: every scanning method is at most as slow as finding all matches."""


class Use(NamedTuple):
    """A pattern, its location `name`, and the methods of WAYS that the code calls."""

    name: str
    pattern: re.Pattern[Any]
    ways: tuple[str, ...]


class MadePattern(NamedTuple):
    """A location where a pattern is built at run time."""

    module: str
    function: str


def modules() -> Iterator[ModuleType]:
    """Import all modules except LEFT_OUT."""
    for package in PACKAGES:
        yield package
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not info.name.startswith(LEFT_OUT) and not info.name.endswith("__main__"):
                yield importlib.import_module(info.name)


def catalogue() -> tuple[list[Use], list[MadePattern]]:
    """Collect the patterns of modules, classes and functions, and the locations where patterns are built at
    run time."""
    texts = {module: _text(module) for module in modules()}
    elsewhere: dict[str, set[str]] = {}
    for text in texts.values():
        if THROUGH_MODULES.search(text):
            for name, ways in _calls_through_modules(ast.parse(text)).items():
                elsewhere.setdefault(name, set()).update(ways)
    uses: dict[tuple[Any, int], Use] = {}
    made: list[MadePattern] = []
    for module, text in texts.items():
        found = [(name, pattern) for name, value in _values(module) for pattern in _patterns(value)]
        if not found and not OF_RE.search(text):
            continue
        tree = ast.parse(text)
        methods = _calls(tree)
        named = [
            (
                f"{module.__name__}.{name}",
                pattern,
                _ways(methods.get(name, set()) | elsewhere.get(name, set())),
            )
            for name, pattern in found
        ]
        written, made_there = _inside_functions(tree, module.__name__)
        made += made_there
        for name, pattern, ways in [*named, *written]:
            key = (pattern.pattern, pattern.flags)
            known = uses.get(key)
            joined = tuple(way for way in WAYS if way in ways or (known and way in known.ways))
            uses[key] = Use(known.name if known else name, pattern, joined)
    return list(uses.values()), made


def _text(module: ModuleType) -> str:
    assert module.__file__ is not None
    return Path(module.__file__).read_text("utf-8")


def _values(module: ModuleType) -> Iterator[tuple[str, object]]:
    for name, value in vars(module).items():
        yield name, value
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from vars(value).items()


def _patterns(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _patterns(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _patterns(item)


def _ways(methods: set[str] | frozenset[str]) -> tuple[str, ...]:
    called = {"finditer" if method in SCANNING else method for method in methods}
    return tuple(way for way in WAYS if way in called)


def _calls(tree: ast.Module) -> dict[str, set[str]]:
    """Collect the methods called on each name or on its items; all METHODS if the name is used in another
    way."""
    direct: dict[str, set[str]] = {}
    seen: set[int] = set()
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Attribute) and node.attr in METHODS):
            continue
        owner = node.value
        if isinstance(owner, ast.Subscript):
            owner = owner.value
        if isinstance(owner, ast.Name):
            direct.setdefault(owner.id, set()).add(node.attr)
            seen.add(id(owner))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in seen:
            direct.setdefault(node.id, set()).update(METHODS)
    return direct


def _calls_through_modules(tree: ast.Module) -> dict[str, set[str]]:
    """Collect the methods called on names of other modules, as in `quotations.ELLIPSIS.split`."""
    called: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS and isinstance(node.value, ast.Attribute):
            called.setdefault(node.value.attr, set()).add(node.attr)
    return called


def _inside_functions(
    tree: ast.Module, module: str
) -> tuple[list[tuple[str, re.Pattern[Any], tuple[str, ...]]], list[MadePattern]]:
    """Collect constant patterns in calls of `re` within functions, and the functions with other patterns."""
    written: list[tuple[str, re.Pattern[Any], tuple[str, ...]]] = []
    made: list[MadePattern] = []
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    for function in functions:
        name = getattr(function, "name", "lambda")
        for node in ast.walk(function):
            if not (isinstance(node, ast.Call) and _is_of_re(node.func)):
                continue
            assert isinstance(node.func, ast.Attribute)
            method = node.func.attr
            first = node.args[0] if node.args else None
            plain = len(node.args) <= (1 if method == "compile" else 3) and not node.keywords
            if isinstance(first, ast.Constant) and plain:
                ways = METHODS if method == "compile" else frozenset({method})
                written.append((f"{module}.{name}", re.compile(first.value), _ways(ways)))
            else:
                made.append(MadePattern(module, name))
    return written, made


def _is_of_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in METHODS | {"compile"}
    )
