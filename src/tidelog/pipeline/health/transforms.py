"""The health of replication, computed from events: pure transforms, batch form.

**Sources.** A partition's metadata (leader, ISR, replicas) comes from the controller's events, in
the order of `partition_epoch`, which does not depend on a clock. What a leader did (first advance,
stalls, commits) comes from that leader's events, in the order of its own `seq`. The two are joined
by leader epoch, never by time.

**Durations.** Two times are subtracted only if their `clock` is the same: one machine's monotonic
clock. Else the duration is null, and the interval is counted as not measured. Wall times (`start`,
`end`) are there to be read, and to draw; nothing is computed from them but the hours that a rate is
per.

**Intervals.** A condition that begins and ends is a row `INTERVAL`. It is found as an island: rows
in order, the condition's flag on each, a change of the flag begins or ends an interval. What is not
over has `end` null.

| kind | holds while | reported by |
| --- | --- | --- |
| under_replicated | the ISR is smaller than the replicas | controller |
| under_min_isr | the ISR is smaller than the min ISR: acks=all is refused | controller |
| leaderless | there is no leader | controller |
| hw_stalled | acknowledgements wait and the high watermark stands still | leader |
| unavailable | the old leader is lost, and no new one serves | controller, then leader |

This form is the oracle of the streaming one (`stream.py`): same rows for the same events.
Left out: a partition's state before its first event (until then it is taken to be fully
replicated), and topics that were deleted and created again within the events, because leaders'
events have no topic id.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidelog.env.event import Kind
from tidelog.pipeline.health.tracker import CONDITIONS, STATE_KINDS

INTERVAL: Final = (
    "topic string, partition int, kind string, leader_epoch int, start timestamp, "
    "end timestamp, duration_ms double, cause string, broker int"
)
COMMIT: Final = (
    "topic string, partition int, leader int, leader_epoch int, offset bigint, at timestamp, "
    "latency_ms double"
)
ELECTION: Final = (
    "topic string, partition int, leader_epoch int, old_leader int, new_leader int, at timestamp, "
    "cause string, outcome string, controller int, noticed_ms double, leading_ms double, "
    "commit_ms double, election_ms double, unclean boolean"
)
_PLACE: Final = ("topic", "partition")
_PARTITION: Final = ("topic", "topic_id", "partition")
_TERM: Final = (*_PLACE, "leader_epoch")
_MOMENT: Final = ("ts_us", "mono_us", "clock")
_REPORTED: Final = (*_MOMENT, "broker")
"""When which node reported an event."""
_FOR_EVER: Final = 2**31 - 1


def _elapsed_ms(start: str, end: str) -> Column:
    """From one struct (clock, mono_us) to another; null unless both are of one clock."""
    same = F.col(f"{start}.clock") == F.col(f"{end}.clock")
    micros = F.col(f"{end}.mono_us") - F.col(f"{start}.mono_us")
    return F.when(same, micros / 1000.0)


def partition_states(events: DataFrame) -> DataFrame:
    """The controllers' events about each partition, and a last row for topics that were deleted."""
    payload = F.col("payload")
    states = events.where(F.col("kind").isin(*STATE_KINDS)).select(
        *_PLACE,
        "payload.topic_id",
        "payload.partition_epoch",
        *_REPORTED,
        "leader_epoch",
        (F.size(payload["isr"]) < F.size(payload["replicas"])).alias("under_replicated"),
        (F.size(payload["isr"]) < payload["min_isr"]).alias("under_min_isr"),
        (payload["leader"] < 0).alias("leaderless"),
        "payload.cause",
    )
    deleted = events.where(F.col("kind") == Kind.TOPIC_DELETED).select(
        "topic", "payload.topic_id", *_REPORTED
    )
    ends = states.select(*_PARTITION).distinct().join(deleted, ["topic", "topic_id"])
    last = ends.select(
        *_PARTITION,
        *_REPORTED,
        F.lit(_FOR_EVER).alias("partition_epoch"),
        F.lit(None).cast("int").alias("leader_epoch"),
        *(F.lit(False).alias(condition) for condition in CONDITIONS),
        F.lit(None).cast("string").alias("cause"),
    )
    return states.unionByName(last)


