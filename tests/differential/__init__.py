"""The same requests to Apache Kafka 4.3.1 and to Tidelog, and where the answers differ.

    make differential
    python -m tests.differential --seed 4711 --steps 2000
    python -m tests.differential --only recorded

`recorded.py` has the sequences that real clients and tools once sent to Apache Kafka, and
`generator.py` draws others from a seed. `running.py` sends a sequence to one broker of each kind,
step by step, and compares the answers field by field (`comparison.py`). A difference that comes
again is shrunk to the fewest steps that show it (`shrinking.py`). Those that we know and keep are
in `known.py`, with the reason; `docs/compat.md` is made from it.
"""
