"""Families of Kafka clients behind one interface: a round of work on a protected cluster.

A round creates a topic, writes records, reads them in a group, and lists topics and groups, each by
the family's own means and as its documentation shows. What fails is a `ClientError` with the text
that a user of the family sees.
"""

import asyncio
import json
import logging
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from tests.interop.java_tools import java_command
from tests.interop.prepare import FRANZ_GO, KAFKAJS
from tidelog.config import format_properties
from tidelog.security.jaas import SCRAM_MODULE
from tidelog.testing.waiting import wait_until

COUNT: Final = 10
VALUES: Final = [str(number) for number in range(COUNT)]
MECHANISM: Final = "SCRAM-SHA-512"
TIMEOUT_S: Final = 60
IMPATIENCE_S: Final = 4
"""After which a client that is refused gives up, where it does not at once."""


class ClientError(Exception):
    """What a client says that could not do its work."""


@dataclass(frozen=True)
class Login:
    """Where a client connects, whom it trusts, and what it shows."""

    brokers: tuple[str, ...]
    ca: Path
    user: str = ""
    password: str = ""
    certificate: Path | None = None
    """With its key; in place of a user."""

    @property
    def protocol(self) -> str:
        """Kafka's name."""
        return "SASL_SSL" if self.user else "SSL"

    @property
    def bootstrap(self) -> str:
        """As most clients take it."""
        return ",".join(self.brokers)


@dataclass(frozen=True)
class Done:
    """What a round has seen."""

    read: list[str]
    topics: list[str]
    groups: list[str]


class Family(Protocol):
    """Clients of one kind."""

    name: str

    def work(self, login: Login, topic: str) -> Done:
        """A round; the group has the topic's name. Raises `ClientError`."""

    def refusal(self, login: Login) -> str:
        """Why a client with this login cannot list the topics."""


def _program(command: Sequence[str], **more: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        list(command), capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False, **more
    )


class _JsonProgram:
    """A program of ours that takes JSON and answers JSON (`clients/`)."""

    name = ""
    command: Sequence[str] = ()

    def work(self, login: Login, topic: str) -> Done:
        found = self._run(login, topic, TIMEOUT_S, 5)
        return Done(found["read"], found["topics"], found["groups"])

    def refusal(self, login: Login) -> str:
        try:
            self._run(login, "refused", IMPATIENCE_S, 0)
        except ClientError as error:
            return str(error)
        return ""

    def _run(self, login: Login, topic: str, timeout_s: int, retries: int) -> dict[str, Any]:
        given = {
            "brokers": login.brokers,
            "ca": str(login.ca),
            "user": login.user,
            "password": login.password,
            "certificate": str(login.certificate or ""),
            "topic": topic,
            "count": COUNT,
            "retries": retries,
            "timeout_ms": timeout_s * 1000,
        }
        done = _program([*self.command, json.dumps(given)])
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        if found["error"]:
            raise ClientError(found["error"])
        return found


class Kafkajs(_JsonProgram):
    """kafkajs of Node."""

    name = "kafkajs"
    command = ("node", str(KAFKAJS / "client.js"))


class FranzGo(_JsonProgram):
    """franz-go of Go."""

    name = "franz-go"
    command = (str(FRANZ_GO),)


