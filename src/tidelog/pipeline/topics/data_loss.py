"""Records that are gone, and what that means to a query: its end, or a warning.

Whoever finds a loss reports it here and then goes on with what is there; whether that is allowed
(`failOnDataLoss`) is decided in this one place. Batches that are damaged rather than gone are
another matter, and `reader.py`'s own.
"""

import logging
from typing import Final

from tidelog.pipeline.errors import DataLoss
from tidelog.pipeline.values import ReadRules

_LOG: Final = logging.getLogger("tidelog.pipeline")


def fail_or_warn(loss: DataLoss, rules: ReadRules) -> None:
    """Raises the loss, unless the query may go on without the records."""
    if rules.fail_on_data_loss:
        raise loss
    _LOG.warning("%s: %s; goes on because `failOnDataLoss` is false", loss.wanted, loss.reason)
