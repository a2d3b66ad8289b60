"""Damaged frames by the million: `python -m tests.fuzz`, `make fuzz`.

The first part sends them to a node without a process, the second one over sockets, half of them
through TLS, to a node that is one (`sockets`). The seed is fresh and printed; a failure names its
case. Exit code 1 when a node failed, when a request was neither answered nor its connection closed,
or when the memory of a node grew beyond the bound.
"""

import argparse
import json
import secrets
import time
from pathlib import Path
from typing import Any

from tests.fuzz.sockets import try_sockets
from tests.fuzz.strangers import Door

GROWTH_MB = 64
"""How much memory a node may gain after the first tenth."""
_ROUND = 10_000


def resident_mb(pid: int | str = "self") -> float:
    """What a process holds in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)


def try_in_process(frames: int, seed: int, seconds: float) -> dict[str, Any]:
    """So many damaged frames, or as many as there is time for."""
    door, begun, case, at_tenth = Door(), time.monotonic(), seed, 0.0
    while door.damaged < frames and time.monotonic() < begun + seconds:
        door.open(range(case, case + _ROUND))
        case += _ROUND
        if not at_tenth and (door.damaged > frames / 10 or time.monotonic() > begun + seconds / 10):
            at_tenth = resident_mb()
        print(f"{door.damaged} frames, {resident_mb():.0f} MB", flush=True)
    return {
        "cases": [seed, case],
        "damaged_frames": door.damaged,
        "seconds": round(time.monotonic() - begun),
        "memory_mb": [round(at_tenth), round(resident_mb())],
    }


def main() -> int:
    """Runs both parts and prints what they did."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=10_000_000, help="without a process")
    parser.add_argument("--socket-frames", type=int, default=1_000_000, help="over sockets")
    parser.add_argument("--seed", type=int, default=secrets.randbits(40), help="of the first case")
    parser.add_argument("--minutes", type=float, default=60, help="of each part, at most")
    parser.add_argument("--json", type=Path, help="write the result here as well")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    result: dict[str, Any] = {"seed": options.seed}
    seconds = options.minutes * 60
    if options.frames:
        result["in_process"] = try_in_process(options.frames, options.seed, seconds)
    if options.socket_frames:
        result["sockets"] = try_sockets(options.socket_frames, options.seed, seconds, resident_mb)
    text = json.dumps(result, indent=1)
    print(text)
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")
    parts = [part for name, part in result.items() if name != "seed"]
    grown = any(part["memory_mb"][1] - part["memory_mb"][0] > GROWTH_MB for part in parts)
    return int(grown or any(part.get("failures") for part in parts))


if __name__ == "__main__":
    raise SystemExit(main())
