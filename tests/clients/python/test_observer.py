"""Tests what OpenTelemetry records, with threads and asyncio. (conformance/driver/scenarios_observer.py tests an observer's events.)"""

import asyncio
import pickle
import re
import threading
from importlib.metadata import version
from pathlib import Path

import prometheus_client
import pytest
import redis
import redis.asyncio
import redislock
import redislock.asyncio
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from redislock._request import gone
from redislock.opentelemetry import OpenTelemetry

from support import LIMIT_S, info, until, wait_for


class Threads:
    """A user with threads: each wait is one. In the class below, each is a task."""

    def __init__(self, url, observer):
        self.client = redis.Redis.from_url(url)
        self.locks = redislock.Locks(self.client, observer=observer)

    def acquire(self, *keys, **options):
        return self.locks.lock(*keys, **options).acquire()

    def release(self, lock):
        lock.release()

    def begin(self, *keys, around=None, **options):
        lock, ended = self.locks.lock(*keys, **options), []

        def run():
            try:
                if around is None:
                    ended.append(lock.acquire())
                else:
                    with around():
                        ended.append(lock.acquire())
            except BaseException as error:
                ended.append(error)

        threading.Thread(target=run).start()
        return lambda: wait_for(lambda: ended, "the wait ends")[0], lock.cancel

    def wait_for(self, condition, what):
        return wait_for(condition, what)

    def close(self):
        self.locks.close()

    def end(self):
        self.client.close()


class Tasks:
    def __init__(self, url, observer):
        self.loop = asyncio.new_event_loop()
        self.client = redis.asyncio.Redis.from_url(url)
        self.locks = redislock.asyncio.Locks(self.client, observer=observer)

    def run(self, work):
        return self.loop.run_until_complete(work)

    def acquire(self, *keys, **options):
        return self.run(self.locks.lock(*keys, **options).acquire())

    def release(self, lock):
        self.run(lock.release())

    def begin(self, *keys, around=None, **options):
        lock = self.locks.lock(*keys, **options)

        async def work():
            if around is None:
                return await lock.acquire()
            with around():
                return await lock.acquire()

        task = self.loop.create_task(work())
        return lambda: self.run(asyncio.gather(task, return_exceptions=True))[0], task.cancel

    def wait_for(self, condition, what):
        self.run(until(condition, what))

    def close(self):
        self.run(self.locks.close())

    def end(self):
        self.close()
        self.run(self.client.aclose())
        self.loop.close()


@pytest.fixture(params=[Threads, Tasks], ids=["threads", "asyncio"])
def make(request, server):
    made = []

    def make(observer):
        made.append(request.param(server.url, observer))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.mark.parametrize("words", [
    ("LOCK.EXTEND", "door"), *(("LOCK.MEXTEND", 1, key) for key in ("door", "it's: 'a' is free", "by this owner: 'b' c"))])
def test_the_reason_of_a_loss_is_without_the_locks_name(other, words):
    """The reason must not contain the key, or each lock would make a time series."""
    with pytest.raises(redis.ResponseError) as refused:
        other.execute_command(*words, "me")
    assert gone(refused.value) == "it is free"


def test_an_observer_that_fails_changes_nothing(make, other, caplog):
    class Fails(redislock.Observer):
        def fail(self, *said):
            raise ZeroDivisionError

        waiting = acquired = refused = released = lost = fail

    user = make(Fails())
    held, broken = user.acquire("door"), user.acquire("broken")
    assert isinstance(user.begin("door", wait=0.01)[0](), redislock.NotAcquired)
    other.execute_command("LOCK.BREAK", "broken")
    user.wait_for(lambda: broken.lost, "it hears")
    assert pickle.loads(pickle.dumps(broken.lost)).reason == broken.lost.reason
    user.release(held)
    assert info(other, "door") is None
    assert [record.name for record in caplog.records] == ["redislock"] * 6


