"""Every bound of the core in one place, each with the behaviour at the bound.

A bound is a promise that memory and work stay finite whatever a peer sends. Packages import their
bounds from here and nowhere else.
"""

from typing import Final

MAX_REQUEST_BYTES: Final = 100 << 20
"""`socket.request.max.bytes`: a larger frame closes the connection."""

MAX_ARRAY_ENTRIES: Final = 1 << 20
"""Entries of one array in a request, response or metadata record; a longer one is malformed."""

MAX_IN_FLIGHT_REQUESTS: Final = 256
"""Requests of one connection that wait for an answer; at the bound reading is paused."""

MAX_REQUESTS_PER_TURN: Final = 32
"""Requests of one connection handled in a row; those behind wait for its next turn, unread bytes
for longer, so that a client that sends without end cannot keep the node from everything else."""

MAX_HELD_REQUEST_BYTES: Final = 256 << 20
"""`queued.max.request.bytes` where it is not given: requests of a node that have not come as a
whole, or wait for their turn; beyond it the connection is closed whose request is under way for
longest."""

MAX_FETCHED_BYTES: Final = 2 << 20
"""Records of one answer to a consumer, however much it asks for, but at least one batch: to read,
check and encrypt them takes a node some milliseconds."""

SHARED_FETCHED_BYTES: Final = 512 << 10
"""The same while more connections wait than get a turn in one tick: the turns are shorter then, and
there are more of them."""

FIRST_FETCHED_BYTES: Final = 256 << 10
"""The same of the first answer on a connection: each that was taken doubles what the next may have,
so a client that reads nothing makes a node read little."""

MAX_TURNS_PER_TICK: Final = 8
"""Connections with requests left over that get a turn in one tick; the others are first next
time."""

MAX_DECOMPRESSED_BATCH_BYTES: Final = 256 << 20
"""A batch that decompresses to more is refused as INVALID_RECORD: a decompression bomb."""

MAX_DECOMPRESSION_RATIO: Final = 4096
"""A batch that inflates by more than this factor and 1 MiB is refused likewise."""

MAX_INSPECTED_BATCH_BYTES: Final = 32 << 20
"""The same where a broker looks inside, which takes it some milliseconds for each megabyte: for a
topic with a codec of its own, with compaction, or for timestamps out of range. Such a batch is
refused; to find a timestamp, it counts as one record."""

MAX_INSPECTED_RECORDS: Final = 200_000
"""Records of such a batch: each costs a microsecond."""

MAX_RECORD_ERRORS: Final = 1000
"""Of the records for which a batch is refused, so many are named in the answer. The batch is
refused as a whole."""

MAX_INSPECTED_AT_ONCE_BYTES: Final = 128 << 10
"""The same in the turn of its request: some milliseconds. A larger batch is looked into beside the
loop, one at a time, and what its client sends behind it waits (`broker/inspections.py`)."""

MAX_INSPECTED_AT_ONCE_RECORDS: Final = 1000
"""Records of such a batch; one with more is looked into beside the loop likewise."""

TAIL_CACHE_BYTES: Final = 4 << 20
"""Per log: the newest batches kept in memory for followers; the oldest are dropped first."""

NODE_TAIL_CACHE_BYTES: Final = 256 << 20
"""The same for all logs of a node; beyond it the log that was idle longest loses all of its own."""

MAX_CACHED_PRODUCER_BATCHES: Final = 5
"""Batches remembered per producer for duplicate detection (clients keep 5 in flight)."""

DEDUP_HORIZON_MS: Final = 3_600_000
"""A producer that wrote nothing for so long retries nothing from before."""

DEDUP_WINDOW_BYTES: Final = (1 << 17, 1 << 20, 8 << 20)
"""How much of a log is read to complete the windows of its producers: more only when the batches
are large."""

DEDUP_ENOUGH_BATCHES: Final = 64
"""As many batches are enough to complete the windows; then no more is read."""

MAX_FETCH_SESSIONS: Final = 1000
"""`max.incremental.fetch.session.cache.slots`: beyond it a fetch gets session id 0."""

