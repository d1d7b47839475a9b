"""Codes of errors are unique and stable, and `docs/errors.md` lists all of them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from shoal.client import ClientError
from shoal.errors import (
    CONVERSION_CODES,
    FETCH_CODES,
    ITEM_CODES,
    FetchError,
    FileConversionError,
    ShoalError,
)
from shoal_api import problems

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"
MODULES = (
    "shoal.errors",
    "shoal.cli.supervisor",
    "shoal.maintenance.evaluation",
    "shoal.maintenance.import_export",
    "shoal.maintenance.index_import",
    "shoal.maintenance.sync.apply",
    "shoal.maintenance.sync.folder_watch",
    "shoal_api.runner",
)
"""The modules that define errors of the library."""
CODE = re.compile(r"[a-z]+(_[a-z]+)*")
EXACT_CODES = {"queue_full", "not_ready"}
"""Codes of problems that name the reason more exactly than the status does."""


def _subclasses(kind: type[ShoalError]) -> set[type[ShoalError]]:
    return {kind}.union(*(_subclasses(inner) for inner in kind.__subclasses__()))


def _library_errors() -> set[type[ShoalError]]:
    """Return all errors but those of the client, whose code is that of the response, and of tests."""
    for name in MODULES:
        importlib.import_module(name)
    return {
        kind
        for kind in _subclasses(ShoalError)
        if not issubclass(kind, ClientError) and kind.__module__.startswith(("shoal.", "shoal_api."))
    }


def _codes_in_section(heading: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def test_every_error_has_its_own_code() -> None:
    kinds = _library_errors()
    assert {kind.__module__ for kind in kinds} == set(MODULES)
    for kind in kinds:
        assert "code" in vars(kind), kind
        assert CODE.fullmatch(kind.code), kind
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert not ITEM_CODES & {*codes, *CONVERSION_CODES, *FETCH_CODES}
    assert FileConversionError.code in CONVERSION_CODES
    assert FetchError.code in FETCH_CODES


def test_page_lists_the_codes_of_all_errors() -> None:
    listed = _codes_in_section("Errors of the library")
    of_classes = {kind.code for kind in _library_errors()}
    assert sorted(listed) == sorted(of_classes | CONVERSION_CODES | FETCH_CODES)


def test_page_lists_the_codes_of_items() -> None:
    assert sorted(_codes_in_section("Items of jobs")) == sorted(ITEM_CODES)


def test_page_lists_the_codes_of_responses() -> None:
    of_errors = {kind.code for kind in _library_errors()}
    codes = {*problems.STATUS_CODES.values(), *EXACT_CODES} - of_errors
    assert sorted(_codes_in_section("Responses")) == sorted(codes)
