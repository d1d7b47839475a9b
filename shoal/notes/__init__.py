"""Notes: short texts that agents keep, with the decisions where and when they are shown."""