MAX_PENDING_DECISIONS: Final = 10_000
"""Answers of one coordinator that wait for their commit; at the bound requests are refused as
REQUEST_TIMED_OUT, which every client retries."""

MAX_MEMBER_IDS_GIVEN_OUT: Final = 10_000
"""Member ids of one group that were given out and have not come back with a join; at the bound new
clients get GROUP_MAX_SIZE_REACHED until some of them have ended."""

MAX_GROUP_RECORDS_PER_BATCH: Final = 1 << 20
"""Records of one batch of a group coordinator. One commit is one batch; what is too large for the
partition in bytes is refused before."""

MAX_BALANCING_ROUNDS: Final = 16
"""How often the uniform assignor looks at all topics for partitions to move; with equal
subscriptions one round is enough."""

MAX_REGEX_BYTES: Final = 1 << 20
"""Memory of a compiled regular expression of a subscription."""

REGEX_REFRESH_MS: Final = 10_000
"""The least time between two looks of a group at which topics its regular expressions match."""

OFFSETS_EXPIRED_PER_TURN: Final = 1000
"""Committed offsets of one coordinator that are looked at for expiry before its node looks at its
connections again; a group is looked at as a whole."""

TRANSACTIONS_PER_TURN: Final = 200
"""Transactional ids of one coordinator that are looked at, or whose transaction is aborted, before
its node looks at its connections again."""

MAX_TRANSACTION_RECORDS_PER_BATCH: Final = 1000
"""Records of one batch of a transaction coordinator; only ids that expire are more than one."""

SHARE_STATES_PER_TURN: Final = 50
"""Share partitions of one coordinator that are looked at, and perhaps written again, before its
node looks at its connections again."""

MAX_SHARE_RECORDS_PER_BATCH: Final = 1
"""Records of one batch of a share coordinator: each is about one share partition."""

MAX_SHARE_STATE_CALLS: Final = 10_000
"""Reads and writes of the state of share partitions that a leader may have waiting; at the bound
acknowledgements are refused as COORDINATOR_NOT_AVAILABLE, which clients retry."""

MAX_STATES_PER_REQUEST: Final = 200
"""Share partitions in one such request; the others travel in the next one."""

MAX_WAITING_SHARE_FETCHES: Final = 10_000
"""Fetches of members of share groups that wait for records; beyond it they are answered at once,
empty."""

PACED_PART_OF_LAG: Final = 10
"""An in-sync follower that fetches and has not been level for this part of
`replica.lag.time.max.ms` makes clients wait that write to its partition. It is also the longest
that one request makes them wait: three seconds by default."""

MARKERS_PER_TURN: Final = 500
"""Markers that a node hands to connections before it looks at its other connections again; those of
one leader are one request."""

MAX_MARKER_REQUESTS: Final = 5
"""WriteTxnMarkers requests under way to one leader. Markers that come meanwhile travel together."""

COORDINATOR_LOAD_BYTES_PER_TURN: Final = 64 << 10
"""How much of an internal topic a node replays before it looks at its connections again: some
milliseconds' worth."""

COORDINATOR_HELD_BYTES_PER_BYTE: Final = 3
"""Bytes of it that are read and held cost as much as one that is replayed, or more."""

COORDINATOR_HELD_KEYS: Final = 200_000
"""Keys whose last value a loading coordinator holds, because a later record may take its place. At
the bound all that is held is replayed."""

COORDINATOR_HELD_BYTES: Final = 32 << 20
"""Bytes of records after which a loading coordinator counts what it still holds of them. If it is a
half, all of it is replayed."""

MAX_FILES_DELETED: Final = 100
"""Files of a deleted log that go in one step."""

SYNC_ALL_FROM_LOGS: Final = 64
"""From so many logs that have to be made durable together, the whole file system is synced."""

REPLICA_WORK_PER_TURN: Final = 3000
"""What a node does in one turn to follow the metadata, to make files, and to apply what leaders
sent, before it looks at its connections again; what goes beyond it waits for the next turns. The
unit is about a microsecond of a machine with two cores."""

BYTES_READ_PER_WORK: Final = 512
"""Bytes that are inflated to look into a client's batch cost one unit."""

