# frozen_string_literal: true

module Redislock
  # A lock that is held. The package renews it, and tells the holder if it is lost.
  class Held
    def initialize(core, entry)
      @core, @entry = core, entry
    end

    def keys = @entry.request.keys.dup
    def owner = @entry.request.owner

    # Greater for each later grant: a resource that checks it can refuse a late holder. With several locks, their greatest fence.
    def fence = @entry.fences.max

    # One fence for each key. Locks that were acquired together have the same fence, unless the owner held one of them before.
    def fences = @entry.fences.dup

    # With `limit`: which of the holders this one is, from 1; nil if the server does not tell.
    def slot = @entry.slots.first

    # Why the lock was lost; nil if it was not.
    def lost = @core.lost(@entry)
    def lost? = !lost.nil?

    # Raises LockLost if the lock was lost.
    def check! = (error = lost) && raise(error)

    # Calls the block with the LockLost as soon as the lock is lost, in another thread.
    def on_lost(&listener) = @core.on_lost(@entry, listener)

    # Sets the lease, counted from now, also for later renewals; nil keeps its length. Returns the lease, in seconds, that the server gave.
    def extend(lease = nil)
      Request.ms("lease", lease) if lease
      @core.extend(@entry, lease)
    end

    # Raises LockLost if the lock was lost before. Does nothing in a child after a fork: the parent holds the lock.
    def release
      @core.release(@entry) if @core.pid == Process.pid
      nil
    end
  end
end
