"""What a key costs per request: its check with and without the cache, and the name of a collection.

`python benchmarks/key_checks.py [--keys 10000]` prints microseconds per call, the median of five runs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from shoal.access.authentication import Authenticator
from shoal.access.key_store import KeyStore
from shoal.access.rights import Access, judge
from shoal.collections.catalog import Catalog
from shoal.models.keys import Needed
from shoal.settings import Settings
from shoal.support.api_keys import new_key

CALLS, RUNS = 2_000, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000, help="keys in the catalog")
    n_keys = parser.parse_args().keys
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), n_keys)


def measure(folder: Path, n_keys: int) -> None:
    settings = Settings(database_url=f"sqlite:///{folder / 'shoal.db'}")
    catalog = Catalog(settings)
    store = KeyStore(catalog)
    for number in range(2_000):
        catalog.add(f"{number:016x}", f"collection-{number}")
    for _ in range(n_keys):
        key = store.create("key", [("collection-7", "write")]).key
    header, unknown = f"Bearer {key}", f"Bearer {new_key()}"
    cached = Authenticator(settings, store)
    uncached = Authenticator(Settings(database_url=settings.database_url, key_cache_seconds=0), store)
    access = cached.identify(header)
    assert isinstance(access, Access)
    print(f"{n_keys:,} keys, 2,000 collections; microseconds per call")
    for name, call in (
        ("key, remembered", lambda: cached.identify(header)),
        ("key, read from the catalog", lambda: uncached.identify(header)),
        ("unknown key of the right form", lambda: cached.identify(unknown)),
        ("key of another form", lambda: cached.identify("Bearer not-one-of-ours-0123456789")),
        ("decision", lambda: judge(Needed.write, access, "0000000000000007")),
        ("name of the own collection", lambda: cached.collection_of(access, "collection-7")),
        ("name of a foreign collection", lambda: cached.collection_of(access, "collection-8")),
        ("name of no collection", lambda: cached.collection_of(access, "collection-x")),
    ):
        print(f"{name:32} {microseconds(call):8.1f}")
    cached.close()
    uncached.close()
    catalog.close()


def microseconds(call: Callable[[], object]) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - began) / CALLS * 1e6)
    return statistics.median(times)


if __name__ == "__main__":
    main()
