"""A typed program that uses the installed package.

`tests/python_versions.py` checks it with mypy against a wheel: the wheel must contain the types, and mypy
must find the one mistake.
"""

from shoal import DocFormat, Engine

with Engine(db_path="shoal.db") as engine:
    stored = engine.ingest(title="Tides", content="The sea rises.", format=DocFormat.markdown, tags=["sea"])
    reply = engine.search("what makes the sea rise", top_k=3, include_scores=True)
    titles: list[str] = [result.document_title for result in reply.results]
    reefs: list[str] = [reef.reef_name for result in reply.results for reef in result.shared_reefs or ()]
    mistaken: str = reply.results[0].match_score
