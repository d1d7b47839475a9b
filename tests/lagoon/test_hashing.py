from hypothesis import given
from hypothesis import strategies as st

from lagoon.compounds import fnv1a64, fnv1a64_many


def test_published_vectors() -> None:
    # From the test suite of the reference implementation (Landon Curt Noll).
    assert fnv1a64("") == 0xCBF29CE484222325
    assert fnv1a64("a") == 0xAF63DC4C8601EC8C
    assert fnv1a64("foobar") == 0x85944171F73967E8


@given(st.lists(st.text()))
def test_hashing_many_strings_equals_hashing_each(texts: list[str]) -> None:
    assert fnv1a64_many(texts).tolist() == [fnv1a64(text) for text in texts]


def test_one_long_string_among_many_takes_no_padded_memory() -> None:
    # A padded matrix of these would take 100 GB.
    hashes = fnv1a64_many(["x"] * 100_000 + ["y" * 10_000])
    assert hashes[0] == fnv1a64("x")
    assert hashes[-1] == fnv1a64("y" * 10_000)
