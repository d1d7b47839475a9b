"""Parsing of multipart forms, independent of the pieces in which they arrive, and of JSON."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal_api import incoming, strict_json

BOUNDARY = "x-boundary"
# Bytes that look like the start of a boundary.
TRICKY = st.lists(
    st.sampled_from(
        [b"\r", b"\n", b"-", b"--", b"\r\n--", b"x-boundary", b"\r\n--x-bound", b"a", b"\x00\xff"]
    ),
    max_size=30,
).map(b"".join)
CONTENTS = (st.binary(max_size=300) | TRICKY).filter(lambda content: b"--" + BOUNDARY.encode() not in content)


class Trickle(io.BytesIO):
    """A body that arrives in pieces of a given size."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._size)


class Halves(io.BytesIO):
    """A body that arrives in two pieces."""

    def __init__(self, data: bytes, cut: int) -> None:
        super().__init__(data)
        self._cut = cut

    def read(self, size: int | None = -1, /) -> bytes:
        first, self._cut = self._cut, 0
        return super().read(first or size)


def form(contents: list[bytes]) -> bytes:
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="f"; filename="{n}.txt"\r\n\r\n'.encode()
        + content
        + b"\r\n"
        for n, content in enumerate(contents)
    ]
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


@given(contents=st.lists(CONTENTS, max_size=5), piece=st.integers(1, 400))
def test_parts_equal_the_sent_contents(contents: list[bytes], piece: int) -> None:
    parts = [
        (part.filename, part.read(1000)) for part in incoming.parts(Trickle(form(contents), piece), BOUNDARY)
    ]
    assert parts == [(f"{n}.txt", content) for n, content in enumerate(contents)]


@pytest.mark.parametrize("end", [b"--\r\n", b"--", b"--  \r\n"])
def test_parts_do_not_depend_on_the_received_pieces(end: bytes) -> None:
    whole = form([b"abc\r\n", b""]).removesuffix(b"--\r\n") + end
    for cut in range(1, len(whole)):
        parts = [part.read(100) for part in incoming.parts(Halves(whole, cut), BOUNDARY)]
        assert parts == [b"abc\r\n", b""], cut


@given(contents=st.lists(CONTENTS, min_size=1, max_size=5), limit=st.integers(0, 300))
def test_part_is_read_up_to_a_limit(contents: list[bytes], limit: int) -> None:
    parts = incoming.parts(io.BytesIO(form(contents)), BOUNDARY)
    for part, content in zip(parts, contents, strict=True):
        assert part.read(limit) == (content if len(content) <= limit else None)
        assert part.size == len(content)


@given(contents=st.lists(CONTENTS, min_size=2, max_size=5))
def test_unread_parts_are_skipped(contents: list[bytes]) -> None:
    names = [part.filename for part in incoming.parts(io.BytesIO(form(contents)), BOUNDARY)]
    assert names == [f"{n}.txt" for n in range(len(contents))]


@given(data=st.data(), contents=st.lists(CONTENTS, min_size=1, max_size=3))
def test_truncated_form_is_malformed(data: st.DataObject, contents: list[bytes]) -> None:
    whole = form(contents)
    cut = data.draw(st.integers(0, len(whole) - len(f"{BOUNDARY}--\r\n")))
    parts = incoming.parts(io.BytesIO(whole[:cut]), BOUNDARY)
    with pytest.raises(incoming.MalformedMultipartError):
        _ = [part.read(1000) for part in parts]


@pytest.mark.parametrize("piece", [1, 60, 100_000])
@pytest.mark.parametrize("contents", [[], [b"text"]], ids=["first", "second"])
def test_boundary_followed_by_many_blanks_is_malformed(contents: list[bytes], piece: int) -> None:
    """Otherwise the sizes of the received pieces would decide what belongs to the content."""
    whole = form(contents).removesuffix(b"--\r\n")
    body = whole + b" " * (incoming.MAX_PADDING + 1) + b"\r\n--" + BOUNDARY.encode() + b"--"
    with pytest.raises(incoming.MalformedMultipartError, match="blanks"):
        _ = [part.read(1000) for part in incoming.parts(Trickle(body, piece), BOUNDARY)]


@given(st.binary(max_size=300))
def test_json_is_parsed_or_malformed(data: bytes) -> None:
    # Any other exception fails the test.
    with contextlib.suppress(strict_json.MalformedJSONError):
        json.dumps(strict_json.parse(data), allow_nan=False)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )
)
def test_json_round_trip_keeps_the_value(value: object) -> None:
    for text in (json.dumps(value), "\ufeff " + json.dumps(value, ensure_ascii=False)):
        assert strict_json.parse(text.encode("utf-8", "surrogatepass")) == value


def test_nesting_is_allowed_up_to_the_limit() -> None:
    def nested(levels: int) -> bytes:
        return b"[" * levels + b"]" * levels

    strict_json.parse(nested(strict_json.MAX_DEPTH))
    with pytest.raises(strict_json.MalformedJSONError, match="deeper"):
        strict_json.parse(nested(strict_json.MAX_DEPTH + 1))
