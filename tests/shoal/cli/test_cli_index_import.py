"""`shoal import-index` stores texts with embeddings of an endpoint's model, and says what it left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from embedding_server import embedding_server, vector_of

from shoal.cli.app import run

TEXTS = ("The moon pulls the sea.", "Lava cools to basalt and forms a plain.")


@pytest.fixture
def failing(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Import a file, check that the command fails, and return what it prints on stdout and stderr."""

    def import_index(path: Path, file: Path, settings: Mapping[str, str]) -> tuple[str, str]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            code = run(["--db", str(path), "--json", "import-index", str(file), "--encoder", "m"])
        printed = capsys.readouterr()
        assert code == 1, printed.err
        return printed.out, printed.err

    return import_index


def test_an_index_is_imported_and_bad_documents_are_named(
    tmp_path: Path, failing: Callable[..., tuple[str, str]]
) -> None:
    documents = [*({"content": text, "metadata": {"page": 1}} for text in TEXTS), {"content": ""}]
    vectors = [*(vector_of(text) for text in TEXTS), [1.0, 0.0, 0.0, 0.0]]
    file = tmp_path / "docs.json"
    file.write_text(json.dumps({"embeddings": vectors, "documents": documents}))
    with embedding_server() as server:
        settings = {"SHOAL_ENCODER": server.url, "SHOAL_ENCODER_MODEL": "m"}
        output, errors = failing(tmp_path / "shoal.db", file, settings)
        result = json.loads(output)
        assert (result["stored"], result["vectors"], result["n_bad"]) == (2, 2, 1)
        assert "document 2" in errors
        file.write_text(json.dumps({"embeddings": vectors[:2], "documents": documents}))
        assert "nothing was stored" in "".join(failing(tmp_path / "other.db", file, settings))
    assert "SHOAL_ENCODER" in "".join(failing(tmp_path / "other.db", file, {}))
