"""Keys and values with types: schemas in text, parsing of bytes, inference, merging of schemas."""
