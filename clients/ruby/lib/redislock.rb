# frozen_string_literal: true

require_relative "redislock/connection"
require_relative "redislock/core"
require_relative "redislock/ending"
require_relative "redislock/errors"
require_relative "redislock/held"
require_relative "redislock/request"
require_relative "redislock/version"
require_relative "redislock/watch"

module Redislock
  # The locks of a process: make one, and share it between all threads. `client` is a Redis (of Sentinel, of a cluster), a RedisClient, or a
  # pool of them. After a fork, the child starts anew, and holds nothing.
  #
  # The options, with times in seconds: wait (nil: for ever, 0: ask once), lease, renew: false, max_hold, session: true, shared: true, limit:
  # n, slot: k, detect: true, sync: [replicas, seconds], owner, label.
  class Locks
    #
    # The observer hears what becomes of each acquire, by those of these methods that it has, with keyword arguments. After `waiting` comes
    # `acquired` or `refused`, and after `acquired` either `released` or `lost`. Only `lost` comes in another thread. Times are in seconds.
    #   waiting(keys:, mode:)                               others hold the lock; mode is :exclusive, :shared or :limit
    #   acquired(keys:, mode:, waited:, fence:)
    #   refused(keys:, mode:, waited:, outcome:, reason:)   :timeout, :busy, :cancelled, :deadlock, :closed or :error; the error, or nil
    #   released(keys:, mode:, held:)
    #   lost(keys:, mode:, held:, reason:)                  why, in words
    def initialize(client, observer: nil)
      @client, @servers, @starting, @observer = client, Connection.like(client), Mutex.new, observer
    end

    # Runs the block while it holds the lock, or all of several locks, and returns the result of the block.
    def with_lock(*keys, **options)
      core, entry = self.core, new_entry(keys, options)
      held = Held.new(core, entry)
      begin
        core.acquire(entry)
        yield held
      rescue Exception => error
        raise
      ensure # also after a return or a break in the block, or when the thread is killed
        # Before anything else: an interrupt before the release would leave the lock held, and renewed for ever.
        Thread.handle_interrupt(Object => :never) do
          held.release
        rescue StandardError
          raise unless error # the error of the block is raised instead
        end
      end
    end

    # Acquires as `with_lock` does, but without a block: returns a Held, which the caller has to release.
    def acquire(*keys, **options)
      core, entry = self.core, new_entry(keys, options)
      held, entry.loose = nil, true
      core.acquire(entry)
      held = Held.new(core, entry)
    ensure
      Thread.handle_interrupt(Object => :never) do
        core.release(entry) if entry && !held
      rescue StandardError
        nil # the earlier error is raised instead
      end
    end

    # Asks once, without waiting: nil if somebody else holds the lock.
    def try_acquire(*keys, **options)
      acquire(*keys, **options, wait: 0)
    rescue NotAcquired
      nil
    end

    # Releases what is held, tells its holders, and ends all waits with Closed. The client stays open.
    def close
      @core.close if @core && @core.pid == Process.pid
    end

    private

    def new_entry(keys, options)
      request = Request.new(keys, **options)
      Entry.new(request, @observer && Watch.new(@observer, request))
    end

    def core
      return @core if @core&.current?

      @starting.synchronize { Ending.watch(@core = Core.new(@servers), @client) unless @core&.current? }
      @core
    end
  end
end
