# frozen_string_literal: true

module Redislock
  # A lock that is held: renewed while it is, and told of its loss.
  class Held
    def initialize(core, entry)
      @core, @entry = core, entry
    end

    def keys = @entry.request.keys.dup
    def owner = @entry.request.owner

    # Rises with each grant: a resource that checks it refuses a holder that was too slow. Of several locks: the greatest.
    def fence = @entry.fences.max

    # One for each key. Locks that were acquired together have one fence, unless they were held before.
    def fences = @entry.fences.dup

    # The number of this holder's place among those of `limit`, where the server has them.
    def slot = @entry.slots.first

    # Why the lock was lost, if it was.
    def lost = @core.lost(@entry)
    def lost? = !lost.nil?

    # Raises LockLost if the lock was lost.
    def check! = (error = lost) && raise(error)

    # Calls the block with the LockLost as soon as the lock is lost, in another thread.
    def on_lost(&listener) = @core.on_lost(@entry, listener)

    # Sets the lease, counted from now, and that of renewals; nil leaves its length. Returns the seconds that the server gave.
    def extend(lease = nil)
      Request.ms("lease", lease) if lease
      @core.extend(@entry, lease)
    end

    # Raises LockLost if the lock was lost before. In a child after a fork, the lock is the parent's.
    def release
      @core.release(@entry) if @core.pid == Process.pid
      nil
    end
  end
end
