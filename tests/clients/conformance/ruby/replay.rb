# frozen_string_literal: true

# Replays traces with the core of the package, without a server or a second thread. `../driver/traces.py` sets the clock, and describes the
# lines.

require "json"
require "redislock"

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

    def interrupt(error)
      @error = error
      wake unless masks.last == :never
    end

    def interrupted
      error = @error
      return if error.nil? || masks.last == :never

      @error = nil
      raise error
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

    def initialize(bench)
      @bench = bench
    end

    def send(words, session, &answer) = Turn.start { ask(words, answer, session) }
    def send_now(words, answer) = ask(words, answer, false)
    def close(_limit) = nil

    private

    def ask(words, answer, session)
      began = Turn.now
      reply, error = @bench.send(words, session)
      answer.call(reply, error, began)
    end
  end

  # Replaces the subscription, which is confirmed when the trace says so.
  class Subscription
    def initialize(bench, name, *, &tell)
      @bench, @name, @tell = bench, name, tell
      bench.listens(self)
    end

    def opened
      @channel = @name
      tell(:up)
    end

    def tell(what) = @tell.call(self, what)
    def lead(_ends) = nil
    def close(_limit) = nil
  end
end

class Stop < RuntimeError; end

# A process with its locks, and the events that a trace tells it.
class Bench
  OUTCOMES = {
    Redislock::NotAcquired => "not acquired", Redislock::LockLost => "lost", Redislock::Closed => "closed", Stop => "cancelled",
    Redislock::Deadlock => "deadlock", Redislock::NotConfirmed => "not confirmed", Redislock::NoModule => "no module",
    Redislock::TooOld => "too old"
  }.freeze
  Acquire = Struct.new(:turn, :held, :until)
  Sent = Struct.new(:turn, :answer)
  Turn = Redislock::Turn

  def initialize
    @locks, @acquires, @sent, @done = Redislock::Locks.allocate, [], [], []
    @locks.instance_variable_set(:@core, Redislock::Core.new(self))
  end

  # Returns the lines for what the core did.
  def step(time, what, *given)
    Turn.time = time
    Turn.start { public_send(what, *given) }
    Turn.settle
    believe
    done, @done = @done, []
    done.unshift([time, "owner", @acquires.size, given[0]["owner"] || Redislock::SecureRandom.last]) if what == "acquire"
    due = Turn.due
    done << ["next", due&.finite? ? (((due - 1000) * 1000) - 0.001).ceil : nil]
  end

  # Replaces the package's server object.

  def node(_key) = nil
  def shards? = false

  def listens(subscription)
    @subscription = subscription
    Turn.start { subscribed } if @ready
  end

  # Returns the trace's reply, or its error.
  def send(words, session)
    @sent << (sent = Sent.new(Turn.current))
    tell("send", @sent.size, words.join(" "), *("session" if session))
    sent.turn.rest(Redislock::Entry::NEVER) until sent.answer
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

  def acquire(options)
    @acquires << (acquire = Acquire.new(Turn.current))
    number, keys = @acquires.size, options.delete("keys")
    options.delete("fresh")
    %w[wait lease max_hold].each { |name| options[name] /= 1000.0 if options[name] }
    options["sync"][1] /= 1000.0 if options["sync"]
    acquire.held = @locks.acquire(*keys, **options.transform_keys(&:to_sym))
    tell("acquired", number, acquire.held.fences, acquire.held.slot)
    acquire.held.on_lost do |error|
      tell("lost", number, @closed ? "closed" : outcome(error))
      acquire.held.release
    rescue Redislock::Error
      nil # the loss was reported before
    end
  rescue StandardError => error
    tell("refused", number, outcome(error))
  end

  def extend(number, lease)
    asked(number, "extended", "not extended") { [(@acquires[number - 1].held.extend(lease && (lease / 1000.0)) * 1000).round] }
  end

  def check(number) = @acquires[number - 1].held.lost
  def release(number) = asked(number, "released", "not released") { @acquires[number - 1].held.release.to_a }
  def cancel(number) = @acquires[number - 1].turn.interrupt(Stop.new)

  def close
    @closed = true
    @locks.close
  end

  def time = nil

  private

  def tell(*said) = @done << [Turn.time, *said]
  def outcome(error) = OUTCOMES.find { |kind, _| error.is_a?(kind) }&.last || "error"

  def asked(number, done, not_done)
    result = yield
    tell(done, number, *result)
  rescue StandardError => error
    tell(not_done, number, outcome(error))
  end

  # Reports the leases that have changed.
  def believe
    @acquires.each.with_index(1) do |acquire, number|
      entry = acquire.held&.instance_variable_get(:@entry)
      ends = entry&.state == :held ? entry.until.finite? ? ((entry.until - 1000) * 1000).round : nil : :over
      tell("believes", number, ends) if ends != :over && ends != acquire.until
      acquire.until = ends
    end
  end
end

bench = nil
$stdin.each_line do |line|
  said = JSON.parse(line)
  if said == ["new"]
    Redislock::Turn.forget
    bench = Bench.new
  else
    $stdout.puts(bench.step(*said).map { |each| JSON.generate(each) })
    $stdout.flush
  end
end
exit!(true) # ends threads in the middle of their work
