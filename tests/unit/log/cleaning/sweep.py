"""Crashes at every operation of rounds of cleaning, for many seeds.

    python -m tests.unit.log.cleaning.sweep --seeds 2000

A fresh first seed is drawn and printed. Exit code 1 when a seed fails.
"""

import argparse
import secrets
import time

from tests.unit.log.cleaning.test_swap import crash_at_every_operation

PRINT_EVERY = 100


def main() -> int:
    """Prints how many seeds were done, every hundred and at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many")
    parser.add_argument("--first", type=int, default=secrets.randbelow(1 << 31))
    options = parser.parse_args()
    begin, crashes, idle, failed = time.monotonic(), 0, 0, 0
    for count in range(1, options.seeds + 1):
        seed = options.first + count - 1
        try:
            found = crash_at_every_operation(seed)
        except Exception as error:
            failed += 1
            print(f"seed {seed} failed: {type(error).__name__}: {error}", flush=True)
            continue
        crashes += found
        idle += not found
        if count % PRINT_EVERY == 0 or count == options.seeds:
            spent = f"{time.monotonic() - begin:.0f} s"
            text = f"{count} seeds from {options.first}: {crashes} crashes, {idle} seeds with"
            print(f"{text} nothing to clean, {failed} failed, {spent}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
