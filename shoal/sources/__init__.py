"""Sources: places such as folders and buckets that a library follows."""
