"""What can go wrong with the scorer, as classes a caller can tell apart."""


class LagoonError(ValueError):
    """Anything wrong with the scorer's data or with what it was asked."""


class LagoonVersionError(LagoonError):
    """The data has a format this code does not read."""


class LagoonChecksumError(LagoonError):
    """A data file is not the file its manifest describes."""
