# frozen_string_literal: true

# Threads that are killed, or raised at, anywhere: nothing stays held, nobody stays in a queue.

require "timeout"
require_relative "support"

class InterruptsTest < Test
  class Stop < StandardError; end

  def test_a_wait_that_is_ended_leaves_the_queue
    occupy("door")
    ends = { kill: ->(thread) { thread.kill }, raise: ->(thread) { thread.raise(Stop) } }
    ends.each_value do |finish|
      waiting = start { @locks.with_lock("door") { flunk "two have the lock" } }
      wait_for("it waits") { waiters("door") == 1 }
      finish.call(waiting)
      wait_for("it has left", 1) { waiters("door").zero? }
    end
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { @locks.acquire("door") } }
    wait_for("it has left", 1) { waiters("door").zero? }
  end

  def test_work_that_is_ended_gives_the_lock_back
    %i[kill raise].each do |how|
      working = start { @locks.with_lock("door") { sleep } }
      wait_for("it works") { !info(@other, "door").empty? }
      how == :kill ? working.kill : working.raise(Stop)
      wait_for("it is free", 1) { info(@other, "door").empty? }
    end
  end

  def test_interrupted_at_any_moment
    random = Random.new(ENV.fetch("REDISLOCK_SEED", 1).to_i)
    held = 0
    300.times do |number|
      thread = start { loop { @locks.with_lock("door", "window#{number % 2}") { held += 1 } } }
      sleep random.rand * 0.02 # the moment is what is tried
      number.odd? ? thread.kill : thread.raise(Stop)
      wait_for("it ends", 5) { !thread.alive? }
    end
    assert_operator held, :>, 300
    wait_for("all is free", 1) { %w[door window0 window1].all? { |key| info(@other, key).empty? } }
  end
end
