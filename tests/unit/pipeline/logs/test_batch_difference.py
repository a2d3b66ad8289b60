"""Where two copies of a batch begin to differ."""

import pytest

from tests.unit.pipeline.log_directories import batch
from tidelog.pipeline.logs.batch_difference import Copy, first_difference
from tidelog.records.batch import HEADER_BYTES


def _copy(root, broker, data):
    path = root / f"{broker}.log"
    path.write_bytes(b"something before" + data)
    return Copy(broker, str(path), len(b"something before"), len(data))


def test_equal_copies_do_not_differ(tmp_path):
    copies = [_copy(tmp_path, broker, batch(0)) for broker in (1, 2, 3)]
    assert first_difference(copies, {2}) is None
    assert first_difference(copies[:1], {1}) is None


def test_the_byte_and_the_record_are_named(tmp_path):
    good = batch(20)
    bad = bytearray(good)
    place = good.index(b"a value", HEADER_BYTES + 40)
    bad[place] ^= 0xFF
    copies = [_copy(tmp_path, 1, bytes(bad)), _copy(tmp_path, 2, good), _copy(tmp_path, 3, good)]
    record = good[:place].count(b"a value")
    assert record > 0
    assert first_difference(copies, {1}) == (
        f"byte {place} is 0x61 on 2 and 0x9e on 1; first in record {record}, offset {20 + record}"
    )


def test_a_difference_in_the_header_is_called_that(tmp_path):
    copies = [_copy(tmp_path, 1, batch(0, epoch=3)), _copy(tmp_path, 2, batch(0, epoch=4))]
    assert first_difference(copies, {1, 2}) == "byte 15 of the header is 0x03 on 1 and 0x04 on 2"


@pytest.mark.parametrize("cut", [1, 30])
def test_a_copy_that_ends_early_differs_there(tmp_path, cut):
    good = batch(0)
    copies = [_copy(tmp_path, 1, good), _copy(tmp_path, 2, good[:-cut])]
    found = first_difference(copies, {2})
    assert found is not None
    assert found.startswith(f"byte {len(good) - cut} is 0x")
    assert "past the end on 2" in found
