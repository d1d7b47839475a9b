"""Buckets of S3, and of stores that speak its interface, as stores of sources.

A listing has no folders: keys come in their order, page by page, and the place is the last one. So a bucket
whose keys share one folder needs no more memory than another, and a key is followed as it is written.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from shoal.errors import ObjectGoneError, SourceError
from shoal.sources.stores import Listed, ListedPage, Place, Store, checked_size, is_on, is_usable_name
from shoal.support.http_endpoints import TOO_MANY, retry_after

REQUESTS_PER_PAGE = 5
"""Requests of one page; each lists up to 1,000 keys."""
CONNECTIONS = 10
CONNECT_SECONDS, READ_SECONDS = 10, 60
_CREDENTIALS = {"key": "aws_access_key_id", "secret": "aws_secret_access_key", "token": "aws_session_token"}
_UNAVAILABLE = 503
_FOR_A_WHILE = frozenset({408, 409, 425, TOO_MANY})
_THROTTLED = frozenset({"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded"})
_GONE = frozenset({"NoSuchKey", "404"})


class BucketStore(Store):
    """The objects of a bucket whose keys begin with the folder of the address."""

    def __init__(self, place: Place, client: Any = None) -> None:
        """`client`: of boto3; by default one is made for the first request."""
        parts = urlsplit(place.url)
        self.address = place.url.rstrip("/")
        self._bucket = parts.netloc
        folder = parts.path.removeprefix("/")
        self._prefix = f"{folder}/" if folder else ""
        self._selection = place.selection
        self._place = place
        self._client = client
        self._lock = threading.Lock()

    def list(self, place: str | None) -> ListedPage:
        after = "" if place is None else str(json.loads(place))
        objects: list[Listed] = []
        n_skipped = 0
        for _ in range(REQUESTS_PER_PAGE):
            arguments = {"StartAfter": after} if after else {}
            answer = self._ask("list_objects_v2", Bucket=self._bucket, Prefix=self._prefix, **arguments)
            entries = answer.get("Contents", ())
            for entry in entries:
                name = str(entry["Key"]).removeprefix(self._prefix)
                # A key that ends with a slash marks a folder.
                is_read = not name.endswith("/") and is_usable_name(name)
                if is_read and self._selection.reason_against(name) is None:
                    version = entry.get("ETag") or entry.get("LastModified")
                    objects.append(Listed(name, f"{entry['Size']} {version}"[:500], int(entry["Size"])))
                else:
                    n_skipped += 1
            if not answer.get("IsTruncated"):
                return ListedPage(tuple(objects), None, n_skipped)
            last = str(entries[-1]["Key"]) if entries else after
            if last <= after:
                raise SourceError("the store lists the same keys again and again", is_temporary=False)
            after = last
        return ListedPage(tuple(objects), json.dumps(after), n_skipped)

    def read(self, name: str, max_bytes: int) -> bytes:
        answer = self._ask("get_object", Bucket=self._bucket, Key=f"{self._prefix}{name}")
        try:
            # One byte more shows that there is more.
            data: bytes = answer["Body"].read(max_bytes + 1)
        except Exception as error:
            raise _source_error(error) from error
        finally:
            answer["Body"].close()
        return checked_size(data, max_bytes)

    def _ask(self, operation: str, **arguments: str) -> Mapping[str, Any]:
        with self._lock:
            if self._client is None:
                self._client = _client(self._place)
        try:
            answer: Mapping[str, Any] = getattr(self._client, operation)(**arguments)
        except Exception as error:
            raise _source_error(error) from error
        return answer

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def _client(place: Place) -> Any:
    """Raises SourceError."""
    try:
        import boto3
        import botocore.session
        from botocore import UNSIGNED
        from botocore.config import Config
    except ImportError as error:
        raise SourceError(
            f"addresses of s3:// need a package that is not installed ({error}): pip install boto3",
            is_temporary=False,
        ) from error
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        max_pool_connections=CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": 3},
        signature_version=UNSIGNED if is_on(place.options.get("anon")) else None,
    )
    given: dict[str, str | None] = {_CREDENTIALS[name]: value for name, value in place.secrets.items()}
    given |= {"endpoint_url": place.options.get("endpoint_url"), "region_name": place.options.get("region")}
    try:
        session = botocore.session.get_session()
        # Times stay texts: parsing them takes two thirds of a listing.
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
        return boto3.session.Session(botocore_session=session).client("s3", config=config, **given)
    except Exception as error:
        raise _source_error(error, is_temporary=False) from error


def _source_error(error: Exception, *, is_temporary: bool = True) -> SourceError:
    """Return an error of the client as one of the source: what passes with time is temporary."""
    text = " ".join(str(error).split())[:300] or type(error).__name__
    answer: Mapping[str, Any] = getattr(error, "response", None) or {}
    code = str(answer.get("Error", {}).get("Code", ""))
    about = answer.get("ResponseMetadata", {})
    status = int(about.get("HTTPStatusCode", 0))
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        return SourceError(f"it needs secrets: {text}", is_temporary=False)
    if code in _GONE:
        return ObjectGoneError("it is gone since it was listed")
    if code in _THROTTLED or status in (TOO_MANY, _UNAVAILABLE):
        pause = retry_after(about.get("HTTPHeaders", {}).get("retry-after", ""))
        return SourceError(f"the store asks for fewer requests: {text}", retry_after=pause)
    if code == "NoSuchBucket":
        return SourceError(f"there is no such bucket; is the address right? ({text})", is_temporary=False)
    if status in (401, 403):
        return SourceError(f"access was refused ({text}); check the secrets", is_temporary=False)
    is_refusal = 400 <= status < 500 and status not in _FOR_A_WHILE and code != "RequestTimeout"
    return SourceError(text, is_temporary=is_temporary and not is_refusal)
