"""Buckets: their keys as they are, in order, and what their errors mean."""

from __future__ import annotations

import io
from typing import Any

import pytest

from shoal.errors import DocumentTooLargeError, ObjectGoneError, SourceError
from shoal.sources.buckets import BucketStore
from shoal.sources.stores import Place


class ClientError(Exception):
    """An answer of a store of buckets, as boto3 raises it."""

    def __init__(self, code: str, status: int, **headers: str) -> None:
        super().__init__(f"An error occurred ({code})")
        about = {"HTTPStatusCode": status, "HTTPHeaders": headers}
        self.response = {"Error": {"Code": code}, "ResponseMetadata": about}


class BucketClient:
    """Objects by key, listed as S3 does. `error`: raised by the next request."""

    def __init__(self, objects: dict[str, bytes], page_size: int = 2) -> None:
        self.objects = objects
        self.page_size = page_size
        self.error: Exception | None = None

    def _fail(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error

    def list_objects_v2(self, **given: str) -> dict[str, Any]:
        self._fail()
        after = given.get("StartAfter", "")
        keys = sorted(key for key in self.objects if key.startswith(given["Prefix"]) and key > after)
        entries = [
            {"Key": key, "Size": len(self.objects[key]), "ETag": f'"{hash(self.objects[key])}"'}
            for key in keys[: self.page_size]
        ]
        return {"IsTruncated": len(keys) > self.page_size, **({"Contents": entries} if entries else {})}

    def get_object(self, **given: str) -> dict[str, Any]:
        self._fail()
        if given["Key"] not in self.objects:
            raise ClientError("NoSuchKey", 404)
        return {"Body": io.BytesIO(self.objects[given["Key"]])}

    def close(self) -> None: ...


def names(store: BucketStore) -> list[str]:
    """All names that a store lists, each page from the place of the one before."""
    found: list[str] = []
    place: str | None = None
    while True:
        page = store.list(place)
        found += [each.name for each in page.objects]
        place = page.place
        if place is None:
            return found


def test_keys_are_names_as_they_are() -> None:
    kept = ["a//b.txt", "a/b.txt", "caf\u00e9.txt", "cafe\u0301.txt", "\u3000x.txt", "a b%20c+d.txt",
            "x" * 1000 + ".txt", "what?versionId=7.txt"]  # fmt: skip
    left_out = ["a/", "a//", ".hidden/x.txt", "a/.git/x.txt", "picture.png", "line\nbreak.txt"]
    objects = {f"2026/{name}": name.encode() for name in kept + left_out}
    client = BucketClient({**objects, "2026/": b"", "2026.txt": b"-", "20260/x.txt": b"-"})
    store = BucketStore(Place("s3://reports/2026"), client)
    assert sorted(names(store)) == sorted(kept)
    assert all(store.read(name, 10_000) == name.encode() for name in kept)
    assert len({store.source_path(name) for name in kept}) == len(kept)


def test_a_listing_goes_on_from_its_place_in_another_process() -> None:
    objects = {f"{number:03}.txt": b"-" for number in range(25)}
    client = BucketClient(objects)
    first = BucketStore(Place("s3://reports"), client).list(None)
    assert [each.name for each in first.objects] == sorted(objects)[:10]
    del objects["015.txt"]
    objects["0005.txt"] = b"behind the place"
    second = BucketStore(Place("s3://reports"), client).list(first.place)
    assert [each.name for each in second.objects] == sorted(objects)[11:21]


def test_a_store_that_lists_the_same_keys_again_ends() -> None:
    client = BucketClient({f"{number}.txt": b"-" for number in range(9)})
    client.list_objects_v2 = lambda **arguments: BucketClient.list_objects_v2(  # type: ignore[method-assign]
        client, Bucket="reports", Prefix=""
    )
    with pytest.raises(SourceError, match="again and again"):
        BucketStore(Place("s3://reports"), client).list(None)


def test_versions_change_with_the_content() -> None:
    client = BucketClient({"a.txt": b"one"})
    store = BucketStore(Place("s3://reports"), client)
    before = store.list(None).objects[0].version
    assert store.list(None).objects[0].version == before
    client.objects["a.txt"] = b"two"
    assert store.list(None).objects[0].version != before


@pytest.mark.parametrize(
    ("error", "is_temporary", "message", "pause"),
    [
        (ClientError("SlowDown", 503), True, "fewer requests", None),
        (ClientError("Throttling", 400), True, "fewer requests", None),
        (ClientError("429", 429, **{"retry-after": "30"}), True, "fewer requests", 30.0),
        (ClientError("InternalError", 500), True, "InternalError", None),
        (ClientError("RequestTimeout", 400), True, "RequestTimeout", None),
        (ConnectionError("refused"), True, "refused", None),
        (ClientError("InvalidAccessKeyId", 403), False, "check the secrets", None),
        (ClientError("RequestTimeTooSkewed", 403), False, "RequestTimeTooSkewed", None),
        (ClientError("NoSuchBucket", 404), False, "no such bucket", None),
        (ClientError("InvalidRequest", 400), False, "InvalidRequest", None),
    ],
)  # fmt: skip
def test_errors_say_whether_another_try_may_help(
    error: Exception, is_temporary: bool, message: str, pause: float | None
) -> None:
    client = BucketClient({"a.txt": b"-"})
    store = BucketStore(Place("s3://reports"), client)
    for ask in (lambda: store.list(None), lambda: store.read("a.txt", 10)):
        client.error = error
        with pytest.raises(SourceError, match=message) as caught:
            ask()
        assert (caught.value.is_temporary, caught.value.retry_after) == (is_temporary, pause)


def test_objects_that_are_gone_or_too_large_are_named() -> None:
    store = BucketStore(Place("s3://reports"), BucketClient({"a.txt": b"four"}))
    assert store.read("a.txt", 4) == b"four"
    with pytest.raises(DocumentTooLargeError, match="more than 3 bytes"):
        store.read("a.txt", 3)
    with pytest.raises(ObjectGoneError):
        store.read("b.txt", 10)
