"""Tests of frames, the API table, the schema codec and the hand-packed codecs."""
