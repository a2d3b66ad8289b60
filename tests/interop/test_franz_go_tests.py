"""franz-go's own tests of groups, share groups and transactions, as its authors run them on Kafka.

Chains of groups pass records from topic to topic while their members come and go, with each
assignor and both group protocols, with static members, and inside transactions; they fail when a
record is missing, comes twice or out of its order.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.interop.prepare import FRANZ_GO_TESTS
from tidelog.testing import LocalCluster

pytestmark = pytest.mark.skipif(not FRANZ_GO_TESTS.exists(), reason="Go is not here")

CHAINS: Final = ("TestGroupETL", "TestTxnEtl", "TestShareGroupETL")
RECORDS: Final = 20_000
"""500,000 where its authors run them."""
TIMEOUT_S: Final = 170


def test_the_chains_of_groups_pass(tmp_path: Path) -> None:
    with LocalCluster(brokers=3, data_dir=tmp_path / "cluster") as cluster:
        done = subprocess.run(
            [
                *(str(FRANZ_GO_TESTS), "-test.v", f"-test.timeout={TIMEOUT_S}s"),
                f"-test.run=^({'|'.join(CHAINS)})$",
            ],
            env=os.environ
            | {
                "KGO_SEEDS": cluster.bootstrap_servers,
                "KGO_TEST_RECORDS": str(RECORDS),
                "KGO_LOG_LEVEL": "none",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    assert set(CHAINS) <= set(re.findall(r"--- PASS: (\w+)", done.stdout))
