"""How much code there is, and how it is divided: `python -m benchmarks.code_size`.

Counts statements by `ast`, lines, modules and their sizes of the product, the modules of the product that
tests import, and the files that one search and one page of the console pass.
"""

from __future__ import annotations

import ast
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("lagoon", "shoal", "api/shoal_api", "worker/shoal_worker")
PACKAGES = tuple(Path(each).name for each in PRODUCT)


def modules() -> list[Path]:
    """Return the Python files of the product."""
    return sorted(path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py"))


def count_statements(text: str) -> int:
    """Return the number of statements of a module, nested ones included."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))


def imported_by_tests() -> set[str]:
    """Return the modules of the product that tests import names from."""
    files = {".".join(_parts(path)) for path in modules()}
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            found.update(name for name in _imports(node) if name in files)
    return found


def files_passed(call: Callable[[], object]) -> int:
    """Return the number of files of the product whose code a call runs."""
    passed: set[str] = set()
    seen: set[CodeType] = set()

    def trace(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code not in seen:
            seen.add(frame.f_code)
            passed.add(frame.f_code.co_filename)

    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
    product = {str(path) for path in modules()}
    return len(passed & product)


def _parts(path: Path) -> tuple[str, ...]:
    folder = next(ROOT / each for each in PRODUCT if path.is_relative_to(ROOT / each))
    parts = (folder.name, *path.relative_to(folder).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in PACKAGES:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def main() -> None:
    """Print the numbers."""
    texts = [path.read_text() for path in modules()]
    lines = [text.count("\n") for text in texts]
    print(f"statements                    {sum(map(count_statements, texts)):8,}")
    print(f"lines                         {sum(lines):8,}")
    print(f"modules                       {len(texts):8,}")
    print(f"lines of a module, median     {statistics.median(lines):8,.0f}")
    print(f"lines of the largest module   {max(lines):8,}")
    print(f"modules that tests import     {len(imported_by_tests()):8,}")

    sys.path[:0] = [str(ROOT / "api"), str(ROOT / "worker")]
    from shoal import Engine
    from shoal_api.app import create_app

    with tempfile.TemporaryDirectory() as folder, Engine(db_path=f"{folder}/shoal.db") as engine:
        engine.ingest(title="Tides", content="The Moon pulls at the sea, and the water rises.")
        search = lambda: engine.search("what makes the ocean rise")  # noqa: E731
        search()
        print(f"files that a search passes    {files_passed(search):8,}")
        client = create_app(engine=engine).test_client()
        page = lambda: client.get("/?q=ocean")  # noqa: E731
        page()
        print(f"files that a page passes      {files_passed(page):8,}")


if __name__ == "__main__":
    main()
