"""Functions that read untrusted text take linear time, also on hostile texts."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import numpy as np
import pytest
from linear_time import Texts, assert_linear
from numpy.typing import NDArray

from lagoon.compounds import distinct_spans
from lagoon.tokens import tokenise
from shoal.errors import QueryError
from shoal.formats.decoding import decode
from shoal.formats.drafts import make_draft
from shoal.formats.headings import plain_heading
from shoal.formats.plaintext import parse_plaintext
from shoal.grounding.references import find_quotation
from shoal.grounding.statements import parse_statements
from shoal.grounding.support import Passage, find_support
from shoal.grounding.words import read_tokens
from shoal.models.documents import DocumentDraft
from shoal.search.matched_terms import Highlighter, find_highlights
from shoal.search.request import SEARCH_ARGUMENTS, make_request
from shoal.settings import Settings, shown

SETTINGS = Settings(database_url="sqlite:///unused.db")
ACCENTS = "\u0301\u0327"
"""Two marks in an order that normalisation changes."""


def draft(text: str) -> DocumentDraft:
    return make_draft(content=text, format="markdown", settings=SETTINGS)


def quoted(text: str) -> object:
    re.purge()  # otherwise only the first measurement would compile the pattern of the quotation
    return find_quotation(text, "a b c")


def compared(text: str) -> object:
    """A statement with a passage that has its words in another order."""
    return find_support(text, [Passage(" ".join(reversed(text.split())))], lambda _: 1.0)


HEADS: dict[str, Texts] = {
    "comments before YAML": lambda n: "---\n" + "# " * n + "\n!\n---\nHello world.\n",
    "comments before TOML": lambda n: "+++\n" + "# " * n + "\n!\n+++\nHello world.\n",
    "lines of comments": lambda n: "---\n" + "# \n" * n + "!\n---\nHello world.\n",
    "blank lines": lambda n: "---\n" + "\n \r\n" * n + "!\n---\nHello world.\n",
    "blanks behind a key": lambda n: "---\ntitle" + " " * n + "x\n---\nHello world.\n",
    "a dotted key": lambda n: "+++\na = 1\n" + ".".join("b" * n) + " = 1\n+++\nHello world.\n",
    "a dotted key in a table": lambda n: "+++\nx = {" + ".".join("a" * n) + " = 1}\n+++\nHello world.\n",
    "a dotted table": lambda n: "+++\n[" + ".".join("a" * n) + "]\n+++\nHello world.\n",
    "tables": lambda n: "+++\n" + "[[a.b.c]]\n" * n + "+++\nHello world.\n",
    "a heading of blanks": lambda n: "# " + " " * n + "\nHello world.\n",
    "a heading of hashes": lambda n: "# " + "# " * n + "\nHello world.\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=list(HEADS))
def test_drafts_take_linear_time_in_the_head_of_a_document(head: Texts) -> None:
    assert_linear(draft, head, 4_000)


HEADINGS: dict[str, Texts] = {
    "underscores": lambda n: "== a" + "_" * n + "b ==",
    "blanks": lambda n: "== a" + " " * n + "{b ==",
    "brackets": lambda n: "== a" + "[" * n + " ==",
    "links": lambda n: "== " + "[a](" * n + " ==",
    "hashes": lambda n: "== " + "# " * n + " ==",
    "tags": lambda n: "== " + "<a " * n + " ==",
    "entities": lambda n: "== a &#" + "1" * n + " ==",
    "equals signs": lambda n: "== a" + "= " * n + "b ==",
}


@pytest.mark.parametrize("heading", HEADINGS.values(), ids=list(HEADINGS))
def test_headings_take_linear_time(heading: Texts) -> None:
    assert_linear(parse_plaintext, heading, 4_000)
    assert_linear(plain_heading, heading, 1_000)


OTHERS: dict[str, tuple[Callable[[str], object], Texts]] = {
    "accents on a letter": (tokenise, lambda n: "a" + ACCENTS * n),
    "accents on a letter in a passage": (
        lambda text: find_highlights([text], Highlighter(frozenset(["a"]), ())),
        lambda n: "a" + ACCENTS * n,
    ),
    "blanks in a quotation": (quoted, lambda n: "a" + " " * n + "b"),
    "brackets in a quotation": (quoted, lambda n: "a" + "[ " * n + "b"),
    "blanks in a document that is quoted": (
        lambda text: find_quotation("a b", text),
        lambda n: ("a" + " " * 50) * n,
    ),
    "addresses in a setting": (lambda text: shown("SHOAL_BROKER_URL", text), lambda n: "://:" * n),
    "citations": (parse_statements, lambda n: "a " + "[1]" * n),
    "citations between sentences": (
        lambda text: [parse_statements(text[at : at + 40_000]) for at in range(0, len(text), 40_000)],
        lambda n: "Bees dance. [1] " * n,
    ),
    "an open citation": (parse_statements, lambda n: "[1, " * n),
    "brackets": (parse_statements, lambda n: "[" * n),
    "a long figure": (parse_statements, lambda n: "9" * n),
    "quotation marks": (parse_statements, lambda n: '"' * n),
    "a long word": (parse_statements, lambda n: "A" * n),
    "items of a list": (parse_statements, lambda n: "- " * n),
    "negations": (parse_statements, lambda n: "not " * n),
    "open quotations in a statement": (parse_statements, lambda n: "“a b c " * n),
    "a statement in another order": (compared, lambda n: " ".join(f"w{each % 3_000}a" for each in range(n))),
    "figures in another order": (compared, lambda n: "; ".join(str(each) for each in range(n))),
    "one word in a statement": (compared, lambda n: "bees dance " * n),
    "passives in a statement": (compared, lambda n: "was not built by bees, " * n),
    "words of a number": (read_tokens, lambda n: "two hundred and " * n),
    "digits of a number": (read_tokens, lambda n: "1," * n),
    "bytes in an unknown encoding": (
        lambda text: decode(text.encode("cp1250"), max_bytes=10**9, min_confidence=0.0),
        lambda n: "Příliš žluťoučký kůň úpěl ďábelské ódy. " * n,
    ),
}


@pytest.mark.parametrize("piece", ["e", ",", '"', '"e",', "(", "a.", "1:", "$"])
@pytest.mark.parametrize("argument", SEARCH_ARGUMENTS)
def test_the_arguments_of_a_search_take_linear_time(argument: str, piece: str) -> None:
    def check(text: str) -> None:
        with contextlib.suppress(QueryError):
            make_request(**{"query": "lava", "settings": SETTINGS, argument: text})

    assert_linear(check, lambda n: piece * n, 4_000)


SLOWER = {
    "citations between sentences",
    "a statement in another order",
    "figures in another order",
    "one word in a statement",
    "passives in a statement",
    "words of a number",
}
"""A thousand repetitions are more than a statement may have (MAX_STATEMENT_CHARS), and take milliseconds."""


@pytest.mark.parametrize("name", OTHERS)
def test_functions_take_linear_time(name: str) -> None:
    work, texts = OTHERS[name]
    assert_linear(work, texts, 1_000 if name in SLOWER else 4_000)


def test_colliding_keys_take_linear_time() -> None:
    """Words are hashed by the high bits of their keys; these keys all have the same high bits."""

    def keys(n: int) -> NDArray[np.uint64]:
        return np.arange(n, dtype=np.uint64)

    assert_linear(lambda text: distinct_spans(keys(len(text))), lambda n: "a" * n, 4_000)
    first, ids = distinct_spans(keys(1_000)[::-1].copy())
    assert first.tolist() == ids.tolist() == list(range(1_000))
