# frozen_string_literal: true

require_relative "wires"

module Redislock
  # The subscription at a server or at a shard's primary, and the thread that reads it: for moments a thread that waits for a lock, since being
  # woken by another thread is the most expensive part of a wait; otherwise a thread of its own. Needs the mutex of the core, which is released
  # while a thread reads.
  class Subscription
    MOMENT = 0.05 # s: how long a waiting thread reads without interrupts
    REST = 0.01 # s: the pause after a wait, in which the woken thread may wait again

    attr_reader :channel # set once it has subscribed
    attr_accessor :used # when an entry last needed it

    # Calls `tell` with :up whenever it has subscribed, with messages, and with errors. The subscription ends if `tell` answers yes to :moved
    # (when it has to be made anew) or to :quiet (when it may not be needed). `waited` returns whether any thread waits.
    def initialize(servers, name, node, mutex, waited, &tell)
      @servers, @name, @node, @mutex, @waited, @tell = servers, name, node, mutex, waited, tell
      @free, @hearing, @pause = ConditionVariable.new, false, 0
      @thread = Wires.thread { Thread.handle_interrupt(Object => :never) { subscribe } }
    end

    # Reads for a moment, or until `ends`, or until the block returns true. Does nothing if another thread reads.
    def lead(ends)
      ends = [ends, Wires.now + MOMENT].min
      hear(ends - Wires.now, :never) while @connection && !@hearing && !yield && Wires.now < ends
      @free.signal if @waited.call
    end

    def close(limit)
      @thread.kill
      @thread.join([0, limit - Wires.now].max)
    end

    private

    def subscribe
      known = @node # nil for a single server, or if the cluster's slots are not known yet
      knows = nil
      loop do
        connection = nil
        begin
          unless known
            interruptible { @servers.refresh(@node, knows) }
            break if over?(:moved)
          end
          known = nil
          interruptible do
            channel = @servers.channel(@name, @node)
            connection = @servers.connect(@node)
            connection.subscribe(channel, @servers.shards?)
          end
          @mutex.synchronize { attend(connection) }
          break
        rescue StandardError => error
          knows = (@node if Refusal.code(error) == "MOVED")
          over?(error)
        ensure
          Wires.close_quietly(connection)
        end
        interruptible { sleep @pause }
        @pause = [1, @pause + 0.1].min
      end
    end

    def over?(what) = @mutex.synchronize { @tell.call(self, what) }

    # Makes sure that some thread reads, until the connection has failed, or nobody needs it.
    def attend(connection)
      @connection, @failed, @heard, pinged = connection, nil, Wires.now, false
      until @failed
        quiet = Wires.now - @heard
        raise IOError, "the subscription is dead" if quiet >= 2 * Wires::SILENCE

        if quiet < Wires::SILENCE
          pinged = false
        elsif !pinged
          return if @tell.call(self, :quiet)

          pinged = true
          connection.ping
        end
        hear((pinged ? 2 : 1) * Wires::SILENCE - quiet, :immediate) unless @hearing
        interruptible { @free.wait(@mutex, REST) } if @hearing || !@waited.call
      end
      raise @failed
    ensure
      @connection = nil
    end

    # Reads one message, if one comes within so many seconds.
    def hear(seconds, interrupts)
      connection, @hearing, error = @connection, true, nil
      @mutex.unlock
      begin
        what = Thread.handle_interrupt(Object => interrupts) { connection.hear(seconds) }
      rescue StandardError => error
        what = nil
      ensure
        @mutex.lock
        @hearing = false
      end
      if error
        @connection, @failed = nil, error
        @free.signal
      elsif what
        @heard, @pause = Wires.now, 0
        @channel = connection.channel if what == :up
        @tell.call(self, what) unless what == :alive
      end
    end

    def interruptible(&block) = Thread.handle_interrupt(Object => :immediate, &block)
  end
end
