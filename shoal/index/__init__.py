"""What searches read: immutable segments with the postings of words and reefs (docs/index-design.md).

The package takes values and returns values. It knows no database, and files only as bytes, maps and file
objects of its caller. `building` makes a segment from documents, `merging` joins segments, `segment` opens
one, and `index` ranks over several.
"""
