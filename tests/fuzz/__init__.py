"""Fuzzing: nothing but the declared error families may escape, whatever the bytes."""
