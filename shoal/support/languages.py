"""The languages whose words are analysed: their codes, names, and how their words are inflected.

docs/languages.md says what each of them gets. A text of another language is stored with its code, and its
words are found as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_CODE = re.compile(r"[a-z]{2,3}", re.ASCII)

ENGLISH = "en"


class Language(NamedTuple):
    """stemmer: the algorithm of Snowball for a language in Latin letters; None if there is none, or if the
    script says how words are inflected (`shoal.words.script_stems`)."""

    name: str
    stemmer: str | None = None


LANGUAGES: Mapping[str, Language] = MappingProxyType(
    {
        "ar": Language("Arabic"),
        "ca": Language("Catalan", "catalan"),
        "cs": Language("Czech", "czech"),
        "da": Language("Danish", "danish"),
        "de": Language("German", "german"),
        "el": Language("Greek"),
        "en": Language("English"),
        "es": Language("Spanish", "spanish"),
        "et": Language("Estonian", "estonian"),
        "eu": Language("Basque", "basque"),
        "fi": Language("Finnish", "finnish"),
        "fr": Language("French", "french"),
        "he": Language("Hebrew"),
        "hi": Language("Hindi"),
        "hr": Language("Croatian", "serbian"),
        "hu": Language("Hungarian", "hungarian"),
        "id": Language("Indonesian", "indonesian"),
        "it": Language("Italian", "italian"),
        "ja": Language("Japanese"),
        "ko": Language("Korean"),
        "lt": Language("Lithuanian", "lithuanian"),
        "nl": Language("Dutch", "dutch"),
        "no": Language("Norwegian", "norwegian"),
        "pl": Language("Polish", "polish"),
        "pt": Language("Portuguese", "portuguese"),
        "ro": Language("Romanian", "romanian"),
        "ru": Language("Russian"),
        "sv": Language("Swedish", "swedish"),
        "th": Language("Thai"),
        "tr": Language("Turkish", "turkish"),
        "vi": Language("Vietnamese"),
        "zh": Language("Chinese"),
    }
)
"""By code of ISO 639-1."""


def is_language_code(text: str) -> bool:
    """Return whether a text has the form of a code of ISO 639, in small letters."""
    return _CODE.fullmatch(text) is not None
