"""The account of a file: the words that are in it, those that are in its document, and what is left out.

The words of a file are counted without any code of the converters, so that a part which a converter forgets
shows.
"""
