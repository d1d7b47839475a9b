"""URL paths of the API's resources."""

API = "/api/v1"
DOCUMENTS = f"{API}/documents"
CHUNKS = f"{API}/chunks"
JOBS = f"{API}/jobs"
NOTES = f"{API}/notes"

ID = f"int(max={2**63 - 1})"
"""URL converter of an id. Numbers larger than the database can store return 404."""
