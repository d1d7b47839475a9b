from pathlib import Path

import pytest
from small_model import build_model

import lagoon
from lagoon.model import Model, load_model, save_model
from lagoon.scorer import PACKAGED_DATA, ReefScorer


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lagoon-data")
    save_model(build_model(), directory, {"parameters": {"seed": 7}, "sources": []})
    return directory


@pytest.fixture(scope="session")
def small_model(model_dir: Path) -> Model:
    return load_model(model_dir)


@pytest.fixture(scope="session")
def small(small_model: Model) -> ReefScorer:
    """A scorer of the small model; no test adds words to it."""
    return ReefScorer(small_model)


@pytest.fixture
def learner(small: ReefScorer) -> ReefScorer:
    """A scorer of the small model that tests may add words to."""
    return small.without_custom_words()


@pytest.fixture(scope="session")
def scorer() -> ReefScorer:
    """A scorer with the packaged data; no test adds words to it."""
    if not (PACKAGED_DATA / "manifest.json").exists():
        pytest.skip("lagoon/data has not been built")
    return lagoon.load()
