# frozen_string_literal: true

require_relative "errors"

module Redislock
  # Tells an observer of one acquire. Never called with the mutex of the core.
  class Watch
    attr_accessor :queued # whether the server has answered that others hold the lock

    def initialize(observer, request)
      @observer, @request, @began = observer, request, Wires.now
    end

    def waiting = tell(:waiting)

    def acquired(entry)
      @since = Wires.now
      tell(:acquired, waited: @since - @began, fence: entry.fences.max)
    end

    # If there is no error, the thread was killed.
    def refused(entry, error)
      tell(:refused, waited: Wires.now - @began, outcome: outcome(entry, error), reason: error)
    end

    # The release is over. Nothing is told of a grant that came after its wait was cancelled.
    def left(error)
      return unless @since

      error.is_a?(LockLost) ? lost(error) : tell(:released, held: Wires.now - @since)
    end

    def lost(error) = tell(:lost, held: Wires.now - @since, reason: error.reason)

    private

    def outcome(entry, error)
      return :closed if error.is_a?(Closed)
      return :cancelled if entry.error.nil? || !error.equal?(entry.error)

      case error
      when NotAcquired then @request.wait&.zero? ? :busy : :timeout
      when Deadlock then :deadlock
      else :error
      end
    end

    def tell(event, **what)
      @observer.public_send(event, keys: @request.keys, mode: @request.shape, **what) if @observer.respond_to?(event)
    rescue StandardError => error
      warn "redislock: an observer has failed: #{error.full_message(highlight: false)}"
    end
  end
end
