"""Names of the files in a partition's directory."""

from tidelog.log.file_names import has_suffix, is_segment_file, offset_name, offset_of


def test_names_have_twenty_digits() -> None:
    """Goal: golden form of file names."""
    assert offset_name(42) == "00000000000000000042"


def test_only_an_offset_and_a_known_suffix_make_the_name_of_a_segments_file() -> None:
    """Goal: files of an unfinished replacement and files beside the log are never taken for one."""
    name = offset_name(42)
    assert is_segment_file(name + ".log")
    assert not any(map(is_segment_file, (name + ".log.swap", "42.log", name + ".snapshot")))
    assert has_suffix(name + ".snapshot", ".snapshot")
    assert (offset_of(name + ".log.swap"), offset_of("leader-epoch-checkpoint")) == (42, -1)
