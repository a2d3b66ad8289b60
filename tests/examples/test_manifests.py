"""Goal: a cluster takes what `examples/kubernetes` asks it for. Method: the classes of Kubernetes'
objects in Spark's jars read the files, and the command line reads the arguments."""

from collections.abc import Iterator, Mapping, MutableSequence
from typing import Any

import pytest
from typer.main import get_command

from tests.tidy.source import ROOT
from tidelog.cli.app import app
from tidelog.cli.spark_job import check_master

MANIFESTS = sorted((ROOT / "examples" / "kubernetes").glob("*.yaml"))


def objects(spark: Any, text: str) -> Iterator[tuple[Any, Any]]:
    """Each document as an object of Kubernetes, which has a type for every field, and as maps."""
    jvm = spark._jvm
    mapper = jvm.io.fabric8.kubernetes.client.utils.KubernetesSerialization()
    for document in text.split("\n---\n"):
        plain = mapper.unmarshal(document, jvm.java.util.LinkedHashMap().getClass())
        yield mapper.unmarshal(document), plain


def unknown(thing: Any, plain: Any, place: str = "") -> Iterator[str]:
    """Fields that the object's class does not have."""
    if isinstance(plain, MutableSequence):
        for one, other in zip(thing, plain, strict=True):
            yield from unknown(one, other, f"{place}[]")
    elif isinstance(plain, Mapping) and not isinstance(thing, Mapping):
        others = thing.getAdditionalProperties()
        for name, value in plain.items():
            if name in others:
                yield f"{place}.{name}"
            elif isinstance(value, Mapping | MutableSequence):
                under = getattr(thing, f"get{name[0].upper()}{name[1:]}")()
                yield from unknown(under, value, f"{place}.{name}")


def containers(plain: Any) -> Iterator[Any]:
    """All containers of a document."""
    for name, value in plain.items() if isinstance(plain, Mapping) else ():
        yield from value if name == "containers" else containers(value)


@pytest.mark.spark
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_kubernetes_knows_every_field_and_the_command_every_argument(spark, manifest):
    commands = 0
    for thing, plain in objects(spark, manifest.read_text()):
        assert list(unknown(thing, plain)) == [], plain["kind"]
        for container in containers(plain):
            name, *arguments = container["args"]
            command = get_command(app).commands["spark"].commands[name]
            given = command.make_context(name, arguments).params
            check_master(given["master"], {})
            commands += 1
    assert commands == 1


@pytest.mark.spark
def test_a_field_that_kubernetes_does_not_have_is_found(spark):
    text = MANIFESTS[0].read_text().replace("backoffLimit:", "backofLimit:")
    found = [name for thing, plain in objects(spark, text) for name in unknown(thing, plain)]
    assert found == [".spec.jobTemplate.spec.backofLimit"]
