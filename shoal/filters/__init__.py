"""Filters that combine: a tree of conditions, its two written forms, and its evaluation over an index."""