FETCHED_BYTES_PER_WORK: Final = 128
"""Bytes that are read for a fetch, checked, encrypted and sent cost one unit: more than they take,
so that a turn has one answer of `SHARED_FETCHED_BYTES`. Fetches of other clients wait when the work
of the turn is spent."""

DECODED_KILOBYTE_WORK: Final = 500
"""Each whole kilobyte of a request that is decoded by its schema, turned into a message and begun
with. So small requests cost nothing; Produce and Fetch have prices of their own."""

PARTITION_READING_WORK: Final = 30
"""A leader reads one partition for a fetch, beside what its records cost."""

UNHURRIED_SHARE: Final = 2
"""Logs that are made or that go, while no replica waits for its role, have this part of it."""

UNHURRIED_PAUSE_MS: Final = 3
"""Between two such turns. Without it three nodes that make thousands of logs keep two cores busy,
and writes to other topics wait; with it 3,000 logs take a second longer."""

ROLE_CHANGE_WORK: Final = 60
"""A replica begins or ceases to lead, follows another leader, or takes another configuration."""

LOG_CREATION_WORK: Final = 500
"""A new log: its directory and its files. What goes beyond the work of a turn waits."""

FIRST_RECORDS_WORK: Final = 200
"""The first records of a log, or of a segment: their file is made."""

FETCHED_PARTITION_WORK: Final = 40
"""A follower takes over the records that its leader sent of a partition."""

FETCHED_OFFSETS_WORK: Final = 10
"""The same where the leader sent offsets only."""

CUT_WORK: Final = 60
"""A follower cuts records that its leader does not have, beside the files that go."""

LOG_DELETION_WORK: Final = 200
"""A log goes: its files are closed, its directory is renamed. The files are deleted later."""

LOG_LOADING_WORK: Final = 150
"""At a start: a log is opened, in pieces if it has many segments or is walked (`log/pieces.py`)."""

SEGMENT_LOADING_WORK: Final = 100
"""One of its segments: its files are opened, its indexes are read."""

BATCH_WALKING_WORK: Final = 10
"""One of its batches is looked at, beside a unit for each kilobyte."""

FILE_DELETION_WORK: Final = 400
"""One file of a segment is deleted durably."""

FILE_SYNC_WORK: Final = 500
"""One of its files is made durable by itself."""

LOG_SAVING_WORK: Final = 250
"""At a clean stop: indexes and producer snapshot of a log that has changed since the start."""

SAVED_LOG_WORK: Final = 2
"""At a clean stop: a look at a log, whether it has."""

MAX_REPLICAS_CHECKED_PER_TURN: Final = 500
"""Replicas that a pass over all of them looks at in one turn; it goes on in the next."""

MAX_REPLICAS_SCANNED_PER_TURN: Final = 2000
"""The same for a pass that only finds those that wait for followers, while one of these is gone."""

MAX_SEGMENTS_JUDGED_PER_TURN: Final = 2000
"""Segments that retention looks at in one turn, but at least one replica: some milliseconds' worth.
A replica without records counts as one."""

MAX_SEGMENTS_TAKEN_OUT_PER_TURN: Final = 20
"""Segments whose files get another name before a node looks at its connections again: four each."""

MAX_SEGMENTS_CUT_PER_TURN: Final = 4
"""Segments at the end of a log, the one that stays empty included, that a follower cuts before its
node looks at its connections again."""

METADATA_DELETION_PAUSE_MS: Final = 250
"""Between two segments of the metadata log whose files are deleted: nothing waits for that."""

MAX_SEGMENTS_DELETED_PER_TURN: Final = 4
"""Segments whose files are deleted in one turn. That is up to twenty times slower than a rename."""

CLEANING_WORK_PER_TURN: Final = 100
"""What a cleaner does in one turn: a unit is a record or a kilobyte, one or two microseconds. With
300 units a log is cleaned twice as fast, and clients wait three times as long as without."""

RECORDS_OF_RUNS_PER_WORK: Final = 4
"""Records of one layout that cost as much as one that is walked."""

CLEANING_PAUSE_MS: Final = 1
"""Between two of its turns. So a node that has other work has more than half of its time for it."""

