"""Find learned compounds in running text; their parts need not be in the base vocabulary."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lagoon.compounds import CompoundMatcher, CompoundMatches, CompoundTrie
from lagoon.hashing import fnv1a64_many
from lagoon.plurals import singular
from lagoon.tokens import without_clitic


def base_form(form: str) -> str:
    """The form without its genitive, or else its singular; empty for a form without either."""
    if not form.endswith("s") and "'" not in form:
        return ""
    bare = without_clitic(form)
    return bare if bare != form else singular(form) or ""


class LearnedCompounds:
    """Finds compounds given as tokens. The last word may be a genitive or a regular plural.

    All occurrences count: "monte cristo" is also found within "count monte cristo".
    """

    def __init__(self, compounds: Mapping[tuple[str, ...], int]) -> None:
        self.count = len(compounds)
        trie = CompoundTrie.build(compounds.items())
        # Each part is its own "word", so that an inflected token matches it too.
        self._matcher = CompoundMatcher(trie, np.arange(len(trie.part_hashes)))
        tokens = list({token for compound in compounds for token in compound})
        parts = trie.parts_of(fnv1a64_many(tokens))
        self._part_of: dict[str, int] = dict(zip(tokens, parts.tolist(), strict=True))

    def find(
        self, forms: Sequence[str], ids: NDArray[np.int32], joined: NDArray[np.bool_]
    ) -> CompoundMatches:
        """Find all occurrences among the tokens `forms[ids]`, by length, then by position."""
        return self._matcher.find_all(
            self._parts(forms), self._parts(list(map(base_form, forms))), ids, joined
        )

    def _parts(self, forms: Sequence[str]) -> NDArray[np.int64]:
        part_of = self._part_of
        return np.array([part_of.get(form, -1) for form in forms], dtype=np.int64)
