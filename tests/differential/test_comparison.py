"""Answers are compared without what each broker makes up, and nothing else is overlooked."""

from uuid import UUID

from tests.differential.comparison import Names, canonical, differences
from tests.differential.steps import Name, Ref, resolve


def compared(kafka, tidelog):
    """The differences of two sequences of answers."""
    names = Names(), Names()
    return [
        tuple(each)
        for one, other in zip(kafka, tidelog, strict=True)
        for each in differences(canonical(one, names[0], "a-"), canonical(other, names[1], "b-"))
    ]


def test_ids_are_equal_if_they_stand_in_the_same_places():
    def run(first, second, prefix):
        members = [{"member_id": second, "metadata": b"2"}, {"member_id": first, "metadata": b"1"}]
        members.sort(key=lambda row: row["member_id"])
        return [
            {"member_id": first, "group_id": f"{prefix}g", "throttle_time_ms": len(first)},
            {"leader": first, "members": members, "error_code": 0},
        ]

    assert not compared(run("x", "yyy", "a-"), run("q", "p", "b-"))
    found = compared([{"member_id": "x"}, {"leader": "x"}], [{"member_id": "p"}, {"leader": "q"}])
    assert found == [("leader", '"<member_id 0>"', '"<leader 1>"')]


def test_every_other_field_counts():
    one = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 5}]}]}
    other = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 6}]}]}
    assert compared([one], [other]) == [("topics.partitions.offset", "5", "6")]
    assert compared([one], [{"topics": []}])
    assert compared([one], ["the connection was closed"])


def test_what_other_runs_left_is_not_compared():
    ours, theirs = {"group_id": "a-g"}, {"group_id": "run-7-g"}
    assert not compared([{"groups": [ours, theirs]}], [{"groups": [{"group_id": "b-g"}]}])


def test_the_ends_of_internal_topics_are_not_compared():
    def ended(*rows):
        return [{"topics": [{"name": name, "partitions": [{"offset": end}]} for name, end in rows]}]

    assert not compared(ended(("__state", 3), ("a-t", 5)), ended(("b-t", 5), ("__state", 4)))
    assert compared(ended(("__state", 3), ("a-t", 5)), ended(("b-t", 6), ("__state", 3)))


def test_aborted_transactions_count_as_far_as_both_have_records():
    first, second = ({"last_offset": each} for each in (3, 8))
    aborted = [{"producer_id": "<one>", "first_offset": 5}]
    short = {"records": [first], "aborted_transactions": []}
    long = {"records": [first, second], "aborted_transactions": aborted}
    assert not list(differences(short, long)) and not list(differences(long, short))
    assert list(differences(long, {**long, "aborted_transactions": []}))


def test_a_reference_is_what_the_newest_answer_gave():
    ref = Ref(((3, ("members", 0, "id")), (1, ("id",))), "none", 0)
    assert resolve([ref, Name("g")], {1: {"id": "one"}}, "p-") == ("one", "p-g")
    assert resolve(ref, {1: {"id": "one"}, 3: {"members": [{"id": "x"}]}}, "") == "x"
    assert resolve(ref, {3: "the connection was closed"}, "") == "none"
    assert resolve(Ref(((1, ("epoch",)),), -1, 1), {1: {"epoch": 4}}, "") == 5


def test_a_reference_to_a_row_finds_it_by_its_name():
    ref = Ref(((1, ("topics", Name("t"), "id")),), b"")
    rows = [{"name": "p-s", "id": b"1"}, {"name": "p-t", "id": b"2"}]
    assert resolve(ref, {1: {"topics": rows}}, "p-") == b"2"
    assert resolve(ref, {1: {"topics": rows[:1]}}, "p-") == b""


def test_members_that_are_not_known_yet_are_ordered_by_their_clients():
    ids = [str(UUID(int=each)) for each in range(4)]

    def led(first, second):
        rows = [{"member_id": f"client-0-{first}"}, {"member_id": f"client-1-{second}"}]
        return [{"members": sorted(rows, key=lambda row: row["member_id"][-36:])}, *rows]

    assert not compared(led(ids[0], ids[1]), led(ids[3], ids[2]))
