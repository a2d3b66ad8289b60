"""Names of the files in a partition's directory."""

from tidelog.log.file_names import offset_name, offset_of, offsets_in


def test_names_have_twenty_digits() -> None:
    """Goal: golden form of file names."""
    assert offset_name(42) == "00000000000000000042"


def test_only_an_offset_and_a_known_suffix_make_the_name_of_a_segments_file() -> None:
    """Goal: files of an unfinished replacement and files beside the log are never taken for one."""
    name = offset_name(42)
    assert offsets_in([name + ".log"]) == {name + ".log": 42}
    assert not offsets_in((name + ".log.swap", "42.log", name + ".snapshot", "x" * 20 + ".log"))
    assert offsets_in([name + ".snapshot", name + ".log"], ".snapshot") == {name + ".snapshot": 42}
    assert (offset_of(name + ".log.swap"), offset_of("leader-epoch-checkpoint")) == (42, -1)
