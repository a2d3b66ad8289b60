"""What parts of replication are made with, without the other parts."""

from dataclasses import replace

from tests.unit.log.harness import LogBench
from tidelog.env.trace import Trace
from tidelog.log.directories import LogDirectories
from tidelog.replication.brokers import BrokerEpochs
from tidelog.replication.measures import Measures
from tidelog.replication.shared import Env
from tidelog.replication.throttle import Throttles
from tidelog.replication.turn_work import TurnWork
from tidelog.sim.replicas.cluster import CONFIG


def make_env(bench: LogBench, broker_epoch: int = 7) -> Env:
    """Of broker 1, which asks the controller again after 50 ms."""
    config, trace, brokers = (
        replace(CONFIG, alter_partition_retry_ms=50),
        Trace(bench.trace),
        BrokerEpochs(),
    )
    brokers.own_epoch = broker_epoch
    work = TurnWork(config.metadata_work_per_turn)
    throttles, measures = Throttles(1, config), Measures(trace)
    return Env(
        1, config, brokers, trace, LogDirectories.of_one(bench.directory), throttles, measures, work
    )