def condition_intervals(states: DataFrame) -> DataFrame:
    """`INTERVAL` rows of the three conditions that the controllers report."""
    flags = F.array(
        *(F.struct(F.lit(kind).alias("kind"), F.col(kind).alias("on")) for kind in CONDITIONS)
    )
    rows = states.select("*", F.explode(flags).alias("flag")).select("*", "flag.kind", "flag.on")
    return _islands(rows, (*_PARTITION, "kind"), ("partition_epoch", "ts_us"))


def stall_intervals(events: DataFrame) -> DataFrame:
    """`INTERVAL` rows of stalls of the high watermark, each on its leader's clock."""
    kinds = (Kind.HW_STALL, Kind.HW_ADVANCE, Kind.LEADING, Kind.FOLLOWING)
    stalled = F.col("kind") == Kind.HW_STALL
    began = F.when(stalled, F.col("payload.for_ms") * 1000).otherwise(0)
    life = ("broker", "incarnation", *_PLACE)
    # The newest term that the broker reported: a stall does not name its own.
    term = F.last("leader_epoch", ignorenulls=True).over(Window.partitionBy(*life).orderBy("seq"))
    rows = events.where(F.col("kind").isin(*kinds)).select(
        *life,
        "seq",
        (F.col("ts_us") - began).alias("ts_us"),
        (F.col("mono_us") - began).alias("mono_us"),
        "clock",
        term.alias("leader_epoch"),
        stalled.alias("on"),
        F.lit("hw_stalled").alias("kind"),
        stall_cause(F.col("payload")).alias("cause"),
    )
    return _islands(rows, (*life, "kind"), ("seq",))


def stall_cause(payload: Column) -> Column:
    """The leader's reason, with the replicas that it waited for."""
    followers = F.array_join(payload["followers"].cast("array<string>"), ",")
    waited = F.concat(payload["reason"], F.lit(": "), followers)
    return F.when(F.size(payload["followers"]) > 0, waited).otherwise(payload["reason"])


