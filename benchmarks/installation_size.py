"""What an installation of Shoal takes on disk, by package: `python -m benchmarks.installation_size`.

Counts the files of each installed distribution without bytecode, in MB of 1,000,000 bytes. `--with NAME...`
adds what these distributions need that Shoal does not, as `onnxruntime tokenizers` of the extra `encoder`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lagoon

LARGEST = 8


def needs(names: Iterable[str]) -> dict[str, Distribution]:
    """Return the distributions of some names and all that they need, without extras, by canonical name."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(name) for name in names]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        try:
            found.setdefault(name, distribution(requirement.name))
        except PackageNotFoundError:
            continue
        for text in found[name].requires or ():
            needed = Requirement(text)
            extras = ["", *requirement.extras]
            is_needed = needed.marker is None or any(
                needed.marker.evaluate({"extra": each}) for each in extras
            )
            if is_needed and canonicalize_name(needed.name) not in found:
                waiting.append(needed)
    return found


def sizes(found: dict[str, Distribution]) -> Iterator[tuple[str, float]]:
    """Yield name and MB of each distribution; those of Shoal itself are in the checkout."""
    for name, each in found.items():
        if name != "shoal":
            files = [Path(str(each.locate_file(file))) for file in each.files or ()]
            n_bytes = sum(path.stat().st_size for path in files if path.suffix != ".pyc" and path.is_file())
            yield name, n_bytes / 1e6


def size_of(folder: Path) -> float:
    """Return the MB of the files of a folder without bytecode."""
    return (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
        / 1e6
    )


def print_largest(title: str, by_name: dict[str, float]) -> None:
    print(f"{title}: {sum(by_name.values()):,.0f} MB in {len(by_name)} packages")
    for name, size in sorted(by_name.items(), key=lambda each: -each[1])[:LARGEST]:
        print(f"  {name:<16}{size:>8,.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--with", dest="others", nargs="+", default=[], metavar="NAME")
    others = parser.parse_args().others
    shoal = needs(["shoal"])
    root = Path(lagoon.__file__).parents[1]
    own = sum(size_of(root / name) for name in ("lagoon", "shoal", "api/shoal_api", "worker/shoal_worker"))
    tables = size_of(root / "lagoon" / "data")
    print(f"Shoal itself: {own:,.0f} MB, of which the tables of its scorer {tables:,.1f} MB")
    print_largest("what it needs", dict(sizes(shoal)))
    if others:
        added = {name: each for name, each in needs(others).items() if name not in shoal}
        print_largest(f"what {', '.join(others)} add", dict(sizes(added)))


if __name__ == "__main__":
    main()
