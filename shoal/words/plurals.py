"""Irregular plurals of English: those whose stem is not that of the singular."""

from __future__ import annotations

from collections.abc import Sequence

_PAIRS = """
    calf calves | child children | elf elves | foot feet | goose geese | half halves | hoof hooves |
    knife knives | leaf leaves | life lives | loaf loaves | louse lice | man men | mouse mice | ox
    oxen | person people | scarf scarves | self selves | sheaf sheaves | shelf shelves | thief
    thieves | tooth teeth | wharf wharves | wife wives | wolf wolves | woman women | analysis
    analyses | axis axes | basis bases | crisis crises | diagnosis diagnoses | hypothesis hypotheses
    | oasis oases | parenthesis parentheses | prognosis prognoses | synthesis syntheses | thesis
    theses | appendix appendices | helix helices | index indices | matrix matrices | vertex vertices
    | vortex vortices | bacterium bacteria | criterion criteria | curriculum curricula | memorandum
    memoranda | ovum ova | phenomenon phenomena | quantum quanta | spectrum spectra | stratum strata
    | bacillus bacilli | fungus fungi | nucleus nuclei | radius radii | stimulus stimuli
"""
PAIRS = [(one, many) for pair in _PAIRS.split("|") for one, many in [pair.split()]]
_OTHERS: dict[str, list[str]] = {}
for _one, _many in PAIRS:
    _OTHERS[_one] = _OTHERS[f"{_one}s"] = [_many]
    _OTHERS[_many] = [_one]


def other_numbers(form: str) -> Sequence[str]:
    """Return the irregular plural or the singular of a folded noun: *shelves* of *shelf*, and of the error
    *shelfs*; empty for every other word."""
    return _OTHERS.get(form, ())
