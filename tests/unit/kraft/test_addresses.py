"""Where other replicas are reached."""

from tidelog.kraft.addresses import Addresses
from tidelog.kraft.messages import VoterIdentity
from tidelog.kraft.voters import VoterHistory
from tidelog.model import ZERO_UUID, Endpoint


def addresses(*own: Endpoint) -> Addresses:
    """Of replica 1 with these listeners."""
    return Addresses(VoterIdentity(1, ZERO_UUID, "tidelog-test", own), VoterHistory({}), ())


def test_of_several_listeners_the_one_that_voters_use_is_dialled() -> None:
    """By its name, wherever it stands in the list; a node that has none takes the first."""
    other, usual = Endpoint("SECURE", "n4", 9999), Endpoint("CONTROLLER", "n4", 9093)
    assert addresses().choose((other, usual)) == other
    mine = addresses(Endpoint("CONTROLLER", "n1", 9093))
    assert mine.choose((other, usual)) == usual
    assert mine.choose((other,)) == other
