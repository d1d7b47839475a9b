"""What searches read: immutable segments with the postings of words and reefs (docs/index-design.md).

`building` makes a segment from documents, `merging` joins segments, `segment` opens one, and `index` holds
several, for `matching` and `scoring`: they take values and return values. `upkeep` and `files` keep the
segments of a library current; they alone know the database and the folder of the index.
"""
