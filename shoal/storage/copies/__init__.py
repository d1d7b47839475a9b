"""Copies of a library from one store to another, table by table: `shoal.maintenance.copying` makes them."""
