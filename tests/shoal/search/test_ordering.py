"""The best places are those of a full sort, however they lie in the runs that are looked at first."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis.strategies as st
import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings

from shoal.index import kernels
from shoal.search import ordering
from shoal.search.ordering import best_places


@pytest.fixture(params=["numpy", "compiled"])
def kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "compiled" and not kernels.use_compiled():
        pytest.skip("numba is not installed")
    yield
    kernels.use_numpy()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("run", [1, 3, 256])
@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=40),
    st.integers(1, 12),
    st.sampled_from([np.int64, np.float64]),
    st.booleans(),
    st.integers(0, 2),
)
@settings(
    deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_best_places_are_those_of_a_sort(
    run: int, drawn: list[tuple[int, bool]], n: int, kind: type, is_filtered: bool, least: int
) -> None:
    keys = np.array([key for key, _ in drawn], dtype=kind)
    is_eligible = np.array([each for _, each in drawn], dtype=np.bool_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "RUN", run)
        found = best_places(keys, n, is_eligible if is_filtered else None, least=least)
    among = [i for i, (key, each) in enumerate(drawn) if key >= least and (each or not is_filtered)]
    threshold = sorted((keys[i] for i in among), reverse=True)[:n][-1:]
    assert found.tolist() == [i for i in among if keys[i] >= threshold[0]]


@pytest.mark.usefixtures("kernel")
def test_best_places_are_found_across_blocks() -> None:
    keys = np.random.default_rng(1).integers(0, 10**9, 100_003)
    expected = np.sort(np.argsort(-keys)[:500])
    assert best_places(keys, 500).tolist() == expected.tolist()
