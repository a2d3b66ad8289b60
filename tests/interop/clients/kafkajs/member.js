// One member of a group with kafkajs: it reads, commits, and reports as
// `tests/process/group_reading.py` describes.
//
// Arguments: `classic`, bootstrap servers, group, topic.
"use strict";

const { Kafka, logLevel } = require("kafkajs");

const [, , , bootstrap, groupId, topic] = process.argv;

const kafka = new Kafka({
  clientId: "kafkajs",
  brokers: bootstrap.split(","),
  logLevel: logLevel.NOTHING,
  // As long as a test waits; it gives up after five tries otherwise, and begins again as another.
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 100 },
});
const consumer = kafka.consumer({
  groupId,
  sessionTimeout: 6000,
  heartbeatInterval: 300,
  // It heartbeats between two fetches.
  maxWaitTimeInMs: 100,
});

let owned = [];
let ending = false;

function print(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

// CLOCK_MONOTONIC.
function now() {
  return Number(process.hrtime.bigint()) / 1e9;
}

function give() {
  if (owned.length > 0) print({ at: now(), gave: owned });
  owned = [];
}

function get(event) {
  give();
  owned = event.payload.memberAssignment[topic] ?? [];
  if (owned.length > 0) print({ at: now(), got: owned });
}

// What cannot be committed is read again, by this member or by another one.
async function eachBatch({ batch, commitOffsetsIfNecessary }) {
  if (ending) return;
  const offset = `${BigInt(batch.lastOffset()) + 1n}`;
  const partitions = [{ partition: batch.partition, offset }];
  await commitOffsetsIfNecessary({ topics: [{ topic, partitions }] });
  print(batch.messages.map((each) => each.value.toString()));
}

async function leave() {
  // It reads nothing more, and is not asked again before it leaves.
  ending = true;
  give();
  await consumer.disconnect();
  process.exit(0);
}

async function main() {
  consumer.on(consumer.events.GROUP_JOIN, get);
  consumer.on(consumer.events.REBALANCING, give);
  consumer.on(consumer.events.CRASH, (event) => {
    give();
    console.error(event.payload.error);
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({ autoCommit: false, eachBatch });
  process.stdin.on("end", leave);
  process.stdin.resume();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
