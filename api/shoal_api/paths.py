"""Where the resources live."""

API = "/api/v1"
DOCUMENTS = f"{API}/documents"
CHUNKS = f"{API}/chunks"
JOBS = f"{API}/jobs"

ID = f"int(max={2**63 - 1})"
"""The converter of an id in a path: a larger number than the database stores is the address of nothing."""
