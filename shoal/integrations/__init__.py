"""Retrievers for frameworks that give passages to a language model. Each needs an optional extra:
`shoal[langchain]` or `shoal[llamaindex]`."""
