# frozen_string_literal: true

# The program of the conformance scenarios. Its argument is the client: redis-rb, redis-client, or `core`, the package's core without a server.

require "json"
require "redislock"
CORE = ARGV[0] == "core"
if CORE
  require_relative "core"
else
  require ARGV[0] == "redis-rb" ? "redis" : "redis-client"
  begin
    require ARGV[0] == "redis-rb" ? "redis-clustering" : "redis-cluster-client"
  rescue LoadError
    # redis-rb 4 contains it
  end
end

Thread.report_on_exception = true
WRITING = Mutex.new

def say(event, **fields)
  at = CORE ? { at: Redislock::Turn.time } : {}
  WRITING.synchronize { $stdout.write("#{JSON.generate({ event: event, **at, **fields })}\n") && $stdout.flush }
end

def start(&work) = CORE ? Redislock::Turn.start(&work) : Thread.new(&work)

# Raised in a thread to cancel its wait or its work.
class Stop < RuntimeError; end

class Tells
  %i[waiting acquired refused released lost].each do |event|
    define_method(event) do |keys:, mode:, **more|
      what = [event, keys.join(","), mode, *more[:outcome]].join(" ")
      say("observed", what: what, ms: (more[:waited] || more[:held] || 0) * 1000, reason: (more[:reason] if event == :lost))
    end
  end
end

EVENTS = {
  Redislock::NotAcquired => "not_acquired", Redislock::LockLost => "lost", Redislock::Closed => "closed", Stop => "cancelled",
  Redislock::NotConfirmed => "not_confirmed", Redislock::NoModule => "no_module", Redislock::TooOld => "too_old",
  ArgumentError => "refused", Redislock::Deadlock => "deadlock"
}.freeze

def tell(what, task, error)
  event = EVENTS.find { |kind, _| error.is_a?(kind) }&.last || "error"
  more = error.is_a?(Redislock::Deadlock) ? { cycle: error.cycle } : {}
  say(event, what: what, task: task, message: "#{error.class}: #{error.message}", reason: error.message, **more)
end

# Converts the options of a command: milliseconds become seconds.
def options(command)
  found = command.slice(*%w[shared limit slot label detect session owner renew]).transform_keys(&:to_sym)
  %w[wait lease max_hold].each { |name| found[name.to_sym] = command[name] / 1000.0 if command[name] }
  found[:sync] = [command["sync"][0], command["sync"][1] / 1000.0] if command["sync"]
  found
end

def connect(command)
  hosts = command["urls"].map { |url| url.delete_prefix("redis://").split(":").then { |host, port| { host: host, port: port.to_i } } }
  more = { timeout: 5 }
  if ARGV[0] == "redis-client"
    case command["kind"]
    when "sentinel" then RedisClient.sentinel(name: command["service"], sentinels: hosts, **more).new_client
    when "cluster" then RedisClient.cluster(nodes: command["urls"], **more).new_pool(size: 5)
    else RedisClient.config(**hosts[0], **more).new_pool(size: command["pool"] || 5)
    end
  elsif command["kind"] == "sentinel"
    Redis.new(**(Redis::VERSION.to_i < 5 ? { url: "redis://#{command["service"]}" } : { name: command["service"] }), sentinels: hosts, **more)
  elsif command["kind"] == "cluster"
    Redis::VERSION.to_i < 5 ? Redis.new(cluster: command["urls"], **more) : Redis::Cluster.new(nodes: command["urls"], **more)
  else
    Redis.new(**hosts[0], **more)
  end
end

class Task
  attr_reader :name, :held
  attr_accessor :until

  def initialize(locks, command)
    @name = command["task"]
    @thread = start { acquire(locks, command["keys"], options(command)) }
  end

  def acquire(locks, keys, wanted)
    held = @held = locks.acquire(*keys, **wanted)
    say("acquired", task: @name, owner: held.owner, fences: held.fences, slot: held.slot)
    held.on_lost do |error|
      tell("lost", @name, error)
      start { held.release rescue nil } # the loss has been told
    end
  rescue StandardError => error
    tell("refused", @name, error)
  end

  # Returns before the next command is read, but only when the release has begun.
  def release(event = "released")
    thread = asked(event, "not released") { @held.release }
    Thread.pass while !CORE && thread.status == "run"
  end

  def cancel = @held ? release("cancelled") : @thread.raise(Stop, "no longer wanted")
  def extend(lease) = asked("extended", "not extended") { { lease: (@held.extend(lease && (lease / 1000.0)) * 1000).round } }
  def check = @held.lost

  private

  def asked(event, failure)
    start do
      say(event, task: @name, **(yield || {}))
    rescue StandardError => error
      tell(failure, @name, error)
    end
  end
end

tasks, locks, client = {}, nil, nil
obey = lambda do |command|
  what, task, given = command["do"], command["task"], command.except("do", "task", "at").values
  case what
  when "open"
    client = connect(command) unless CORE
    tasks.clear
    locks = (CORE ? Redislock::CoreLocks : Redislock::Locks).new(client, **(command["observe"] ? { observer: Tells.new } : {}))
    say("opened")
  when "acquire" then tasks[task] = Task.new(locks, command)
  when "close"
    locks.close
    client&.close
    say("closed")
  else (task ? tasks[task] : locks).public_send(what, *given)
  end
end
$stdin.each_line do |line|
  command = JSON.parse(line)
  CORE ? Redislock.step(command, tasks) { obey.call(command) } : obey.call(command)
end
exit!(true) if CORE # ends threads in the middle of their work
locks&.close
