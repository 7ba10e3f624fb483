# frozen_string_literal: true

require_relative "errors"

module Redislock
  # The threads that speak with the server, so that no thread of the user does: it may be killed at any time, and a connection with
  # an answer on its way would die with it, and with that the places of others.
  class Wires
    COMMANDS = 8 # connections for commands; 1,000 threads share them
    SILENCE = 4.0 # after it the subscription is pinged, and after twice as long made anew

    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # It can be killed, though it is made where nothing may come in between.
    def self.thread
      Thread.new do
        Thread.current.name = "redislock"
        Thread.handle_interrupt(Object => :immediate) { yield }
      end
    end

    # At its end, a process kills all its threads. Those that hold a lock release it then, without the help of others.
    def self.ending? = !Thread.main.alive?

    def initialize(connect)
      @connect = connect
      @threads = { commands: [], sessions: [] }
      @jobs = { commands: Queue.new, sessions: Queue.new }
      @listening = nil
    end

    # Sends a command, once. The block gets the reply, the error, and the time before it was sent. Not for two threads at once.
    def send(words, session, &answer)
      kind = session ? :sessions : :commands
      @jobs[kind] << [words, answer]
      return if @jobs[kind].size <= @jobs[kind].num_waiting || @threads[kind].size >= (session ? 1 : COMMANDS) || Wires.ending?

      @threads[kind] << Wires.thread { work(@jobs[kind]) }
    end

    # Sends what is left, in this thread.
    def work_off
      @jobs[:commands] << nil
      work(@jobs[:commands])
    end

    # Yields :up whenever it has subscribed, messages, and errors.
    def listen(channel, &hear)
      @listener = Wires.thread { subscribe(channel, &hear) }
      @pinger = Wires.thread do
        loop do
          sleep SILENCE
          @listening&.ping
        rescue StandardError # the other thread finds out as well
        end
      end
    end

    def close
      [@listener, @pinger].compact.each(&:kill)
      @threads.each { |kind, threads| threads.size.times { @jobs[kind] << nil } }
      limit = Wires.now + SILENCE
      [@listener, @pinger, *@threads.values.flatten].compact.each { |thread| thread.join([0, limit - Wires.now].max) }
    end

    private

    def work(jobs)
      connection = nil
      while (words, answer = jobs.pop)
        began = Wires.now
        reply = error = nil
        begin
          connection ||= @connect.call
          reply = connection.call(words)
        rescue StandardError => error
          close_quietly(connection) if Refusal.passes?(error) # the server may be another one now
        end
        answer.call(reply, error, began)
      end
    ensure
      close_quietly(connection)
    end

    def subscribe(channel)
      pause = 0
      loop do
        begin
          connection = @connect.call
          connection.listen(channel, 2 * SILENCE) do |what|
            @listening = connection
            pause = 0
            yield what
          end
          yield IOError.new("the subscription is dead")
        rescue StandardError => error
          yield error
        ensure
          @listening = nil
          close_quietly(connection)
        end
        sleep pause
        pause = [1, pause + 0.1].min
      end
    end

    def close_quietly(connection)
      connection&.close
    rescue StandardError # it was broken anyway
    end
  end
end
