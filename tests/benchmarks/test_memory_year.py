"""The benchmark of a year of facts that change, on a library of its own."""

from __future__ import annotations

from pathlib import Path

import lagoon
from benchmarks.memory_year import FIRST, SECOND, live
from shoal import Engine


def test_years_are_recalled_as_they_ended(tmp_path: Path) -> None:
    scorer = lagoon.load()
    for name, year, least in (("first", FIRST, 35), ("second", SECOND, 30)):
        with Engine(tmp_path / f"{name}.db", scorer=scorer) as engine:
            found = live(engine.notes.of("someone"), year)
        assert found.n_valid_first >= least, found.wrong
        assert found.n_dates_right == found.n_dates
        assert (found.n_staying_replaced, found.n_forgotten_back) == (0, 0), found.wrong
