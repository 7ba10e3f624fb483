# frozen_string_literal: true

# Tests in which thread an observer is called, and what OpenTelemetry records, if its gems are installed.
# (conformance/driver/scenarios_observer.py tests what an observer is told.)

require_relative "support"
begin
  require "redislock/opentelemetry"
  require "opentelemetry/sdk"
  require "opentelemetry-metrics-sdk"
rescue LoadError # Debian does not package these gems
  puts "skipped: Variant: OpenTelemetry of Ruby is not installed"
end

class ObserverTest < Test
  def observed(observer)
    @opened << Redislock::Locks.new(connect, observer: observer)
    @opened.last
  end

  def test_an_acquire_that_has_to_wait_says_so_in_its_thread
    events = Queue.new
    notes = Object.new
    %i[waiting acquired released].each { |name| notes.define_singleton_method(name) { |**| events << [name, Thread.current] } }
    seen = observed(notes)
    occupy("door")
    waiting = start { seen.acquire("door") }
    assert_equal [:waiting, waiting], Timeout.timeout(60) { events.pop }
    @other.call("LOCK.RELEASE", "door", "other")
    waiting.value.release
    waiting.value.release
    assert_equal [[:acquired, waiting], [:released, Thread.current]], Array.new(2) { Timeout.timeout(60) { events.pop } }
    assert_empty events
  end

  def test_an_observer_that_fails_is_told_of_and_changes_nothing
    broken = Object.new
    def broken.acquired(**) = raise("not today")
    _, said = capture_io { observed(broken).with_lock("door") { |held| refute held.lost? } }
    assert_equal 1, said.scan("not today").size
    assert_empty info(@other, "door")
  end

  if defined?(OpenTelemetry::SDK::Metrics)
    def test_opentelemetry
      metrics, spans = OpenTelemetry::SDK::Metrics::Export::InMemoryMetricPullExporter.new, OpenTelemetry::SDK::Trace::Export::InMemorySpanExporter.new
      OpenTelemetry.meter_provider = OpenTelemetry::SDK::Metrics::MeterProvider.new.tap { |all| all.add_metric_reader(metrics) }
      OpenTelemetry.tracer_provider = OpenTelemetry::SDK::Trace::TracerProvider.new.tap do |all|
        all.add_span_processor(OpenTelemetry::SDK::Trace::Export::SimpleSpanProcessor.new(spans))
      end
      points = lambda do |name|
        metrics.reset
        metrics.pull
        found = metrics.metric_snapshots.select { |each| each.name == name && each.instrumentation_scope.version == Redislock::VERSION }.flat_map(&:data_points)
        found.to_h { |point| [point.attributes.transform_keys { |key| key.delete_prefix("redislock.") }, point] }
      end
      exclusive = { "mode" => "exclusive", "name" => "door" }
      locks = observed(Redislock::OpenTelemetry.new(name: ->(key) { key[/\A\w+/] }))
      occupy("door:1")
      work = nil
      waiting = start do
        OpenTelemetry.tracer_provider.tracer("test").in_span("work") do |span|
          work = span.context.span_id
          locks.acquire("door:1")
        end
      end
      wait_for("it waits") { points.call("redislock.waiting")[exclusive]&.value == 1 }
      @other.call("LOCK.RELEASE", "door:1", "other")
      held = waiting.value
      assert_equal 0, points.call("redislock.waiting")[exclusive].value
      assert_equal 1, points.call("redislock.held")[exclusive].value
      waits = points.call("redislock.wait.duration")[exclusive.merge("outcome" => "acquired")]
      assert_equal 1, waits.count
      span = spans.finished_spans.find { |each| each.name == "redislock.wait" }
      assert_equal [:client, work, "acquired"], [span.kind, span.parent_span_id, span.attributes["redislock.outcome"]]
      assert_equal Redislock::VERSION, span.instrumentation_scope.version

      assert_nil locks.try_acquire("door:1")
      assert_equal 1, points.call("redislock.wait.duration")[exclusive.merge("outcome" => "busy")].count
      @other.call("LOCK.BREAK", "door:1")
      lost = exclusive.merge("reason" => "the server says that it has ended")
      wait_for("it is counted") { points.call("redislock.lost")[lost]&.value == 1 }
      assert_equal 1, points.call("redislock.hold.duration")[exclusive.merge("outcome" => "lost")].count
      assert_equal 0, points.call("redislock.held")[exclusive].value
      assert_raises(Redislock::LockLost) { held.release }
      assert_equal 1, spans.finished_spans.count { |each| each.name == "redislock.wait" }
    end
  end
end
