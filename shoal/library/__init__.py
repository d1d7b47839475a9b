"""An open library and what it holds: documents, and the words it learned."""
