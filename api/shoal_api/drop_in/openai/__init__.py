"""The files and vector stores of OpenAI's API: a collection is a vector store, a document a file."""

from shoal_api.drop_in.openai import batches, files, store_files, stores
from shoal_api.drop_in.openai.routes import blueprint

__all__ = ["batches", "blueprint", "files", "store_files", "stores"]
