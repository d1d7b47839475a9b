"""Facets: how many documents and passages have each value of a field."""
