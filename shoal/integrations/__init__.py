"""Retrievers for frameworks that give passages to a language model. Each needs an optional extra:
`shoal[haystack]`, `shoal[langchain]` or `shoal[llamaindex]`."""