class Librdkafka:
    """confluent-kafka."""

    name = "librdkafka"

    @staticmethod
    def settings(login: Login) -> dict[str, str]:
        """Its properties, which kcat has too."""
        found = {
            "bootstrap.servers": login.bootstrap,
            "security.protocol": login.protocol,
            "ssl.ca.location": str(login.ca),
        }
        if login.user:
            shown = {"mechanism": MECHANISM, "username": login.user, "password": login.password}
            found |= {f"sasl.{name}": value for name, value in shown.items()}
        else:
            own = str(login.certificate)
            found |= {"ssl.certificate.location": own, "ssl.key.location": own}
        return found

    def work(self, login: Login, topic: str) -> Done:
        from confluent_kafka import Consumer, Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        settings: dict[str, Any] = {**self.settings(login), "log_level": 0}
        admin = AdminClient(settings)
        admin.create_topics([NewTopic(topic, 1)])[topic].result(TIMEOUT_S)
        producer = Producer({**settings, "acks": "all"})
        for value in VALUES:
            producer.produce(topic, value)
        assert producer.flush(TIMEOUT_S) == 0
        consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        read = [str(message.value().decode()) for message in consumer.consume(COUNT, TIMEOUT_S)]
        consumer.close()
        groups = [each.group_id for each in admin.list_consumer_groups().result(TIMEOUT_S).valid]
        return Done(read, list(admin.list_topics().topics), groups)

    def refusal(self, login: Login) -> str:
        from confluent_kafka import Producer

        errors: list[str] = []
        more = {"log_level": 0, "error_cb": lambda error: errors.append(error.str())}
        producer = Producer({**self.settings(login), **more})
        wait_until(lambda: producer.poll(0.1) >= 0 and bool(errors), TIMEOUT_S, "an error")
        return errors[0]


