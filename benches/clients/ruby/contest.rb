# A client that wants one lock; benches/compare starts several, and docs/bench.md tells what it counts.
#
# contest.rb contend ADDRESS WHO SECONDS MS: says "ready", waits for a line, contends for so long, keeps each grant for MS, and prints a
# line for each: when it came, and when it was released, in ns of the one clock that all processes read.

require "redis"
require "redislock"
require "securerandom"

LEASE = 30
_mode, address, who, seconds, keep = ARGV
nodes = address.split(",").map { |node| "redis://#{node}" } # several are those of a cluster
# A wait has no end.
client = Redis.new(**(nodes.one? ? { url: nodes[0] } : { cluster: nodes }), read_timeout: 600)

class Raw
  def initialize(client, key)
    @client, @key = client, key
  end

  def acquire
    @owner = SecureRandom.uuid
    @fence = @client.call("LOCK.ACQUIRE", @key, "OWNER", @owner, "PX", LEASE * 1000, "BLOCK", 0, "ONCE")[1]
  end

  def release
    @client.call("LOCK.RELEASE", @key, @owner, "FENCE", @fence)
  end
end

class Package
  def initialize(client, key)
    @locks, @key = Redislock::Locks.new(client), key
  end

  def acquire
    @held = @locks.acquire(@key, lease: LEASE)
  end

  def release
    @held.release
  end
end

lock = (who == "package" ? Package : Raw).new(client, "contested")
client.ping
puts "ready"
$stdout.flush
$stdin.gets
grants = []
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
finish = now.call + (seconds.to_f * 1e9)
while now.call < finish
  lock.acquire
  granted = now.call
  sleep(keep.to_f / 1000) if keep != "0"
  grants << "#{granted} #{now.call}"
  lock.release
end
puts grants
