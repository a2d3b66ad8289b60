"""Lost records, and what they mean for a query: its end, or a warning.

The code that finds a loss reports it here and then goes on with the records that are left. Only
this module decides whether that is allowed (`failOnDataLoss`). For damaged batches, `reader.py`
decides.
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
