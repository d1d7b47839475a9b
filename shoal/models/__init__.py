"""The values that pass between packages, by subject.

All dataclasses are frozen. Character offsets are Unicode code points into `documents.content`, end exclusive;
lines count from 1, end inclusive.
"""
