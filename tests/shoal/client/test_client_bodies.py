"""A server can parse the multipart bodies that the client reads from disk."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from werkzeug.formparser import parse_form_data

from shoal.client import CHUNK_BYTES, ClientError, MultipartBody, UploadFile

NAMES = [
    "plain.txt",
    'quo"te.md',
    "new\nline.txt",
    "日本.md",
    "folder/in/side.txt",
    "odd\udcff.txt",
    "%22.txt",
]


def _parsed(body: MultipartBody) -> tuple[Any, Any]:
    data = b"".join(body)
    assert len(data) == body.length
    environ = {
        "wsgi.input": io.BytesIO(data),
        "CONTENT_LENGTH": str(len(data)),
        "CONTENT_TYPE": body.content_type,
        "REQUEST_METHOD": "POST",
    }
    _stream, form, files = parse_form_data(environ)
    return form, files


def test_multipart_body_has_all_files_and_fields(tmp_path: Path) -> None:
    contents = [b"", b"a", b"x" * (CHUNK_BYTES + 1), b"\r\n--almost a boundary\r\n"]
    files = []
    for number, content in enumerate(contents):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(content)
        files.append(UploadFile.of(path, f"folder/{number}.txt"))
    reported: list[int] = []
    form, parsed = _parsed(
        MultipartBody(files, fields=[("tags", "a"), ("tags", "b é")], sent=reported.append)
    )
    assert form.getlist("tags") == ["a", "b é"]
    assert [(file.filename, file.read()) for file in parsed.getlist("files")] == [
        (f"folder/{number}.txt", content) for number, content in enumerate(contents)
    ]
    assert sum(reported) == sum(map(len, contents))


@pytest.mark.parametrize("name", NAMES)
def test_any_file_name_gives_a_valid_body(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    _form, parsed = _parsed(MultipartBody([UploadFile.of(path, name)]))
    (file,) = parsed.getlist("files")
    assert file.read() == b"text"
    if name.isprintable() and '"' not in name and "%" not in name:
        assert file.filename == name


@pytest.mark.parametrize("content", [b"longer than before", b""])
def test_file_that_changes_during_an_upload_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(b"as it was")
    body = MultipartBody([UploadFile.of(path)])
    path.write_bytes(content)
    with pytest.raises(ClientError, match="changed while it was being sent"):
        list(body)
