"""`docs/compat.md` is true: nothing is listed that no foreign client and no sequence tries."""

from tools.reference.compatibility import (
    clients_of,
    kafka_broker_configs,
    kafka_versions,
    our_broker_configs,
)

from tests.differential.generator import DRAWS
from tests.differential.known import KNOWN
from tidelog.broker.api.catalogue import APIS
from tidelog.broker.api.declaration import Listener
from tidelog.config.known_names import KNOWN_NAMES


def test_every_listed_api_is_tried():
    listed = APIS.advertised(Listener.BROKER)
    untried = [key.name for key in listed if key not in DRAWS and not clients_of(key)]
    assert not untried, "let the differential run draw it: tests/differential/*_steps.py"


def test_nothing_is_listed_that_kafka_does_not_list():
    kafka = kafka_versions()
    for key, (low, high) in APIS.advertised(Listener.BROKER).items():
        assert kafka[key].min_version <= low and high <= kafka[key].max_version, key.name


def test_differences_are_of_apis_that_both_serve():
    listed = APIS.advertised(Listener.BROKER)
    assert all(known.api is None or known.api in listed for known in KNOWN)


def test_every_property_that_a_broker_does_not_list_is_accepted_and_said_to_have_no_effect():
    left_out = kafka_broker_configs() - our_broker_configs()
    assert len(kafka_broker_configs()) > 300
    assert left_out <= KNOWN_NAMES
