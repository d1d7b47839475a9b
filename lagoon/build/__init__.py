"""The offline pipeline that makes ``lagoon/data``: see docs/lagoon-data.md. Not used at run time."""
