# frozen_string_literal: true

module Redislock
  # One acquire: the wait, then the grant. All of it changes under the mutex of the core.
  class Entry
    NEVER = Float::INFINITY
    NO_LEASE = 30.0 # what to assume of a lease that is not known

    attr_reader :request, :changed, :heard_lost, :listeners, :watch
    attr_accessor :state # :waiting, :held, :lost, :leaving, :over
    attr_accessor :fences, :slots, :lease
    attr_accessor :shard # the subscription that has its messages
    attr_accessor :left # the grant of one that released it while this one waited
    attr_accessor :given, :aged # by the last extension; it came out shorter than asked for, or than the one before
    attr_accessor :until, :due # when the wait or the lease is over, and when there is something to send
    attr_accessor :flight # a command has no answer yet: the lease that it sets. There is one at a time for each entry
    attr_accessor :most # its answer is believed until then, since another command may set a shorter lease behind it
    attr_accessor :doubted # whether the server knows of us as it did
    attr_accessor :asked, :told # when it was asked for last; the message that it is granted, if that came before the answer
    attr_accessor :unclaimed # its work has begun at the message, and the server has not been asked since
    attr_accessor :place, :unsure # it may have a place; an answer was lost, so it may be held
    attr_accessor :used # others had the grant, or will have it, when this one left
    attr_accessor :loose # no block gives it back
    attr_accessor :ended # what its holder was told when the locks were closed
    attr_accessor :again # what gives it up was sent before, so NOTHELD says nothing
    attr_accessor :tries, :trouble, :extension, :error

    # `watch` tells an observer of it, if there is one.
    def initialize(request, watch = nil)
      @request, @watch, @changed = request, watch, ConditionVariable.new
      @heard_lost, @listeners, @fences, @slots = [], [], [], []
      @until = @due = NEVER
      @lease, @tries = NO_LEASE, 0
    end

    # Is it, or will it be, in one grant with that one?
    def shares?(other)
      one = fences.empty? || other.fences.empty? || fences == other.fences
      one && !used && !equal?(other) && request.keys.sort == other.request.keys.sort
    end
  end

  # An extension that somebody waits for.
  Extension = Struct.new(:lease, :error, :done)
end
