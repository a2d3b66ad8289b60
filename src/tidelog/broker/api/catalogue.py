"""The APIs of a node: an import and an entry for each.

A new API is a file `kNN_name.py` with its declaration, and its two lines here (`CONTRIBUTING.md`).
Here mypy checks that the node has what each handler needs.
"""

from typing import Final, get_args

from tidelog.broker.api import (
    k00_produce,
    k01_fetch,
    k01_quorum_fetch,
    k02_list_offsets,
    k03_metadata,
    k10_find_coordinator,
    k18_api_versions,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k22_init_producer_id,
    k23_offset_for_leader_epoch,
    k32_describe_configs,
    k33_alter_configs,
    k35_describe_log_dirs,
    k37_create_partitions,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k45_alter_partition_reassignments,
    k46_list_partition_reassignments,
    k52_vote,
    k53_begin_quorum_epoch,
    k54_end_quorum_epoch,
    k55_describe_quorum,
    k56_alter_partition,
    k57_update_features,
    k58_envelope,
    k59_fetch_snapshot,
    k60_describe_cluster,
    k62_broker_registration,
    k63_broker_heartbeat,
    k64_unregister_broker,
    k67_allocate_producer_ids,
    k70_controller_registration,
    k73_assign_replicas_to_dirs,
    k75_describe_topic_partitions,
    k80_add_raft_voter,
    k81_remove_raft_voter,
    k82_update_raft_voter,
)
from tidelog.broker.api.registry import Registry
from tidelog.broker.context import Broker
from tidelog.controller.messages import Request

APIS: Final[Registry[Broker]] = Registry(
    (
        k00_produce.API,
        k01_fetch.API,
        k01_quorum_fetch.API,
        k02_list_offsets.API,
        k03_metadata.API,
        k10_find_coordinator.API,
        k18_api_versions.API,
        k19_create_topics.API,
        k20_delete_topics.API,
        k21_delete_records.API,
        k22_init_producer_id.API,
        k23_offset_for_leader_epoch.API,
        k32_describe_configs.API,
        k33_alter_configs.API,
        k35_describe_log_dirs.API,
        k37_create_partitions.API,
        k43_elect_leaders.API,
        k44_incremental_alter_configs.API,
        k45_alter_partition_reassignments.API,
        k46_list_partition_reassignments.API,
        k52_vote.API,
        k53_begin_quorum_epoch.API,
        k54_end_quorum_epoch.API,
        k55_describe_quorum.API,
        k56_alter_partition.API,
        k57_update_features.API,
        k58_envelope.API,
        k59_fetch_snapshot.API,
        k60_describe_cluster.API,
        k62_broker_registration.API,
        k63_broker_heartbeat.API,
        k64_unregister_broker.API,
        k67_allocate_producer_ids.API,
        k70_controller_registration.API,
        k73_assign_replicas_to_dirs.API,
        k75_describe_topic_partitions.API,
        k80_add_raft_voter.API,
        k81_remove_raft_voter.API,
        k82_update_raft_voter.API,
    )
)
APIS.require(get_args(Request))