class Kcat:
    """kcat, which creates topics by writing to them."""

    name = "kcat"

    def work(self, login: Login, topic: str) -> Done:
        self._run(login, "-P", "-t", topic, "-X", "acks=all", given="\n".join(VALUES))
        group = ("-G", topic, "-X", "auto.offset.reset=earliest", "-c", str(COUNT), "-q")
        read = self._run(login, *group, topic).split()
        listed = json.loads(self._run(login, "-L", "-J"))
        return Done(read, [each["topic"] for each in listed["topics"]], [topic])

    def refusal(self, login: Login) -> str:
        try:
            self._run(login, "-L", "-m", str(IMPATIENCE_S // 2))
        except ClientError as error:
            return str(error)
        return ""

    def _run(self, login: Login, *arguments: str, given: str = "") -> str:
        settings = Librdkafka.settings(login).items()
        options = [part for name, value in settings for part in ("-X", f"{name}={value}")]
        done = _program(["kcat", *options, *arguments], input=given)
        if done.returncode != 0:
            raise ClientError(done.stderr)
        return done.stdout


class Java:
    """Apache Kafka's clients, in its command line tools."""

    name = "java"

    def __init__(self, directory: Path) -> None:
        # Where its properties files are.
        self._directory = directory

    def work(self, login: Login, topic: str) -> Done:
        self._run(login, "TopicCommand", "--create", "--topic", topic)
        self._run(login, "ConsoleProducer", "--topic", topic, given="\n".join(VALUES))
        read = self._run(
            login,
            "consumer.ConsoleConsumer",
            *("--topic", topic, "--group", topic, "--from-beginning"),
            *("--max-messages", str(COUNT)),
        )
        listing = ("--describe", "--group", topic)
        described = self._run(login, "consumer.group.ConsumerGroupCommand", *listing).split()
        return Done(read.split(), described, described)

    def refusal(self, login: Login) -> str:
        try:
            self._run(login, "TopicCommand", "--list")
        except ClientError as error:
            return str(error)
        return ""

    def _run(self, login: Login, tool: str, *arguments: str, given: str = "") -> str:
        file = self._directory / "client.properties"
        file.write_text(format_properties(self.properties(login)))
        where = ("--bootstrap-server", login.bootstrap, "--command-config", str(file))
        command = java_command(f"org.apache.kafka.tools.{tool}", *where, *arguments)
        done = _program(command, input=given)
        if done.returncode != 0:
            raise ClientError(done.stdout + done.stderr)
        return done.stdout

    @staticmethod
    def properties(login: Login) -> dict[str, str]:
        """In the names of Kafka's clients."""
        found = {
            "security.protocol": login.protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(login.ca),
        }
        if login.user:
            user = f'username="{login.user}" password="{login.password}"'
            jaas = {"sasl.jaas.config": f"{SCRAM_MODULE} required {user};"}
            return found | {"sasl.mechanism": MECHANISM} | jaas
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(login.certificate)}
        return found | own


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def work(self, login: Login, topic: str) -> Done:
        from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
        from kafka.admin import NewTopic

        settings = self._settings(login)
        admin = KafkaAdminClient(**settings)
        admin.create_topics([NewTopic(topic, 1, 1)])
        producer = KafkaProducer(**settings, acks="all")
        for value in VALUES:
            producer.send(topic, value.encode()).get(TIMEOUT_S)
        producer.close()
        reading = {"group_id": topic, "auto_offset_reset": "earliest"}
        consumer = KafkaConsumer(topic, **settings, **reading)
        read = [next(consumer).value.decode() for _ in VALUES]
        consumer.close()
        groups = [each["group_id"] for each in admin.list_groups()]
        done = Done(read, list(admin.list_topics()), groups)
        admin.close()
        return done

    def refusal(self, login: Login) -> str:
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError

        patience = {"bootstrap_timeout_ms": 1000}
        with _logged("kafka") as lines:
            try:
                KafkaAdminClient(**self._settings(login), **patience).close()
            except (KafkaError, OSError) as error:
                return f"{error!r} {lines}"
        return ""

    @staticmethod
    def _settings(login: Login) -> dict[str, Any]:
        found = {
            "bootstrap_servers": login.bootstrap,
            "security_protocol": login.protocol,
            "ssl_cafile": str(login.ca),
        }
        if login.user:
            plain = {"username": login.user, "password": login.password}
            user = {f"sasl_plain_{name}": value for name, value in plain.items()}
            return {**found, "sasl_mechanism": MECHANISM, **user}
        own = str(login.certificate)
        return {**found, "ssl_certfile": own, "ssl_keyfile": own}


@contextmanager
def _logged(name: str) -> Iterator[list[str]]:
    """What a library writes into its log, where it has its reasons."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


class Aiokafka:
    """aiokafka, on a loop."""

    name = "aiokafka"

    def work(self, login: Login, topic: str) -> Done:
        return asyncio.run(asyncio.wait_for(self._work(login, topic), TIMEOUT_S))

    async def _work(self, login: Login, topic: str) -> Done:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
        from aiokafka.admin import AIOKafkaAdminClient, NewTopic

        settings = self._settings(login)
        admin = AIOKafkaAdminClient(**settings)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 1, 1)])
        async with AIOKafkaProducer(**settings, acks="all") as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value.encode())
        reading = {"group_id": topic, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **settings, **reading) as consumer:
            read = [(await consumer.getone()).value.decode() for _ in VALUES]
        groups = [group[0] for group in await admin.list_consumer_groups()]
        topics = await admin.list_topics()
        await admin.close()
        return Done(read, topics, groups)

    def refusal(self, login: Login) -> str:
        from aiokafka.admin import AIOKafkaAdminClient
        from aiokafka.errors import KafkaError

        async def start() -> None:
            admin = AIOKafkaAdminClient(**self._settings(login))
            try:
                await admin.start()
            finally:
                await admin.close()

        with _logged("aiokafka") as lines:
            try:
                asyncio.run(start())
            except (KafkaError, OSError) as error:
                return f"{error!r} {lines}"
        return ""

    @staticmethod
    def _settings(login: Login) -> dict[str, Any]:
        context = ssl.create_default_context(cafile=str(login.ca))
        if login.certificate is not None:
            context.load_cert_chain(login.certificate)
        found: dict[str, Any] = {
            "bootstrap_servers": login.bootstrap,
            "security_protocol": login.protocol,
            "ssl_context": context,
        }
        if login.user:
            plain = {"username": login.user, "password": login.password}
            user = {f"sasl_plain_{name}": value for name, value in plain.items()}
            found |= {"sasl_mechanism": MECHANISM, **user}
        return found


def families(directory: Path) -> list[Family]:
    """Those whose programs are here."""
    found: list[Family] = [Librdkafka(), KafkaPython(), Aiokafka(), Java(directory)]
    if shutil.which("kcat"):
        found.append(Kcat())
    if (KAFKAJS / "node_modules").is_dir():
        found.append(Kafkajs())
    if os.access(FRANZ_GO, os.X_OK):
        found.append(FranzGo())
    return found
