import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from small_model import build_model

import lagoon
from lagoon.model import Model, load_model, save_model


@pytest.fixture
def copy(model_dir: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_dir, tmp_path / "data"))


def edit_manifest(directory: Path, **fields: object) -> None:
    path = directory / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_saved_model_loads_unchanged(small_model: Model) -> None:
    built = build_model()
    for name, array in vars(built).items():
        if isinstance(array, np.ndarray):
            loaded = getattr(small_model, name)
            assert np.array_equal(array, loaded), name
            assert array.dtype == loaded.dtype, name
    assert list(small_model.words) == list(built.words)
    assert small_model.hierarchy == built.hierarchy
    assert small_model.bm25 == built.bm25


def test_saving_twice_gives_the_same_bytes(model_dir: Path, small_model: Model, tmp_path: Path) -> None:
    save_model(small_model, tmp_path, {"parameters": {"seed": 7}, "sources": []})
    for path in model_dir.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("name", ["words.txt", "weights.npy", "hierarchy.json"])
def test_a_changed_file_is_a_checksum_error(copy: Path, name: str, verify: bool) -> None:
    data = bytearray((copy / name).read_bytes())
    data[-2] ^= 1
    (copy / name).write_bytes(data)
    with pytest.raises(lagoon.LagoonChecksumError, match=name):
        lagoon.load(copy, verify=verify)


def test_a_truncated_file_is_a_checksum_error(copy: Path) -> None:
    data = (copy / "row_bm25.npy").read_bytes()
    (copy / "row_bm25.npy").write_bytes(data[:-10])
    with pytest.raises(lagoon.LagoonChecksumError, match="row_bm25"):
        lagoon.load(copy)


def test_another_format_is_a_version_error(copy: Path) -> None:
    edit_manifest(copy, format=99)
    with pytest.raises(lagoon.LagoonVersionError, match="99"):
        lagoon.load(copy)


def test_a_manifest_that_lists_other_files_is_a_checksum_error(copy: Path) -> None:
    edit_manifest(copy, checksum="0" * 64)
    with pytest.raises(lagoon.LagoonChecksumError, match="manifest"):
        lagoon.load(copy)


@pytest.mark.parametrize("name", ["manifest.json", "form_words.npy", "words.txt"])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(lagoon.LagoonError, match=name):
        lagoon.load(copy)


def test_a_manifest_that_is_not_json_is_an_error(copy: Path) -> None:
    (copy / "manifest.json").write_text("{")
    with pytest.raises(lagoon.LagoonError, match="JSON"):
        load_model(copy)


def test_arrays_of_inconsistent_shapes_are_an_error(small_model: Model, tmp_path: Path) -> None:
    fields = {name: getattr(small_model, name) for name in small_model.__dataclass_fields__}
    with pytest.raises(lagoon.LagoonError, match="weights"):
        save_model(Model(**(fields | {"weights": small_model.weights[:-1]})), tmp_path, {})
