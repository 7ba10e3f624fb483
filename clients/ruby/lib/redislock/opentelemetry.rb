# frozen_string_literal: true

require "opentelemetry"
require "opentelemetry-metrics-api"
require_relative "../redislock"

module Redislock
  # An observer for OpenTelemetry: `Locks.new(client, observer: Redislock::OpenTelemetry.new)`, once the SDK is configured. `name` maps a key
  # to a name in metrics and spans, such as "invoice:42" to "invoice"; without it, they have no names, since metrics need few different ones.
  # The SDK's own buckets are for milliseconds: add views with BUCKETS.
  class OpenTelemetry
    BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300].freeze
    WAITING = :redislock_waiting # the thread-local attributes and span of its wait
    EXPECTED = %i[timeout busy cancelled].freeze

    def initialize(name: nil)
      @name, @tracer = name, ::OpenTelemetry.tracer_provider.tracer("redislock", VERSION)
      meter = ::OpenTelemetry.meter_provider.meter("redislock", version: VERSION)
      @waits = meter.create_histogram("redislock.wait.duration", unit: "s", description: "How long an acquire took")
      @holds = meter.create_histogram("redislock.hold.duration", unit: "s", description: "How long a lock was held")
      @waiting = meter.create_up_down_counter("redislock.waiting", unit: "{waiter}", description: "Acquires that wait")
      @held = meter.create_up_down_counter("redislock.held", unit: "{lock}", description: "Locks that are held")
      @lost = meter.create_counter("redislock.lost", unit: "{lock}", description: "Locks that ended without a release")
    end

    def waiting(keys:, mode:)
      attributes = attributes(keys, mode)
      @waiting.add(1, attributes: attributes)
      Thread.current[WAITING] = [attributes, @tracer.start_span("redislock.wait", kind: :client, attributes: attributes)]
    end

    def acquired(keys:, mode:, waited:, **)
      attributes = attributes(keys, mode)
      @held.add(1, attributes: attributes)
      waited(attributes, waited, :acquired)
    end

    def refused(keys:, mode:, waited:, outcome:, reason:)
      waited(attributes(keys, mode), waited, outcome, EXPECTED.include?(outcome) ? nil : reason)
    end

    def released(keys:, mode:, held:) = ended(attributes(keys, mode), held, :released)

    def lost(keys:, mode:, held:, reason:)
      attributes = attributes(keys, mode)
      ended(attributes, held, :lost)
      @lost.add(1, attributes: attributes.merge("redislock.reason" => reason))
    end

    private

    def attributes(keys, mode)
      { "redislock.mode" => mode.to_s, **(@name ? { "redislock.name" => @name.call(keys[0]) } : {}) }
    end

    def waited(attributes, seconds, outcome, error = nil)
      @waits.record(seconds, attributes: attributes.merge("redislock.outcome" => outcome.to_s))
      asked, span = Thread.current[WAITING]
      return unless span

      Thread.current[WAITING] = nil
      @waiting.add(-1, attributes: asked)
      span.set_attribute("redislock.outcome", outcome.to_s)
      if error
        span.record_exception(error)
        span.status = ::OpenTelemetry::Trace::Status.error(error.message)
      end
      span.finish
    end

    def ended(attributes, seconds, outcome)
      @held.add(-1, attributes: attributes)
      @holds.record(seconds, attributes: attributes.merge("redislock.outcome" => outcome.to_s))
    end
  end
end
