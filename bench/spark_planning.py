"""What the driver pays to plan a batch over very many partitions: time, memory, the JSON offset.

    python -m bench.spark_planning --topics 100 --partitions 1000

The client is the pipeline's own, but it answers from memory: no broker takes part, and no bytes are
decoded. Each partition has twenty offsets more than the batch before had read. Two passes: one is
timed, the other is watched by `tracemalloc`, which makes it several times slower.
"""

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.client.core.partitions import Leader, Metadata
from tidelog.client.core.values import EARLIEST, Address
from tidelog.model import TopicId, TopicPartition
from tidelog.pipeline.cluster import Client
from tidelog.pipeline.topics import stream
from tidelog.pipeline.topics.options import parse_options
from tidelog.pipeline.topics.plan import into_tasks
from tidelog.pipeline.topics.stream_offsets import Position

END = 1_234_567
NEW = 20


class ClientFromMemory(Client):
    """Every partition has offsets up to `END`."""

    def __init__(self, topics: int, partitions: int) -> None:
        super().__init__([Address("localhost", 1)])
        leaders = {
            TopicPartition(f"events-{topic:03}", partition): Leader(
                TopicId(topic.to_bytes(16)), partition % 3 + 1, 7
            )
            for topic in range(1, topics + 1)
            for partition in range(partitions)
        }
        self._all = Metadata({}, leaders)

    def refresh(self, topics: Sequence[str] | None) -> Metadata:
        """Everything, whatever was asked for."""
        self.known = self._all
        return self._all

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """First and last offsets."""
        return {tp: 0 if time == EARLIEST else END for tp, time in timestamps.items()}


def plan(client: ClientFromMemory) -> dict[str, int]:
    """All that a batch asks of the source in the driver, offsets through JSON as Spark does it."""
    options = parse_options(
        {"kafka.bootstrap.servers": "localhost:1", "subscribePattern": "events-.*"}, streaming=True
    )
    partitions = options.subscription.find(client)
    ids = client.known.topic_ids()
    before = json.dumps(Position(dict.fromkeys(partitions, END - NEW), ids).to_json())
    start = Position.from_json(json.loads(before))
    end = stream.next_position(options, client, start, stream.available(options, client), None)
    after = json.dumps(end.to_json())
    ranges = stream.plan_batch(options, client, start, Position.from_json(json.loads(after)))
    tasks = into_tasks(ranges, options.sizes)
    return {"partitions": len(partitions), "tasks": len(tasks), "offset_bytes": len(after)}


def planning_cost(topics: int, partitions: int) -> dict[str, Any]:
    """Seconds by the clock and of the processor, the largest memory meanwhile, and sizes."""
    client = ClientFromMemory(topics, partitions)
    plan(ClientFromMemory(1, 10))
    begun, cpu_begun = time.monotonic(), time.process_time()
    found = plan(client)
    seconds, cpu_s = time.monotonic() - begun, time.process_time() - cpu_begun
    tracemalloc.start()
    plan(client)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    took = {"seconds": round(seconds, 2), "cpu_s": round(cpu_s, 2)}
    return {**took, "peak_mb": round(peak / 1e6, 1), **found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=1_000, help="of each topic")
    arguments = parser.parse_args()
    print(json.dumps(planning_cost(arguments.topics, arguments.partitions)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
