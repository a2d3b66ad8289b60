"""A part of the flights, copied exactly once by each client family while nodes die."""

from pathlib import Path

import pytest

from tests.interop.flights import FAMILIES, flights, run
from tidelog.testing import LocalCluster


@pytest.mark.parametrize("family", FAMILIES)
def test_a_copy_is_exact_though_everything_dies(cluster: LocalCluster, tmp_path: Path, family: str):
    """The program itself once, so it is started twice at least."""
    assert run(cluster, family, tmp_path, 4, flights(10_000)) >= 2
