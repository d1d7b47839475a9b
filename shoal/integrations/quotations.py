"""Quotations: checks whether a document contains what a language model quotes, and where."""

from shoal.grounding.references import Found, find_quotation
from shoal.support.plain_text import line_range as lines

__all__ = ["Found", "find_quotation", "lines"]