RECORDS_CLEANED_PER_STEP: Final = 250
"""Records of one batch between two looks at that bound: a batch may have a hundred thousand."""

MOVE_BYTES_PER_TURN: Final = 1 << 20
"""What moves between log directories copy in one turn: a few milliseconds."""

MOVE_BATCHES_PER_TURN: Final = 500
"""As many batches cost as much as those bytes; where they are small, slices are smaller."""

MOVE_STEPS_PER_TURN: Final = 32
"""Steps of moves in one turn: a flush that is asked for, a log that takes another's place."""

MOVE_FIRST_BYTES: Final = 1 << 16
"""The first slice of a copy, before it is known how large batches are."""

MOVE_PAUSE_MS: Final = 1
"""Between two of these turns: whatever has arrived goes first."""

MOVE_RETRY_MS: Final = 50
"""Until a move is looked at again that waits for a cleaner, a cut or a checkpoint."""

MAX_PREFERRED_DIRECTORIES: Final = 10_000
"""Logs that do not exist yet of which an administrator has said where they are to go. Beyond it the
oldest wish is forgotten."""

FORGETTING_PAUSE_MS: Final = 1000
"""Between two times that a node takes deleted logs out of its checkpoints, which name all logs:
some twenty milliseconds with ten thousand."""

MAX_DIRECTORIES_CLEARED_PER_TURN: Final = 4
"""Directories of deleted logs whose files are deleted in one turn; the others go in the next."""

ANSWER_WORK_PER_TURN: Final = 4000
"""What a node does in one turn for answers that grow with what was asked for; the rest waits for
the next turns (`broker/long_answers.py`). The unit is that of `REPLICA_WORK_PER_TURN`."""

ANSWER_SHARE: Final = 1000
"""As much of it is spent on one answer before the next one has its share."""

PARTITION_ANSWER_WORK: Final = 10
"""One partition is read, looked up and encoded."""

CONFIG_ANSWER_WORK: Final = 600
"""A topic or broker is described with all its properties."""

MAX_PARTITIONS_READ_PER_TURN: Final = 50
"""Partitions that a leader reads for a fetch before it looks at its connections again. Most of them
have nothing new, and take it some ten microseconds."""

MAX_PARTITIONS_WITH_RECORDS: Final = 80
"""Partitions with records in an answer that need not name them all. A follower acknowledges none of
them before it has appended all, at some fifty microseconds each."""

MAX_PARTITIONS_ANSWERED: Final = 400
"""Partitions in an answer that need not name them all, with records or not, but for those of one
turn. One costs some four microseconds on each side."""

MAX_FIRST_RECORDS: Final = 8
"""Empty replicas that one answer to a follower gives records, beside those that have some. The
follower makes a file for each, and the records of all others in the answer wait for that."""

MAX_PARTITIONS_ADDED_PER_FETCH: Final = 80
"""Partitions that one fetch of a follower adds to its session; the next one, which follows at once,
adds more. A partition that is added costs the leader some ten microseconds."""

MAX_USUAL_TURN_MS: Final = 10
"""BoundedTurn: as long as that 99.9 % of turns may take."""

MAX_TURN_MS: Final = 50
"""BoundedTurn: the longest that one turn of a node's loop may take; a longer one is a warning that
says what took long."""

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""Partitions that one CreateTopics or CreatePartitions may ask for; more is POLICY_VIOLATION."""

MAX_PARTITIONS: Final = 50_000
"""Partitions of all topics of a cluster; a request that would make more is POLICY_VIOLATION, and
nothing of it is done. Each node may have a replica of each, at 15 KB of memory and about a
millisecond of a start. Descriptors do not bound them (`runtime/open_files.py`)."""

MAX_CHANGES_PER_TURN: Final = 25
"""Partitions that the active controller changes before its node looks at its connections again; a
longer decision goes on in the turns that follow (`controller/slices.py`). About a millisecond."""

MAX_REPLICAS_ASSIGNED: Final = 2250
"""Replicas whose directories a broker reports in one request (`replication/directory_reports.py`);
the others wait for its answer. Kafka's number."""

MAX_PARTITIONS_PLACED_PER_TURN: Final = 300
"""Partitions that the active controller places and encodes in a turn, for a topic that is created
whole when all of them are ready. About 3 ms."""

