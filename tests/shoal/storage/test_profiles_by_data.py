"""Profiles of chunks that were scored with different data."""

from __future__ import annotations

from shoal.storage.chunk_queries import StoredProfiles
from shoal.storage.profiles import Profiles, pack

OURS, THEIRS = "a" * 64, "b" * 64


def stored(*checksums: str) -> StoredProfiles:
    packed = [pack([(10 + i, 1.0 + i, 5.0, 2, 0.5)]) for i in range(len(checksums))]
    return StoredProfiles(list(range(100, 100 + len(packed))), Profiles.of(packed), checksums)


def test_profiles_by_other_data_are_left_out() -> None:
    ours = stored(THEIRS, OURS, OURS, THEIRS).scored_with(OURS)
    assert ours.chunk_ids == [101, 102]
    assert ours.profiles.reef_ids.tolist() == [11, 12]
    assert ours.profiles.bounds.tolist() == [0, 1, 2]
    assert list(ours.data_checksums) == [OURS, OURS]


def test_all_profiles_or_none_may_be_by_the_same_data() -> None:
    same = stored(OURS, OURS)
    assert same.scored_with(OURS) is same
    assert len(same.scored_with(THEIRS).profiles) == 0
    assert len(stored().scored_with(OURS).profiles) == 0
