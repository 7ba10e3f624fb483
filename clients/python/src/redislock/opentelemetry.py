"""Metrics and spans of locks, with OpenTelemetry: `Locks(client, observer=OpenTelemetry())`."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from opentelemetry import metrics, trace

from ._core import Handle
from ._observer import Observer, Outcome
from ._request import Key, LockLost

VERSION = version("redislock-client")
SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
EXPECTED = ("timeout", "busy", "cancelled")


class OpenTelemetry(Observer):
    """`name` computes the attribute `redislock.name` from a lock's first key. By default there is none: few different names are best."""

    def __init__(
        self,
        name: Callable[[Key], str] | None = None,
        *,
        meter_provider: metrics.MeterProvider | None = None,
        tracer_provider: trace.TracerProvider | None = None,
    ) -> None:
        meter = metrics.get_meter("redislock", VERSION, meter_provider)
        self._name, self._tracer = name, trace.get_tracer("redislock", VERSION, tracer_provider)
        self._spans: dict[Handle, trace.Span] = {}
        self._wait = meter.create_histogram(
            "redislock.wait.duration", "s", "From the call of acquire to its end", explicit_bucket_boundaries_advisory=SECONDS)
        self._hold = meter.create_histogram(
            "redislock.hold.duration", "s", "From the grant to its end", explicit_bucket_boundaries_advisory=SECONDS)
        self._waiting = meter.create_up_down_counter("redislock.waiting", "{waiter}", "Who waits for a lock now")
        self._held = meter.create_up_down_counter("redislock.held", "{lock}", "Locks that are held now")
        self._lost = meter.create_counter("redislock.lost", "{lock}", "Locks that ended before their release")

    def _of(self, lock: Handle, **more: str) -> dict[str, str]:
        attributes = {"redislock.mode": lock.mode} | {f"redislock.{name}": value for name, value in more.items()}
        if self._name is not None:
            attributes["redislock.name"] = self._name(lock.keys[0])
        return attributes

    def waiting(self, lock: Handle) -> None:
        attributes = self._of(lock)
        self._spans[lock] = self._tracer.start_span("redislock.wait", kind=trace.SpanKind.CLIENT, attributes=attributes)
        self._waiting.add(1, attributes)

    def _waited(self, lock: Handle, waited: float, outcome: str, error: BaseException | None = None) -> None:
        self._wait.record(waited, self._of(lock, outcome=outcome))
        if (span := self._spans.pop(lock, None)) is not None:
            self._waiting.add(-1, self._of(lock))
            span.set_attribute("redislock.outcome", outcome)
            if error is not None and outcome not in EXPECTED:
                span.set_status(trace.StatusCode.ERROR, str(error))
            span.end()

    def acquired(self, lock: Handle, waited: float) -> None:
        self._waited(lock, waited, "acquired")
        self._held.add(1, self._of(lock))

    def refused(self, lock: Handle, waited: float, outcome: Outcome, error: BaseException) -> None:
        self._waited(lock, waited, outcome, error)

    def released(self, lock: Handle, held: float) -> None:
        self._ended(lock, held, "released")

    def lost(self, lock: Handle, held: float, error: LockLost) -> None:
        self._ended(lock, held, "lost")
        self._lost.add(1, self._of(lock, reason=error.reason))

    def _ended(self, lock: Handle, held: float, outcome: str) -> None:
        self._hold.record(held, self._of(lock, outcome=outcome))
        self._held.add(-1, self._of(lock))