MAX_RECORDS_PER_TURN: Final = 40
"""Records of committed metadata that a node decodes and publishes before it looks at its
connections again; the others wait. Some one millisecond with what the replicas do about it."""

MAX_LONG_DECISIONS: Final = 1000
"""Decisions that wait for their next turn; at the bound requests are refused as REQUEST_TIMED_OUT,
which every client retries."""

MAX_PROPOSALS_PER_REQUEST: Final = 25
"""ISR proposals in one AlterPartition, which takes 1.5 ms to read and to decide."""

MAX_ALTER_PARTITIONS_IN_FLIGHT: Final = 3
"""Requests of so many proposals each that wait for the controller at a time. With one, a broker
that returns with ten thousand partitions waits for four hundred round trips."""

MAX_DESCRIBED_PARTITIONS: Final = 2000
"""`max.request.partition.size.limit`, Kafka's default: partitions in one answer to
DescribeTopicPartitions; the client asks for the rest from its cursor on."""

MAX_TOPIC_NAME_LENGTH: Final = 249
"""Leaves room for `-<partition>` and a suffix in a file name of 255 bytes."""

MAX_TEXT_BYTES: Final = 32_767
"""A longer text is not of the protocol, in either notation: nothing could be written about it. A
config value that has grown longer is refused as INVALID_CONFIG. Kafka's number."""

PURGATORY_PURGE_REQUESTS: Final = 1000
"""Answered requests that may linger in the purgatory's deadline heap; beyond it they are removed
once they are the majority."""

MAX_QUORUM_OBSERVERS: Final = 1000
"""Observers whose progress the quorum leader describes; further ones are served but not listed."""

MAX_PARKED_QUORUM_FETCHES: Final = 1024
"""Metadata fetches that wait for something new; beyond it a fetch is answered at once, empty."""

MAX_SNAPSHOT_BYTES: Final = 1 << 30
"""A metadata snapshot that claims to be larger is not fetched: about a thousand times what ten
thousand partitions take."""

READ_BUFFER_BYTES: Final = 512 << 10
"""The driver's one read buffer, shared by all connections: the most one `Received` carries."""

ENOUGH_READ_BYTES: Final = 768 << 10
"""What a turn reads of all connections before those rest that bring much."""

LARGE_READ_BYTES: Final = 16 << 10
"""Much: no small request, and no part of a handshake."""

ENOUGH_INPUT_MS: Final = 2
"""Inputs for as long as that are a turn: the tick comes before what else has arrived. A thousand
busy clients send four hundred requests at once."""

RESTS_ENDED_PER_TURN: Final = 2
"""Clients that are read again in one turn; the others wait for theirs."""

CROWDED_RESTS: Final = 8
"""With more clients than this at rest, each is read in smaller pieces."""

CROWDED_READ_BYTES: Final = 64 << 10
"""Those pieces: with TLS, a turn decrypts two of them in half a millisecond."""

MAX_STORE_BYTES: Final = 4 << 20
"""A file with keys or certificates that is larger is refused: the authorities of a whole JVM take
half a megabyte."""

HANDSHAKE_TIMEOUT_MS: Final = 10_000
"""How long a peer may take for its TLS handshake before its connection is cut."""

MAX_HANDSHAKES: Final = 1000
"""Accepted connections of a node whose TLS handshake has not ended; for one more the oldest of
them is cut."""

MAX_HANDSHAKES_PER_HOST: Final = 500
"""The same of one address, so that one host alone cannot cut those of the others."""

HANDSHAKE_STEPS_PER_TURN: Final = 2
"""Steps of handshakes, of a quarter of a millisecond each or more, before the node looks at its
other connections again; the peers behind them wait."""

SEALED_BYTES: Final = 64 << 10
"""Bytes that are encrypted for one connection before what came of them is taken out of OpenSSL's
buffer, which keeps for ever the size that it had to grow to."""

WRITE_HIGH_WATER_BYTES: Final = 256 << 10
"""Unsent bytes of one connection above which it is not read and files are not read for it."""

