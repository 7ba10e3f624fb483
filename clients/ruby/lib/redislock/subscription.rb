# frozen_string_literal: true

require_relative "wires"

module Redislock
  # The subscription, and who hears it: for a moment a thread that waits for a lock, since to be woken by another one costs more than all
  # the rest of a wait; else a thread that is there for it. With the mutex of the core, which is free while one hears.
  class Subscription
    MOMENT = 0.05 # so long a thread that waits hears, and nothing interrupts it
    REST = 0.01 # so long nobody hears when a wait has ended: who has just been woken may soon wait again

    # Calls `tell` with :up whenever it has subscribed, with messages, and with errors. `waited` says whether somebody waits.
    def initialize(connect, channel, mutex, waited, &tell)
      @connect, @channel, @mutex, @waited, @tell = connect, channel, mutex, waited, tell
      @free, @hearing, @pause = ConditionVariable.new, false, 0
      @threads = [Wires.thread { Thread.handle_interrupt(Object => :never) { subscribe } }, Wires.thread { ping }]
    end

    # Hears for a moment, or until then, or until the block is true. Not if another thread does.
    def lead(ends)
      ends = [ends, Wires.now + MOMENT].min
      hear(ends - Wires.now, :never) while @connection && !@hearing && !yield && Wires.now < ends
      @free.signal if @waited.call
    end

    def close
      @threads.each(&:kill)
      limit = Wires.now + Wires::SILENCE
      @threads.each { |thread| thread.join([0, limit - Wires.now].max) }
    end

    private

    def subscribe
      loop do
        connection = nil
        begin
          interruptible do
            connection = @connect.call
            connection.subscribe(@channel)
          end
          @mutex.synchronize { attend(connection) }
        rescue StandardError => error
          @mutex.synchronize { @tell.call(error) }
        ensure
          Wires.close_quietly(connection)
        end
        interruptible { sleep @pause }
        @pause = [1, @pause + 0.1].min
      end
    end

    # Sees to it that somebody hears, until the connection has failed.
    def attend(connection)
      @connection, @failed, @heard = connection, nil, Wires.now
      until @failed
        dead = @heard + 2 * Wires::SILENCE - Wires.now
        raise IOError, "the subscription is dead" if dead <= 0

        hear(dead, :immediate) unless @hearing
        interruptible { @free.wait(@mutex, REST) } if @hearing || !@waited.call
      end
      raise @failed
    ensure
      @connection = nil
    end

    # One message, if it comes within so many seconds.
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
        @tell.call(what) unless what == :pong
      end
    end

    def ping
      loop do
        sleep Wires::SILENCE
        @connection&.ping
      rescue StandardError # who hears finds out as well
      end
    end

    def interruptible(&block) = Thread.handle_interrupt(Object => :immediate, &block)
  end
end
