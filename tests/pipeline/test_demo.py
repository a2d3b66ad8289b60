"""The whole main job on a user's file with bad lines, as its `tidelog demo` would run it."""

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from tests.unit.cli.command import tidelog

pytestmark = [pytest.mark.process, pytest.mark.spark]


def test_a_users_file_survives_the_death_of_a_leader(tmp_path):
    lines = [f"C{number % 40},{number},{number / 8}" for number in range(4000)]
    lines[100] = "C1,only two"
    lines[2000:2000] = ["", "C2,1,2,3"]
    file = tmp_path / "orders.csv"
    file.write_text("\n".join(["customer,number,amount", *lines]) + "\n")
    arguments = f"--input {file} --key-field customer --output json --data-dir out"
    done = subprocess.run(
        [sys.executable, "-m", "tidelog.cli.main", "demo", *arguments.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout.splitlines()[-1])
    for name in ("lost", "duplicated", "misplaced", "offset_gaps", "order_violations"):
        assert verdict[name] == 0, verdict
    assert verdict["records"] == verdict["acknowledged"] == verdict["read"] == 3999
    assert verdict["unreadable_lines"] == 3
    assert verdict["replicas_identical"] is True
    assert 0 < verdict["failover_ms"] < 60_000
    assert 0 < verdict["isr_restored_ms"] < 60_000
    acknowledged = pq.read_table(tmp_path / "out" / "ledger.parquet")
    assert sorted(acknowledged.column("sequence").to_pylist()) == list(range(3999))
    assert not (tmp_path / "out" / "cluster").exists()
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--input", "nowhere.csv"), "`nowhere.csv` is not a file"),
        (("--input", "empty.csv"), "no header line"),
        (("--data-dir", "file.txt"), "`file.txt` cannot be made"),
        (("--data-dir", "kept"), "holds the nodes of an earlier run"),
        (("--brokers", "2"), "--brokers"),
    ],
)
def test_wrong_use_is_one_message_and_starts_nothing(
    tmp_path, monkeypatch, capsys, arguments, message
):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "file.txt").touch()
    (tmp_path / "kept" / "cluster").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    done = tidelog(capsys, "demo", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "hint: " in done.err
    assert "Traceback" not in done.err