MAX_UNSENT_BYTES: Final = 256 << 20
"""Replies that wait in memory for peers that do not read; beyond it the connection is cut that has
taken nothing for longest."""

CLOSE_LINGER_MS: Final = 5000
"""How long a connection that the core closed may take to send what was queued before it is
cut."""

# Logins --------------------------------------------------------------------------------------

MAX_JAAS_CHARACTERS: Final = 1 << 20
"""A longer `sasl.jaas.config` is refused at the start."""

MIN_SCRAM_ITERATIONS: Final = 4096
"""Of a SCRAM credential; fewer are refused as UNACCEPTABLE_CREDENTIAL, and by our own logins."""

MAX_SCRAM_ITERATIONS: Final = 16_384
"""More are refused likewise, so that no server makes a client compute for long."""

MAX_SCRAM_TOKEN_BYTES: Final = 16 << 10
"""A longer message of a SCRAM login fails it."""

MAX_TOKEN_CHARACTERS: Final = 32 << 10
"""Characters of a token of OAUTHBEARER; a longer one lets no client in."""

MAX_WEB_ANSWER_BYTES: Final = 1 << 20
"""Of an answer with keys or with a token, or of a file with them; a longer one is refused."""

MAX_ISSUER_KEYS: Final = 1000
"""Keys of one issuer; a set with more is refused."""

WEB_DEADLINE_MS: Final = 10_000
"""How long a fetch of keys or of a token may take."""

MIN_KEYS_REFRESH_MS: Final = 10_000
"""How long no token with an unknown key makes a node fetch the keys anew."""

MAX_MEMBERS_PER_CONNECTION: Final = 100
"""Members of groups of which is remembered that they use a connection; a client is one or a few."""

MAX_FAKE_CREDENTIALS: Final = 1024
"""What users that do not exist would have, by their names: the one asked for longest ago is
forgotten, and made again when it is asked for."""

MAX_SALTED_KEYS: Final = 16
"""Salted passwords of the node's own logins; the oldest goes first."""

LOGIN_DEADLINE_MS: Final = 10_000
"""A connection that has not logged in by then, on a listener that asks for it, is closed."""

MAX_UNAUTHENTICATED_CONNECTIONS: Final = 2000
"""Connections that have not logged in yet; at the bound the oldest is closed."""

MAX_UNAUTHENTICATED_PER_HOST: Final = 500
"""The same of one address, so that one host alone cannot close those of the others."""

MAX_LOGIN_FRAME_BYTES: Final = 64 << 10
"""A longer frame of a connection that has not logged in closes it, whatever
`sasl.server.max.receive.size` allows: no mechanism here needs as much."""

MAX_KEPT_HOSTS: Final = 4096
"""Addresses whose canonical text is kept; beyond it the one that was used longest ago is
forgotten."""

MAX_KEPT_DECISIONS: Final = 4096
"""Decisions of the authorizer that one connection keeps; at the bound it forgets all of them."""

MAX_KEPT_NAME: Final = 249
"""Characters of a name about which a decision is kept: those of the longest topic."""

MAX_AUDIT_TEXT: Final = 256
"""Characters of a client's text in an audit event; the rest is left out."""

ACLS_PER_PIECE: Final = 200
"""Access control entries that a filter looks at before others have their turn."""

# Quotas of clients ---------------------------------------------------------------------------

MAX_QUOTA_METERS: Final = 10_000
"""What a node counts by, for each quota and each user or client id that shares it. At the bound it
forgets one that was not used lately, else the oldest: its client begins anew."""

MAX_THROTTLE_MS: Final = 2**31 - 1
"""The longest pause of a client: what `throttle_time_ms` can say."""

MAX_DELEGATION_TOKENS: Final = 10_000
"""Of a cluster: any user may ask for them, and a renewal looks through all."""

MAX_KEPT_TOKEN_KEYS: Final = 1000
"""Salted keys of tokens, each of which takes milliseconds to make; the least used goes first."""

TOKENS_PER_PIECE: Final = 100
"""Delegation tokens that an answer looks at before others have their turn."""

QUOTAS_PER_PIECE: Final = 200
"""Subjects of quotas that a filter looks at before others have their turn."""
