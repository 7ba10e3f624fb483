# frozen_string_literal: true

# What an observer hears, and what OpenTelemetry is told, where its gems are installed.

require_relative "support"
begin
  require "redislock/opentelemetry"
  require "opentelemetry/sdk"
  require "opentelemetry-metrics-sdk"
rescue LoadError # Debian lacks its gems
  puts "skipped: Variant: OpenTelemetry of Ruby is not installed"
end

class ObserverTest < Test
  class Notes
    attr_reader :events

    def initialize = @events = Queue.new

    %i[waiting acquired refused released lost].each do |name|
      define_method(name) { |**what| @events << [name, what, Thread.current] }
    end
  end

  def setup
    super
    @notes = Notes.new
    @seen = observed(@notes)
  end

  def observed(observer)
    @opened << Redislock::Locks.new(connect, observer: observer)
    @opened.last
  end

  def heard(name, **wanted)
    event, what, thread = Timeout.timeout(60) { @notes.events.pop }
    assert_equal name, event, what.inspect
    assert_equal wanted, what.slice(*wanted.keys)
    [what, thread]
  end

  def test_what_is_free_is_acquired_without_a_wait
    @seen.with_lock("door", limit: 2) { |held| heard(:acquired, keys: ["door"], mode: :limit, fence: held.fence) }
    what, thread = heard(:released, keys: ["door"], mode: :limit)
    assert_operator what[:held], :>, 0
    assert_same Thread.current, thread
    assert_empty @notes.events
  end

  def test_an_acquire_that_has_to_wait_says_so_in_its_thread
    occupy("door")
    waiting = start { @seen.acquire("door", shared: true) }
    assert_same waiting, heard(:waiting, keys: ["door"], mode: :shared)[1]
    began = clock
    assert_equal 1, waiters("door")
    @other.call("LOCK.RELEASE", "door", "other")
    waiting.value.release
    least = clock - began
    what, thread = heard(:acquired, mode: :shared)
    assert_operator what[:waited], :>, 0
    assert_operator what[:waited], :<, least + 60
    assert_same waiting, thread
    heard(:released)
    waiting.value.release
    assert_empty @notes.events
  end

  def test_what_is_refused_is_told_why
    occupy("door")
    assert_nil @seen.try_acquire("door")
    assert_kind_of Redislock::NotAcquired, heard(:refused, outcome: :busy)[0][:reason]
    assert_raises(Redislock::NotAcquired) { @seen.with_lock("door", wait: 0.5) { flunk } }
    heard(:waiting)
    assert_operator heard(:refused, outcome: :timeout)[0][:waited], :>=, 0.5
    [->(thread) { thread.kill }, ->(thread) { thread.raise("enough") }].each do |ends|
      waiting = start { @seen.with_lock("door") { flunk } }
      heard(:waiting)
      ends.call(waiting)
      heard(:refused, outcome: :cancelled)
    end
    assert_raises(Redis::CommandError) { @seen.acquire("door", limit: 5000) }
    heard(:refused, outcome: :error)
    owner = @seen.acquire("window", owner: "me")
    heard(:acquired)
    @other.call("LOCK.ACQUIRE", "window", "OWNER", "other", "NOTIFY", "channel", "ONCE", "BLOCK", 0)
    assert_raises(Redislock::Deadlock) { @seen.acquire("door", owner: "me", detect: true) }
    heard(:refused, outcome: :deadlock)
    owner.release
    heard(:released)
    waiting = start { @seen.acquire("door") }
    heard(:waiting)
    @seen.close
    assert_raises(Redislock::Closed) { waiting.value }
    heard(:refused, outcome: :closed)
    assert_empty @notes.events
  end

  def test_a_loss_is_told_once_with_its_reason
    held = @seen.acquire("door")
    heard(:acquired)
    @other.call("LOCK.BREAK", "door")
    heard(:lost, keys: ["door"], reason: "the server says that it has ended")
    assert_raises(Redislock::LockLost) { held.release }
    held = @seen.acquire("door")
    heard(:acquired)
    @other.call("LOCK.RELEASE", "door", held.owner) # of which nobody is told
    assert_match(/\Adoor: it is free\z/, assert_raises(Redislock::LockLost) { held.release }.message)
    heard(:lost, reason: "it is free")
    held = @seen.acquire("door", owner: "it's: 'a'")
    heard(:acquired)
    @other.call("LOCK.RELEASE", "door", held.owner)
    assert_equal "it is free", assert_raises(Redislock::LockLost) { held.extend }.reason
    heard(:lost, reason: "it is free")
    assert_empty @notes.events
  end

  def test_what_is_closed_is_given_back_and_told_as_released
    held, * = [["door", {}], ["twice", { owner: "me" }], ["twice", { owner: "me" }]].map { |key, options| @seen.acquire(key, **options) }
    told = Queue.new
    held.on_lost { |lost| told << lost.message }
    gone = @seen.acquire("gone", lease: 600)
    @other.call("LOCK.RELEASE", "gone", gone.owner) # of which nobody is told
    4.times { heard(:acquired) }
    @seen.close
    assert_equal %w[released released released lost].zip(%w[door twice twice gone]).map { |event, key| [event.to_sym, [key], key == "gone" ? "it is free" : nil] }.sort_by(&:inspect),
                 Array.new(4) { @notes.events.pop }.map { |event, what| [event, what[:keys], what[:reason]] }.sort_by(&:inspect)
    assert_empty @notes.events
    assert_equal "door: the locks were closed", told.pop
    assert_raises(Redislock::LockLost) { held.check! }
    %w[door twice].each { |key| assert_empty info(@other, key) }
  end

  def test_what_closing_can_not_give_back_counts_as_lost
    @seen.acquire("door")
    heard(:acquired)
    @other.call("CLIENT", "PAUSE", 600_000, "WRITE")
    @seen.close
    heard(:lost, keys: ["door"], reason: "the locks were closed")
    assert_empty @notes.events
  ensure
    @other.call("CLIENT", "UNPAUSE")
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
