# frozen_string_literal: true

# The core of the package without a server or a second thread: its clock, threads and connections do as ../driver/traces.py says.

module Redislock
  # A thread of the package. Only one thread runs at a time, until it waits.
  class Turn
    @all, @time, @late = [], 0, 0

    class << self
      attr_reader :time
      attr_accessor :current

      def start(&work) = new(&work).tap { |turn| @all.unshift(turn) }
      def forget = @all.clear
      def due = @all.map(&:due).min

      # A little later than a whole millisecond, so that rounding makes no timer late.
      def time=(time)
        @late = time == @time ? @late + 1e-6 : 0
        @time = time
      end

      def now = 1000 + (@time / 1000.0) + @late

      # Runs threads and timers until nothing more can be done now.
      def settle
        10_000.times do
          turn = @all.find { |each| each.due <= now } or return
          turn.go_on
          @all.delete(turn) if turn.over?
        end
        abort "it never comes to rest"
      end
    end

    attr_reader :due, :masks

    def initialize(&work)
      @fiber, @due, @masks = Fiber.new(&work), 0, []
    end

    def go_on
      @due = Entry::NEVER
      Turn.current = self
      @fiber.resume
    end

    def over? = !@fiber.alive?
    def wake = @due = 0
    def join(_limit = nil) = nil

    def rest(due)
      @due = due
      Fiber.yield
      interrupted
    end

    # As a thread's method.
    def raise(kind, message)
      @error = kind.new(message)
      wake unless masks.last == :never
    end

    def interrupted
      error = @error
      return if error.nil? || masks.last == :never

      @error = nil
      Kernel.raise error
    end
  end

  # These replace Ruby's own classes inside the package.
  module Thread
    def self.handle_interrupt(masks)
      turn = Turn.current
      turn.masks.push(masks[Object])
      turn.interrupted
      yield
    ensure
      turn.masks.pop
      turn.interrupted
    end
  end

  class Mutex
    def synchronize = yield
  end

  class ConditionVariable
    def initialize
      @waiting = []
    end

    def wait(_mutex, seconds = nil)
      @waiting << (turn = Turn.current)
      turn.rest(seconds ? Turn.now + seconds : Entry::NEVER)
    ensure
      @waiting.delete(turn)
    end

    def signal = @waiting.shift&.wake
    def broadcast = @waiting.size.times { signal }
  end

  module SecureRandom
    class << self
      attr_reader :last

      def uuid = @last = "fresh-#{@last.to_s[/\d+/].to_i + 1}"
    end
  end

  # Replaces the connections: commands wait for the trace's answers.
  class Wires
    def self.now = Turn.now
    def self.thread(&work) = Turn.start(&work)
    def self.ending? = false

    def initialize(locks)
      @locks = locks
    end

    def send(words, session, &answer) = Turn.start { ask(words, answer, session) }
    def send_now(words, answer) = ask(words, answer, false)
    def close(_limit) = nil

    private

    def ask(words, answer, session)
      began = Turn.now
      reply, error = @locks.send(words, session)
      answer.call(reply, error, began)
    end
  end

  # Replaces the subscription, which is confirmed when the trace says so.
  class Subscription
    def initialize(locks, name, *, &tell)
      @name, @tell = name, tell
      locks.listens(self)
    end

    def opened
      @channel = @name
      tell(:up)
    end

    def tell(what) = @tell.call(self, what)
    def lead(_ends) = nil
    def close(_limit) = nil
  end

  # These locks are told what a trace tells, and are their own server.
  class CoreLocks < Locks
    Sent = Struct.new(:turn, :answer)

    def initialize(*, **)
      Turn.forget
      @core, @sent = Core.new(self), []
    end

    # The server that the package needs.

    def node(_key) = nil
    def shards? = false

    def listens(subscription)
      @subscription = subscription
      Turn.start { subscribed } if @ready
    end

    # Returns the trace's reply, or its error.
    def send(words, session)
      @sent << (sent = Sent.new(Turn.current))
      say("sent", command: @sent.size, words: words.join(" "), session: session)
      sent.turn.rest(Entry::NEVER) until sent.answer
      reply = sent.answer[0]
      reply.is_a?(Hash) ? [nil, IOError.new(reply["error"] || "no answer")] : [reply, nil]
    end

    # The events that a trace tells.

    def subscribed
      @ready = true
      @subscription&.opened
    end

    def heard(message) = @subscription.tell(message)

    def answer(number, reply)
      sent = @sent[number - 1]
      sent.answer ||= [reply]
      sent.turn.wake
    end

    def time = nil
  end

  # Carries out a command. Then says what nobody is told: owners, leases that have changed, and when the first timer is due.
  def self.step(command, tasks, &work)
    Turn.time = command["at"]
    Turn.start(&work)
    Turn.settle
    say("owner", task: command["task"], owner: command["owner"] || SecureRandom.last) if command["do"] == "acquire"
    tasks.each_value do |task|
      entry = task.held&.instance_variable_get(:@entry)
      ends = entry&.state == :held ? entry.until.finite? ? ((entry.until - 1000) * 1000).round : nil : :over
      say("believes", task: task.name, until: ends) if ends != :over && ends != task.until
      task.until = ends
    end
    due = Turn.due
    say("next", until: due&.finite? ? (((due - 1000) * 1000) - 0.001).ceil : nil)
  end
end
