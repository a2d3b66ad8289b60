// One round of a client of Node (kafkajs): it creates a topic, writes, reads in a group, and lists.
//
// The only argument is a JSON object, the answer a line of JSON: what was read, or the error.
"use strict";

const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

function clientOf(given) {
  const own = given.certificate ? fs.readFileSync(given.certificate) : undefined;
  return new Kafka({
    clientId: "kafkajs",
    brokers: given.brokers,
    ssl: { ca: [fs.readFileSync(given.ca)], cert: own, key: own },
    sasl: given.user
      ? { mechanism: "scram-sha-512", username: given.user, password: given.password }
      : undefined,
    logLevel: logLevel.NOTHING,
    retry: { retries: given.retries },
  });
}

async function read(kafka, given) {
  const consumer = kafka.consumer({ groupId: given.topic });
  await consumer.connect();
  await consumer.subscribe({ topics: [given.topic], fromBeginning: true });
  const found = [];
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    consumer
      .run({
        eachMessage: async ({ message }) => {
          found.push(message.value.toString());
          if (found.length === given.count) resolve();
        },
      })
      .catch(reject);
  });
  await consumer.disconnect();
  return found;
}

async function round(given) {
  const kafka = clientOf(given);
  const admin = kafka.admin();
  const producer = kafka.producer();
  try {
    await admin.connect();
    await admin.createTopics({ topics: [{ topic: given.topic, numPartitions: 1 }] });
    await producer.connect();
    for (let number = 0; number < given.count; number += 1) {
      await producer.send({ topic: given.topic, acks: -1, messages: [{ value: `${number}` }] });
    }
    const found = await read(kafka, given);
    const groups = (await admin.listGroups()).groups.map((each) => each.groupId);
    return { read: found, topics: await admin.listTopics(), groups, error: "" };
  } finally {
    await producer.disconnect();
    await admin.disconnect();
  }
}

round(JSON.parse(process.argv[2]))
  .catch((error) => ({ error: `${error.name}: ${error.message}` }))
  .then((answer) => {
    process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
  });