def _islands(rows: DataFrame, key: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Where `on` changes an interval begins or ends."""
    history = Window.partitionBy(*key).orderBy(*order)
    turned = F.col("on") != F.lag("on", 1, False).over(history)
    spans = (
        rows.where("on is not null")
        .withColumn("turned", turned)
        .where("turned")
        .withColumn("began", F.struct(*_MOMENT))
        .withColumn("ended", F.lead(F.struct(*_MOMENT)).over(history))
        .where("on")
    )
    return _as_intervals(spans)


def _as_intervals(spans: DataFrame) -> DataFrame:
    """`INTERVAL` of rows whose moments `began` and `ended` are structs (ts_us, mono_us, clock)."""
    return spans.select(
        *_PLACE,
        "kind",
        "leader_epoch",
        F.timestamp_micros("began.ts_us").alias("start"),
        F.timestamp_micros("ended.ts_us").alias("end"),
        _elapsed_ms("began", "ended").alias("duration_ms"),
        "cause",
        "broker",
    )


def intervals(events: DataFrame) -> DataFrame:
    return condition_intervals(partition_states(events)).unionByName(stall_intervals(events))


def leader_changes(events: DataFrame) -> DataFrame:
    """Every decision that gave a partition another leader, or none, with the moments around it.

    `lost`: the deciding controller lost contact with the old leader, and had not found it again.
    `decided`. `led` and `advanced`: the new leader's start and its first advance, as it reported
    them.
    `served`: the moment from which it could acknowledge what clients had not seen before.
    """
    changes = events.where(
        (F.col("kind") == Kind.ELECTION) & (F.col("payload.leader") != F.col("payload.old_leader"))
    ).select(
        *_TERM,
        "payload.old_leader",
        F.col("payload.leader").alias("new_leader"),
        "payload.cause",
        F.col("payload.reason").alias("outcome"),
        F.col("broker").alias("controller"),
        "incarnation",
        "seq",
        F.struct(*_MOMENT).alias("decided"),
    )
    return _with_lost_contact(changes, events).join(_terms(events), list(_TERM), "left")


def _with_lost_contact(changes: DataFrame, events: DataFrame) -> DataFrame:
    contacts = events.where(
        F.col("kind").isin(Kind.LOST_CONTACT, Kind.REACHED, Kind.UNFENCED)
    ).select(
        F.col("broker").alias("controller"),
        "incarnation",
        F.col("payload.node").alias("old_leader"),
        F.struct("seq", "kind", *_MOMENT).alias("contact"),
    )
    joined = changes.join(contacts, ["controller", "incarnation", "old_leader"], "left")
    before = F.when(F.col("contact.seq") < F.col("seq"), F.col("contact"))
    newest = joined.groupBy(*changes.columns).agg(F.max(before).alias("contact"))
    lost = F.when(F.col("contact.kind") == Kind.LOST_CONTACT, F.col("contact"))
    return newest.withColumn("lost", lost).drop("contact")


def _terms(events: DataFrame) -> DataFrame:
    leads, advances = F.col("kind") == Kind.LEADING, F.col("kind") == Kind.HW_ADVANCE
    starts = F.max(F.when(leads, F.col("payload.epoch_start"))).over(Window.partitionBy(*_TERM))
    serves = F.col("payload.high_watermark") >= F.col("epoch_start")
    found = {"led": leads, "advanced": advances, "served": serves}
    rows = events.where(leads | advances).withColumn("epoch_start", starts)
    return rows.groupBy(*_TERM).agg(
        *(F.min(F.when(at, F.struct(*_MOMENT))).alias(name) for name, at in found.items())
    )


def elections(changes: DataFrame) -> DataFrame:
    """`ELECTION`, a row per decision of `leader_changes`.

    `noticed_ms`: from the loss of contact to the decision. `leading_ms`: from the decision to the
    new leader's start. `commit_ms`: from there to its first advance, on that leader's clock.
    `election_ms`: from the decision, which is the fencing where that was the cause, to there.
    """
    return changes.select(
        *_TERM,
        "old_leader",
        "new_leader",
        F.timestamp_micros("decided.ts_us").alias("at"),
        "cause",
        "outcome",
        "controller",
        _elapsed_ms("lost", "decided").alias("noticed_ms"),
        _elapsed_ms("decided", "led").alias("leading_ms"),
        _elapsed_ms("led", "advanced").alias("commit_ms"),
        _elapsed_ms("decided", "advanced").alias("election_ms"),
        F.col("outcome").contains("unclean").alias("unclean"),
    )


def unavailability(changes: DataFrame) -> DataFrame:
    """`INTERVAL` rows of kind `unavailable`: from the loss of a leader to the next one that serves.
    It begins when the controller lost contact with the old leader, or, where it did not, with its
    decision. Terms in between that never served belong to the same window."""
    in_order = Window.partitionBy(*_PLACE).orderBy("leader_epoch")
    onward = in_order.rowsBetween(0, Window.unboundedFollowing)
    lost = F.struct(*(F.col(f"lost.{field}").alias(field) for field in _MOMENT))
    began = F.coalesce(F.when(F.col("lost").isNotNull(), lost), F.col("decided"))
    windows = (
        changes.withColumn("ended", F.first("served", ignorenulls=True).over(onward))
        .withColumn("began", began)
        .where("old_leader >= 0")
    )
    term = F.struct("began", "leader_epoch", "cause", F.col("old_leader").alias("broker"))
    first = windows.groupBy(*_PLACE, "ended").agg(F.min_by(term, "leader_epoch").alias("first"))
    unavailable = F.lit("unavailable").alias("kind")
    return _as_intervals(first.select(*_PLACE, unavailable, "ended", "first.*"))


def commits(events: DataFrame) -> DataFrame:
    """`COMMIT`: sampled appends that were committed, each timed by its leader's own clock."""
    appended = F.when(F.col("kind") == Kind.APPEND, F.struct("mono_us", "ts_us"))
    advanced = F.when(F.col("kind") == Kind.HW_ADVANCE, F.col("mono_us"))
    sampled = events.where(
        F.col("kind").isin(Kind.APPEND, Kind.HW_ADVANCE) & F.col("payload.required").isNotNull()
    )
    pairs = sampled.groupBy(*_TERM, "broker", "incarnation", "payload.required").agg(
        F.min(appended).alias("appended"), F.min(advanced).alias("advanced_us")
    )
    return pairs.where("appended is not null and advanced_us is not null").select(
        *_PLACE,
        F.col("broker").alias("leader"),
        "leader_epoch",
        F.col("required").alias("offset"),
        F.timestamp_micros("appended.ts_us").alias("at"),
        ((F.col("advanced_us") - F.col("appended.mono_us")) / 1000.0).alias("latency_ms"),
    )


def latency_by_leader(committed: DataFrame) -> DataFrame:
    """A row per `leader`: `samples`, `p50_ms`, `p99_ms`, `p999_ms`, `max_ms`."""
    return committed.groupBy("leader").agg(
        F.count("*").alias("samples"),
        F.percentile("latency_ms", 0.5).alias("p50_ms"),
        F.percentile("latency_ms", 0.99).alias("p99_ms"),
        F.percentile("latency_ms", 0.999).alias("p999_ms"),
        F.max("latency_ms").alias("max_ms"),
    )


def followers(events: DataFrame) -> DataFrame:
    """A row per `follower`, the worst first: `samples`, `held_back`, `max_lag`, `silent_ms`.
    `held_back`: sampled advances that went only as far as this follower had fetched, though the
    leader had more. `silent_ms`: the longest that a leader had not seen it level."""
    payload, advances = F.col("payload"), F.col("kind") == Kind.HW_ADVANCE
    # Null instead of an array would make all of it null.
    level = F.coalesce(payload["level_ms_ago"], F.array().cast("array<bigint>"))
    each = F.arrays_zip(payload["followers"], payload["log_ends"], level.alias("level_ms_ago"))
    reported = events.where(F.col("kind").isin(Kind.HW_ADVANCE, Kind.FETCH_LAG)).select(
        "kind",
        payload["log_end"].alias("leader_end"),
        "payload.high_watermark",
        F.explode(each).alias("one"),
    )
    follower_end, leader_end = F.col("one.log_ends"), F.col("leader_end")
    mark = F.col("high_watermark")
    rows = reported.select(
        F.col("one.followers").alias("follower"),
        F.when(advances, leader_end - follower_end).alias("lag"),
        (advances & (follower_end == mark) & (leader_end > mark)).alias("held"),
        F.nullif(F.col("one.level_ms_ago"), F.lit(-1)).alias("silent_ms"),
    )
    summed = rows.groupBy("follower").agg(
        F.count("lag").alias("samples"),
        F.count_if(F.col("held")).alias("held_back"),
        F.max("lag").alias("max_lag"),
        F.max("silent_ms").alias("silent_ms"),
    )
    return summed.orderBy(F.desc_nulls_last("silent_ms"), F.desc("held_back"), "follower")


def flaps(events: DataFrame) -> DataFrame:
    """How often each replica of a partition `left` the ISR and `returned`, and how often it left
    `per_hour` of the events."""
    span = events.agg(((F.max("ts_us") - F.min("ts_us")) / 3.6e9).alias("hours"))
    changes = events.where(F.col("kind").isin(Kind.ELECTION, Kind.ISR_CHANGE))

    def moves(before: str, after: str, out: bool) -> DataFrame:
        gone = F.array_except(f"payload.{before}", f"payload.{after}")
        return changes.select(*_PLACE, F.explode(gone).alias("replica"), F.lit(out).alias("out"))

    both = moves("old_isr", "isr", True).unionByName(moves("isr", "old_isr", False))
    counted = both.groupBy(*_PLACE, "replica").agg(
        F.count_if(F.col("out")).alias("left"), F.count_if(~F.col("out")).alias("returned")
    )
    per_hour = F.when(F.col("hours") > 0, F.round(F.col("left") / F.col("hours"), 3))
    columns = (*_PLACE, "replica", "left", "returned", per_hour.alias("per_hour"))
    return counted.crossJoin(F.broadcast(span)).select(*columns)


def by_condition(spans: DataFrame) -> DataFrame:
    """What the `INTERVAL` rows of each kind add up to."""
    return spans.groupBy("kind").agg(
        F.count("*").alias("intervals"),
        F.count_if(F.col("end").isNull()).alias("open"),
        F.count_if(F.col("end").isNotNull() & F.col("duration_ms").isNull()).alias("unmeasured"),
        F.round(F.coalesce(F.sum("duration_ms"), F.lit(0.0)) / 60_000, 4).alias("minutes"),
        F.percentile("duration_ms", 0.5).alias("p50_ms"),
        F.max("duration_ms").alias("max_ms"),
    )


def of_topics(events: DataFrame, topics: Sequence[str]) -> DataFrame:
    """Events of these topics, and those of no topic."""
    return events.where(F.col("topic").isNull() | F.col("topic").isin(*topics))


def not_over_before(spans: DataFrame, moment: Column) -> DataFrame:
    """Intervals that are open, or ended at `moment` or later."""
    return spans.where(F.col("end").isNull() | (F.col("end") >= moment))