def test_opentelemetry_counts_waits_and_grants_and_times_them(make, other):
    reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    observer = OpenTelemetry(lambda key: key.partition(":")[0], meter_provider=MeterProvider([reader]), tracer_provider=tracing)
    user = make(observer)

    def points(name):
        """All values or counts, by their attributes, without those that are always the same."""
        found = {}
        for resource in reader.get_metrics_data().resource_metrics:
            for scope in resource.scope_metrics:
                assert (scope.scope.name, scope.scope.version) == ("redislock", version("redislock-client"))
                for metric in scope.metrics:
                    for point in metric.data.data_points if metric.name == f"redislock.{name}" else ():
                        labels = {key.removeprefix("redislock."): value for key, value in point.attributes.items()}
                        assert (labels.pop("name"), labels.pop("mode")) == ("door", "exclusive")
                        found[tuple(labels.values())] = point.count if "duration" in name else point.value
                        units.add((name, metric.unit))
        return found

    units = set()
    tracer = tracing.get_tracer("the user's")
    held = user.acquire("door:1", "step:1")  # the first key gives the name
    ended, _ = user.begin("door:1", around=lambda: tracer.start_as_current_span("the user's"))
    user.wait_for(lambda: points("waiting") == {(): 1}, "it waits")
    assert points("held") == {(): 1} and spans.get_finished_spans() == ()
    user.release(held)
    held = ended()
    user.wait_for(lambda: points("waiting") == {(): 0}, "it waits no longer")
    assert isinstance(user.begin("door:1", wait=0.01)[0](), redislock.NotAcquired)
    other.execute_command("LOCK.BREAK", "door:1")
    user.wait_for(lambda: held.lost, "it hears")

    assert points("held") == {(): 0}
    assert points("wait.duration") == {("acquired",): 2, ("timeout",): 1}
    assert points("hold.duration") == {("released",): 1, ("lost",): 1}
    assert points("lost") == {("the server says that it has ended",): 1}
    assert units == {("wait.duration", "s"), ("hold.duration", "s"), ("waiting", "{waiter}"), ("held", "{lock}"), ("lost", "{lock}")}
    waited, around, refused = spans.get_finished_spans()
    assert waited.instrumentation_scope.version == version("redislock-client")
    assert waited.name == refused.name == "redislock.wait" and waited.kind == SpanKind.CLIENT
    assert waited.parent.span_id == around.context.span_id and waited.status.status_code == StatusCode.UNSET
    assert dict(waited.attributes) == {"redislock.mode": "exclusive", "redislock.name": "door", "redislock.outcome": "acquired"}
    assert refused.parent is None and refused.attributes["redislock.outcome"] == "timeout"
    assert refused.status.status_code == StatusCode.UNSET


def test_a_wait_that_fails_ends_its_span_with_an_error(make):
    class Notes(OpenTelemetry):
        def waiting(self, lock):
            super().waiting(lock)
            waiting.append(lock)

    spans, tracing, waiting = InMemorySpanExporter(), TracerProvider(), []
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    user = make(Notes(tracer_provider=tracing))
    user.acquire("door")
    ended, _ = user.begin("door")
    user.wait_for(lambda: waiting, "it waits")
    user.close()
    ended()
    (span,) = spans.get_finished_spans()
    assert dict(span.attributes) == {"redislock.mode": "exclusive", "redislock.outcome": "closed"}
    assert span.status.status_code == StatusCode.ERROR


def test_the_dashboard_names_what_the_exporter_for_prometheus_delivers(server, other):
    provider = MeterProvider([PrometheusMetricReader()])
    with redis.Redis.from_url(server.url) as client:
        with redislock.Locks(client, observer=OpenTelemetry(meter_provider=provider)) as locks:
            held, ended = locks.lock("door").acquire(), threading.Event()
            held.on_lost(lambda lost: ended.set())
            with pytest.raises(redislock.NotAcquired):
                locks.lock("door", wait=0.01).acquire()
            other.execute_command("LOCK.BREAK", "door")
            assert ended.wait(LIMIT_S)
        delivered = prometheus_client.generate_latest().decode()
    provider.shutdown()
    named = re.findall(r"\bredislock_\w+", (Path(__file__).parents[3] / "contrib/prometheus/dashboard.json").read_text())
    assert len(set(named)) == 8
    assert set(named) <= set(re.findall(r"\bredislock_\w+", delivered)), delivered
