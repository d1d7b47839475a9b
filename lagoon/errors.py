"""Errors of the scorer."""


class LagoonError(ValueError):
    """Invalid data of the scorer, or an invalid argument."""


class LagoonVersionError(LagoonError):
    """The data has a format this code does not read."""


class LagoonChecksumError(LagoonError):
    """A data file differs from its description in the manifest."""
