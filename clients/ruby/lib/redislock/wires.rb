# frozen_string_literal: true

require_relative "errors"

module Redislock
  # The connections to a node, and the threads that use them when no user's thread does. If a thread were killed while it waits for an answer,
  # its connection would have to be closed, with the places of others: so nothing interrupts it before the answer is there.
  class Wires
    COMMANDS = 8 # connections for commands, shared by all threads. A silent node of a cluster blocks only its own
    PATIENCE = 0.05 # s: how long a thread waits for a free connection, before it leaves its command to others
    SILENCE = 4.0 # s: without a message, the subscription is pinged or, unused, closed; after twice this, it is made anew

    def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    # A thread that can be killed, although its creator masks interrupts. The thread variable keeps Puma from warning of it before a fork.
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
    rescue StandardError # the connection was broken before
    end

    # Whether the process is ending, which kills all its threads: threads that hold locks then release them without the help of others.
    def self.ending? = !Thread.main.alive?

    def initialize(servers)
      @servers = servers
      @idle, @mutex, @given = [nil] * COMMANDS, Mutex.new, ConditionVariable.new # nil: a connection that is not made yet
      @threads = { commands: [], sessions: [] }
      @jobs = { commands: Queue.new, sessions: Queue.new }
      @answered = @unanswered = 0 # when the last answer came, and when a command last got none in time
    end

    # Sends a command, only once. The block gets the reply, the error, and the time before it was sent. Not for two threads at once.
    def send(words, session, &answer)
      kind = session ? :sessions : :commands
      @jobs[kind] << [words, answer, Wires.now]
      return if @jobs[kind].size <= @jobs[kind].num_waiting || @threads[kind].size >= (session ? 1 : COMMANDS) || Wires.ending?

      @threads[kind] << Wires.thread { session ? keep(@jobs[kind]) : work(@jobs[kind]) }
    end

    # Sends a command in this thread, if a connection is free soon; at a silent server, others may keep all connections for a long time.
    def send_now(words, answer, interrupts = :never)
      connection = take { return send(words, false, &answer) }
      begin
        connection, *result = Thread.handle_interrupt(Object => interrupts) { call(connection, words) }
      ensure
        give(result && connection)
      end
      answer.call(*result)
    end

    # Sends the commands that are left, in this thread.
    def work_off
      @jobs[:commands] << nil && work(@jobs[:commands], :never) until @jobs[:commands].empty?
    end

    def close(limit)
      @threads.each { |kind, threads| threads.size.times { @jobs[kind] << nil } }
      @threads.values.flatten.each { |thread| thread.join([0, limit - Wires.now].max) }
      @mutex.synchronize { @idle.each { |connection| Wires.close_quietly(connection) } }
    end

    private

    # Loop of the sending threads. Only the end of the process interrupts them: then nobody waits for the answers.
    def work(jobs, interrupts = :immediate)
      while (words, answer, asked = jobs.pop)
        # A command that was queued while others got no answer fails like them, instead of waiting as long again.
        if @answered < asked && asked < @unanswered
          answer.call(nil, @error, asked)
        else
          Thread.handle_interrupt(Object => :never) { send_now(words, answer, interrupts) }
        end
      end
    end

    # Loop of the session thread: sessions end when its connection closes.
    def keep(jobs)
      connection = nil
      while (words, answer = jobs.pop)
        connection, *result = call(connection, words)
        answer.call(*result)
      end
    ensure
      Wires.close_quietly(connection)
    end

    # Returns the connection, if it can be used again, and the arguments for the answer's block.
    def call(connection, words)
      began = Wires.now
      connection ||= @servers.connect
      reply = connection.call(words)
      @answered = Wires.now
      [connection, reply, nil, began]
    rescue StandardError => error
      return [connection, nil, error, began] unless Refusal.ends_connection?(error)

      @error, @unanswered = error, Wires.now if Wires.now > began + PATIENCE # not if the connection was broken, which is known at once
      return [connection, nil, error, began] unless connection.nil? || connection.ended_by?(error)

      Wires.close_quietly(connection)
      [nil, nil, error, began]
    end

    # The most recently used connection is taken first, so that few are made.
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
