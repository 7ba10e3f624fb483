# frozen_string_literal: true

require_relative "errors"

module Redislock
  # The connections to a node, and the threads that speak with the server where no thread of the user does. A connection with an answer on its way
  # must not die with a thread that is killed, and with it the places of others: so nothing interrupts a thread before it has the answer.
  class Wires
    COMMANDS = 8 # connections for commands; 1,000 threads share them. In a cluster, a node that is silent keeps no others waiting
    PATIENCE = 0.05 # so long a thread waits for a connection itself, before it leaves its command to others
    SILENCE = 4.0 # after it the subscription is pinged, or closed if nobody needs it, and after twice as long made anew

    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # It can be killed, though it is made where nothing may come in between. Puma need not warn of it before it forks.
    def self.thread
      thread = Thread.new do
        Thread.current.name = "redislock"
        Thread.handle_interrupt(Object => :immediate) { yield }
      end
      thread.thread_variable_set(:fork_safe, true)
      thread
    end

    def self.close_quietly(connection)
      connection&.close
    rescue StandardError # it was broken anyway
    end

    # At its end, a process kills all its threads. Those that hold a lock release it then, without the help of others.
    def self.ending? = !Thread.main.alive?

    def initialize(servers)
      @servers = servers
      @idle, @mutex, @given = [nil] * COMMANDS, Mutex.new, ConditionVariable.new # nil: one that can be made
      @threads = { commands: [], sessions: [] }
      @jobs = { commands: Queue.new, sessions: Queue.new }
      @answered = @unanswered = 0 # when the last answer came, and when the last command was given up without one
    end

    # Sends a command, once. The block gets the reply, the error, and the time before it was sent. Not for two threads at once.
    def send(words, session, &answer)
      kind = session ? :sessions : :commands
      @jobs[kind] << [words, answer, Wires.now]
      return if @jobs[kind].size <= @jobs[kind].num_waiting || @threads[kind].size >= (session ? 1 : COMMANDS) || Wires.ending?

      @threads[kind] << Wires.thread { session ? keep(@jobs[kind]) : work(@jobs[kind]) }
    end

    # Sends a command in this thread, if there is a connection: where the server is silent, others may keep them all for a long time.
    def send_now(words, answer, interrupts = :never)
      connection = take { return send(words, false, &answer) }
      begin
        connection, *result = Thread.handle_interrupt(Object => interrupts) { call(connection, words) }
      ensure
        give(result && connection)
      end
      answer.call(*result)
    end

    # Sends what is left, in this thread.
    def work_off
      @jobs[:commands] << nil && work(@jobs[:commands], :never) until @jobs[:commands].empty?
    end

    def close(limit)
      @threads.each { |kind, threads| threads.size.times { @jobs[kind] << nil } }
      @threads.values.flatten.each { |thread| thread.join([0, limit - Wires.now].max) }
      @mutex.synchronize { @idle.each { |connection| Wires.close_quietly(connection) } }
    end

    private

    # Only the end of the process interrupts the threads that are there for it: it does not wait for an answer.
    def work(jobs, interrupts = :immediate)
      while (words, answer, asked = jobs.pop)
        # What has waited while others got no answer gets none either: of many, each would wait for as long after the ones before it.
        if @answered < asked && asked < @unanswered
          answer.call(nil, @error, asked)
        else
          Thread.handle_interrupt(Object => :never) { send_now(words, answer, interrupts) }
        end
      end
    end

    # Sessions live as long as this connection.
    def keep(jobs)
      connection = nil
      while (words, answer = jobs.pop)
        connection, *result = call(connection, words)
        answer.call(*result)
      end
    ensure
      Wires.close_quietly(connection)
    end

    # The connection, if it can be used again, and what the answer is called with.
    def call(connection, words)
      began = Wires.now
      connection ||= @servers.connect
      reply = connection.call(words)
      @answered = Wires.now
      [connection, reply, nil, began]
    rescue StandardError => error
      return [connection, nil, error, began] unless Refusal.ends_connection?(error)

      @error, @unanswered = error, Wires.now if Wires.now > began + PATIENCE # a connection that is broken says so at once
      return [connection, nil, error, began] unless connection.nil? || connection.ended_by?(error)

      Wires.close_quietly(connection)
      [nil, nil, error, began]
    end

    # The one that was used last, so that few are made.
    def take
      limit = Wires.now + PATIENCE
      @mutex.synchronize do
        while @idle.empty?
          left = limit - Wires.now
          return yield unless left.positive?

          @given.wait(@mutex, left)
        end
        @idle.pop
      end
    end

    def give(connection)
      @mutex.synchronize do
        connection ? @idle.push(connection) : @idle.unshift(nil)
        @given.signal
      end
    end
  end
end
