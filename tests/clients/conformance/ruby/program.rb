# frozen_string_literal: true

# The program of the conformance scenarios. Its argument is the client: redis-rb or redis-client.

require "json"
require "redislock"
require ARGV[0] == "redis-rb" ? "redis" : "redis-client"
begin
  require ARGV[0] == "redis-rb" ? "redis-clustering" : "redis-cluster-client"
rescue LoadError
  # redis-rb 4 contains it
end

Thread.report_on_exception = true
WRITING = Mutex.new

def say(event, **fields)
  WRITING.synchronize { $stdout.write("#{JSON.generate({ event: event, **fields })}\n") && $stdout.flush }
end

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
  Redislock::NotAcquired => "not_acquired", Redislock::LockLost => "lost", Redislock::Closed => "cancelled", Stop => "cancelled",
  Redislock::NotConfirmed => "not_confirmed", Redislock::NoModule => "no_module", Redislock::TooOld => "too_old",
  ArgumentError => "refused", Redislock::Deadlock => "deadlock"
}.freeze

def tell(task, error)
  event = EVENTS.find { |kind, _| error.is_a?(kind) }&.last || "error"
  more = error.is_a?(Redislock::Deadlock) ? { cycle: error.cycle } : {}
  say(event, task: task, message: "#{error.class}: #{error.message}", reason: error.message, **more)
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
  def initialize(locks, command)
    @name, @over = command["task"], Queue.new
    @thread = Thread.new { run(locks, command["keys"], options(command)) }
  end

  def run(locks, keys, wanted)
    lost = nil
    locks.with_lock(*keys, **wanted) do |held|
      @held = held
      held.on_lost { |error| @over << error }
      say("acquired", task: @name, owner: held.owner, fences: held.fences, slot: held.slot)
      lost = @over.pop
      raise lost if lost.is_a?(Exception)
    end
    say("released", task: @name)
  rescue StandardError => error
    tell(@name, error)
  end

  # Called before the next command is read, so that the release has begun by then.
  def release
    @over << :release
    Thread.pass until @over.empty?
    Thread.pass while @thread.status == "run"
  end

  def cancel = @thread.raise(Stop, "no longer wanted")

  def extend(lease)
    say("extended", task: @name, lease: (@held.extend(lease / 1000.0) * 1000).round)
  rescue StandardError => error
    tell(@name, error)
  end
end

tasks, locks, client = {}, nil, nil
$stdin.each_line do |line|
  command = JSON.parse(line)
  task = tasks[command["task"]]
  case command["do"]
  when "open"
    client = connect(command)
    locks = Redislock::Locks.new(client, **(command["observe"] ? { observer: Tells.new } : {}))
    say("opened")
  when "acquire" then tasks[command["task"]] = Task.new(locks, command)
  when "release", "cancel" then task.public_send(command["do"])
  when "extend" then Thread.new { task.extend(command["lease"]) }
  when "close"
    locks.close
    client.close
    say("closed")
  end
end
locks&.close
