"""Which removed declarations tests notice: `python -m benchmarks.removed_declarations [SEED [TESTS...]]`.

Chooses four arguments, parameters, operations and fields of records each by a seed. Removes one at a time
from a copy of the last commit, and runs tests there: those of generated pages and of all surfaces, unless
others are given.
"""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
OF_EACH_KIND = 4
SEED = 29
TESTS = (
    "tests/docs/test_pages.py::test_generated_page_matches_the_code",
    "tests/api/test_declared_operations.py",
    "tests/shoal/client/test_client_operations.py",
    "tests/surfaces",
)


class Declaration(NamedTuple):
    """A declaration, and the span of its text: line and column of the begin, and of the end."""

    kind: str
    path: Path
    name: str
    begin: tuple[int, int]
    end: tuple[int, int]


def declarations(root: Path) -> Iterator[Declaration]:
    """Yield what `shoal/declared` and `shoal/models` declare."""
    for folder in ("shoal/declared", "shoal/models"):
        for path in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    for member in node.body:
                        yield from _of_member(path, node.name, member, is_model="models" in folder)


def _of_member(path: Path, owner: str, member: ast.stmt, *, is_model: bool) -> Iterator[Declaration]:
    if isinstance(member, ast.AnnAssign):
        marker, kind = ("Annotated", "field") if is_model else ("Argument(", "argument")
        if marker in ast.unparse(member.annotation):
            yield _declaration(kind, path, f"{owner}.{ast.unparse(member.target)}", member, member)
    elif isinstance(member, ast.FunctionDef) and member.decorator_list:
        if "Needed" not in ast.unparse(member.decorator_list[0]):
            return
        name = f"{owner}.{member.name}"
        yield Declaration("operation", path, name, (member.decorator_list[0].lineno, 0), _end(member))
        arguments = member.args
        # A function with a single parameter after `*` would not be valid without it.
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if argument.annotation is not None and len(arguments.kwonlyargs) > 1:
                last = default or argument.annotation
                yield _declaration("parameter", path, f"{name}({argument.arg})", argument, last)


def _declaration(kind: str, path: Path, name: str, first: ast.AST, last: ast.AST) -> Declaration:
    assert isinstance(first, ast.stmt | ast.arg)
    return Declaration(kind, path, name, (first.lineno, first.col_offset), _end(last))


def _end(node: ast.AST) -> tuple[int, int]:
    assert isinstance(node, ast.stmt | ast.expr)
    return node.end_lineno or 0, node.end_col_offset or 0


def without(text: str, declaration: Declaration) -> str:
    """Return the text of a module without a declaration, and without the comma after it."""
    lines = text.encode().split(b"\n")
    (first, begin), (last, end) = declaration.begin, declaration.end
    before, after = lines[first - 1][:begin], lines[last - 1][end:]
    lines[first - 1 : last] = [before + after.removeprefix(b",").lstrip()]
    return b"\n".join(lines).decode()


def main() -> None:
    """Print for each removed declaration whether a test failed, and the first that did."""
    chooser, tests = random.Random(int((*sys.argv[1:2], SEED)[0])), sys.argv[2:] or TESTS
    results = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "checkout")
        subprocess.run(["git", "clone", "--quiet", ROOT, tree], check=True)
        by_kind: dict[str, list[Declaration]] = {}
        for each in declarations(tree):
            by_kind.setdefault(each.kind, []).append(each)
        for kind in sorted(by_kind):
            for each in chooser.sample(by_kind[kind], OF_EACH_KIND):
                results.append(failure_without(each, tree, tests))
                print(f"{'noticed' if results[-1] else 'MISSED':8} {kind:9} {each.name}  {results[-1]}")
    print(f"{sum(map(bool, results))} of {len(results)} removed declarations are noticed")


def failure_without(declaration: Declaration, tree: Path, tests: Sequence[str]) -> str:
    """Return the first failure of tests in a checkout without a declaration; an empty text if all pass."""
    text = declaration.path.read_text()
    declaration.path.write_text(without(text, declaration))
    paths = os.pathsep.join(map(str, (tree, tree / "api", tree / "worker")))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        check=False,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    declaration.path.write_text(text)
    failed = [line for line in run.stdout.split("\n") if line.startswith(("FAILED", "ERROR"))]
    return (*failed, "the tests do not start")[0] if run.returncode else ""


if __name__ == "__main__":
    main()
