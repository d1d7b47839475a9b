"""Values of answers for programs: the tokens of a page and the prompt made of its passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class TokenUse:
    """What the texts of a page cost of a token budget."""

    used: Annotated[int, "tokens of the texts, or of the prompt"]
    limit: Annotated[int, "`max_tokens`"]
    tokenizer: Annotated[str, "name of what counted them"]
    n_left_out: Annotated[int, "results that did not fit"] = 0


@dataclass(frozen=True, slots=True)
class Reference:
    """What a number in a prompt refers to. Its text there lacks the neighbours of the passage."""

    number: Annotated[int, "in the prompt, from 1"]
    place: Annotated[str, "the citation in one line"]
    document_id: int
    document_title: str
    source_path: str | None
    chunk_id: int
    start_char: Annotated[int, "of the text in the prompt, in the document's content"]
    end_char: int
    start_line: Annotated[int, "of the passage, from 1"]
    end_line: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """Numbered passages for a language model."""

    text: Annotated[str, "passages under their places, each line indented"]
    references: Annotated[Sequence[Reference], "one for each number"]
    n_tokens: Annotated[int, "tokens of `text`"]
    tokenizer: Annotated[str, "name of what counted them"]
