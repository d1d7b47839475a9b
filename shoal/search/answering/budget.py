"""Token budgets: as many passages as fit, and the prompt made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lagoon.sentences import sentence_spans
from shoal.models.prompts import Prompt, TokenUse
from shoal.models.search import SearchResult, TextMode
from shoal.search.answering.prompts import HEAD_TOKENS, make_prompt, prompt_cost
from shoal.search.answering.texts import cut, with_text
from shoal.support.token_estimate import TOKENIZER, count_tokens

Cost = Callable[[int, SearchResult], int]
"""The tokens of a result, given its number on the page, from 1."""


class AnswerTexts(NamedTuple):
    """The results of a page with the texts that were requested, and what to warn of."""

    results: list[SearchResult]
    tokens: TokenUse | None
    prompt: Prompt | None
    warnings: tuple[str, ...]


def answer_texts(
    results: Sequence[SearchResult], mode: TextMode, *, max_tokens: int | None, with_prompt: bool
) -> AnswerTexts:
    """Return results with the requested part of their texts, as many as fit in `max_tokens`.

    With a prompt, the budget is for the prompt.
    """
    shown = [with_text(result, mode) for result in results]
    tokens: TokenUse | None = None
    warnings: tuple[str, ...] = ()
    if max_tokens is not None:
        fixed, cost = (HEAD_TOKENS, prompt_cost) if with_prompt else (0, text_cost)
        fitted = fit(shown, max_tokens - fixed, cost)
        n_left_out = len(shown) - len(fitted.results)
        tokens = TokenUse(fitted.used + fixed if fitted.results else 0, max_tokens, TOKENIZER, n_left_out)
        warnings = _warnings(tokens, fitted.results)
        shown = fitted.results
    prompt = make_prompt(shown) if with_prompt and shown else None
    return AnswerTexts(shown, tokens, prompt, warnings)


def _warnings(tokens: TokenUse, kept: Sequence[SearchResult]) -> tuple[str, ...]:
    if not tokens.n_left_out:
        return ()
    if not kept:
        return (f"max_tokens of {tokens.limit:,} is too small for the first sentence of the first result",)
    results = "result does" if tokens.n_left_out == 1 else "results do"
    return (f"{tokens.n_left_out:,} {results} not fit in max_tokens of {tokens.limit:,}",)


class Fitted(NamedTuple):
    """The results that fit a budget, and the tokens that they cost."""

    results: list[SearchResult]
    used: int


def text_cost(_number: int, result: SearchResult) -> int:
    """Return the tokens of the texts of a result: its own, those of its neighbours and of its evidence."""
    texts = [result.text, *(chunk.text for chunk in (*result.before, *result.after))]
    if result.evidence:
        texts += [chunk.text for chunk in result.evidence.chunks]
    return sum(map(count_tokens, texts))


def fit(results: Sequence[SearchResult], budget: int, cost: Cost = text_cost) -> Fitted:
    """Return the first results whose texts cost at most `budget` tokens together.

    The first that does not fit loses its neighbours and its evidence, then the sentences at its end, until it
    fits. It is left out if not even its first sentence fits, and so is every result after it.
    """
    fitted: list[SearchResult] = []
    used = 0
    for number, result in enumerate(results, start=1):
        tokens = cost(number, result)
        if used + tokens <= budget:
            fitted.append(result)
            used += tokens
            continue
        shorter = _shortened(number, result, budget - used, cost)
        if shorter is not None:
            fitted.append(shorter)
            used += cost(number, shorter)
        break
    return Fitted(fitted, used)


def _shortened(number: int, result: SearchResult, budget: int, cost: Cost) -> SearchResult | None:
    """Return a result with its first sentences that cost at most `budget`; None if the first costs more."""
    alone = dataclasses.replace(result, before=(), after=(), evidence=None)
    if cost(number, alone) <= budget:
        return alone
    ends = sentence_spans(result.text)[1].tolist()
    # The more sentences, the more tokens: the number that fits is found by halving.
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        if cost(number, cut(alone, 0, ends[middle - 1])) <= budget:
            low = middle
        else:
            high = middle - 1
    return cut(alone, 0, ends[low - 1]) if low else None
