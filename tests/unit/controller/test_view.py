"""What every decider may ask of its view."""

from dataclasses import replace

import pytest

from tests.unit.controller.harness import CONFIG, a_broker, a_view, an_image, directory_of
from tidelog.errors import ErrorCode, ProtocolError
from tidelog.metadata.image import ConfigResource
from tidelog.metadata.records import NoOpRecord
from tidelog.model import ZERO_UUID


def test_the_broker_epoch_names_one_life() -> None:
    """Goal: only the registered epoch passes; both directions of stale are the same code."""
    view = a_view(an_image(a_broker(1)))
    assert view.check_broker_epoch(1, 10) is view.image.brokers[1]
    for broker_id, epoch in ((1, 9), (1, 11), (2, 10)):
        with pytest.raises(ProtocolError) as caught:
            view.check_broker_epoch(broker_id, epoch)
        assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_an_atomic_operation_fits_into_a_batch() -> None:
    """Goal: the bound itself fits, one more does not."""
    view = a_view(an_image(), config=replace(CONFIG, max_records_per_batch=3))
    view.check_atomic([NoOpRecord()] * 3)
    with pytest.raises(ProtocolError) as caught:
        view.check_atomic([NoOpRecord()] * 4)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_the_directory_of_a_new_replica() -> None:
    """Goal: the only directory is named; several or none leave it to the broker."""
    several = a_broker(2, log_dirs=(directory_of(2), directory_of(3)))
    view = a_view(an_image(a_broker(1), several, a_broker(4, log_dirs=())))
    found = [view.directory_of(broker_id) for broker_id in (1, 2, 4)]
    assert found == [directory_of(1), ZERO_UUID, ZERO_UUID]


def test_config_levels() -> None:
    """Goal: the topic's value wins over the cluster's, the cluster's over the file's."""
    levels = {
        ConfigResource(4, ""): {
            "min.insync.replicas": "3",
            "unclean.leader.election.enable": "true",
        },
        ConfigResource(2, "orders"): {
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
        },
    }
    view = a_view(an_image(configs=levels))
    assert (view.min_isr("orders"), view.min_isr("other")) == (1, 3)
    assert not view.unclean_election_enabled("orders")
    assert view.unclean_election_enabled("other")
    bare = a_view(an_image())
    assert bare.min_isr("orders") == CONFIG.min_insync_replicas
    assert not bare.unclean_election_enabled("orders")
