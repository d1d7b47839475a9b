"""Retrievers for frameworks that put passages before a language model. Each needs its framework, an optional
extra: `shoal[langchain]`, `shoal[llamaindex]`."""
