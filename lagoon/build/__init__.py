"""Offline pipeline that builds ``lagoon/data``; see docs/lagoon-data.md. Not used at run time."""
