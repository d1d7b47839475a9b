"""Files of other formats to text: each converter takes bytes and returns text with its places in the file."""
