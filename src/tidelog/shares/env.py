"""What the parts of one share coordinator share, over that of all (`rsm/coordinator.py`)."""

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.config import SharesConfig
from tidelog.model import TopicId
from tidelog.rsm.coordinator import CoordinatorEnv
from tidelog.rsm.kernel import Kernel
from tidelog.rsm.log_records import LogRecord
from tidelog.shares.image import SharesImage
from tidelog.shares.messages import Response
from tidelog.shares.records import ShareRecord

SharesKernel = Kernel[SharesImage, ShareRecord | None, LogRecord, Response]


@dataclass(eq=False, kw_only=True)
class Env(CoordinatorEnv[SharesImage, ShareRecord | None, Response]):
    """The surroundings of the parts of one coordinator."""

    config: SharesConfig
    # How many partitions a topic has in the newest metadata; 0 for one that does not exist.
    partition_count: Callable[[TopicId], int]
