"""Quotations: checks whether a document contains what a language model quotes, and where."""

from shoal.grounding.references import FoundQuotation, find_quotation
from shoal.support.plain_text import line_range as lines

__all__ = ["FoundQuotation", "find_quotation", "lines"]
