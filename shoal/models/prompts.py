"""Values of answers for programs: the tokens of a page and the prompt made of its passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenUse:
    """What the texts of a page cost of a token budget.

    used        tokens of the texts, or of the prompt if there is one; at most `limit`
    limit       `max_tokens` of the request
    tokenizer   name of what counted them
    n_left_out  results that did not fit
    """

    used: int
    limit: int
    tokenizer: str
    n_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Reference:
    """What a number in a prompt refers to. `start_char:end_char` of the document is the text in the prompt,
    without its neighbours; `place` is the citation in one line."""

    number: int
    place: str
    document_id: int
    document_title: str
    source_path: str | None
    chunk_id: int
    start_char: int
    end_char: int
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """Numbered passages for a language model: `text`, and a reference for each number."""

    text: str
    references: Sequence[Reference]
    n_tokens: int
    tokenizer: str
