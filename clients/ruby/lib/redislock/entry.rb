# frozen_string_literal: true

module Redislock
  # One acquire: the wait, then the grant. The mutex of the core guards it.
  class Entry
    NEVER = Float::INFINITY
    NO_LEASE = 30.0 # s: assumed for a lease whose length is unknown

    attr_reader :request, :changed, :heard_lost, :listeners, :watch
    attr_accessor :state # :waiting, :held, :lost, :leaving, :over
    attr_accessor :fences, :slots, :lease
    attr_accessor :shard # the subscription for its messages
    attr_accessor :left # the grant of another entry of this owner, which left it to this waiting one
    attr_accessor :given, :aged # given: by the last extension; aged: this was less than asked for, or than before
    attr_accessor :until, :due # when the wait or the lease is over; when a command has to be sent
    attr_accessor :flight # the lease that the pending command sets; an entry has at most one such command
    attr_accessor :most # the latest end that its answer can set, since a shorter lease may follow
    attr_accessor :doubted # whether the server has to be asked if it still knows this grant and channel
    attr_accessor :asked, :told # when the lock was last asked for; a start message that came before the answer
    attr_accessor :unclaimed # the work began at a start message: the claim is still to come
    attr_accessor :place, :unsure # the server may have a place for it; an answer was lost, so it may be held
    attr_accessor :used # when this one left, others of its owner had the grant or waited for it
    attr_accessor :loose # no block releases it
    attr_accessor :ended # the loss that its holder was told when the locks were closed
    attr_accessor :again # a release was sent before, so NOTHELD does not mean a loss
    attr_accessor :tries, :trouble, :extension, :error

    # `watch` tells the observer about this entry, if there is one.
    def initialize(request, watch = nil)
      @request, @watch, @changed = request, watch, ConditionVariable.new
      @heard_lost, @listeners, @fences, @slots = [], [], [], []
      @until = @due = NEVER
      @lease, @tries = NO_LEASE, 0
    end

    # Whether both entries share a grant, or may do so.
    def shares?(other)
      one = fences.empty? || other.fences.empty? || fences == other.fences
      one && !used && !equal?(other) && request.keys.sort == other.request.keys.sort
    end
  end

  # An extension whose caller waits for the answer. `due`: when the next command was planned before.
  Extension = Struct.new(:lease, :due, :error, :done)
end
