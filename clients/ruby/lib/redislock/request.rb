# frozen_string_literal: true

require "securerandom"

module Redislock
  # A request for one lock or several, as words of the server's commands. Bad input is refused here, before anything is sent.
  class Request
    attr_reader :keys, :owner, :name, :wait, :session, :sync, :lease, :shape

    MOST = 9e12 # seconds: JavaScript clients could not read more milliseconds exactly

    # Converts seconds to whole milliseconds.
    def self.ms(name, value, least = 0.001)
      number = Float(value) if value.is_a?(Numeric)
      return [1, (number * 1000).round].max if number && number >= least && number <= MOST

      raise ArgumentError, "#{name} must be #{"nil, or " if least.zero?}seconds from #{least} to 9e12: #{value.inspect}"
    end

    def initialize(keys, wait: nil, lease: nil, shared: false, limit: nil, slot: nil, label: nil, detect: false, sync: nil, session: false,
                   owner: nil, max_hold: nil, renew: true)
      @keys = keys.map { |key| key.is_a?(String) || key.is_a?(Symbol) ? key.to_s : refuse("a key must be a string: #{key.inspect}") }
      refuse("a lock needs a key, and each key once") if @keys.empty? || @keys.uniq.size < @keys.size
      refuse("shared and limit exclude each other") if shared && limit
      refuse("limit must be at least 1: #{limit.inspect}") unless limit.nil? || (limit.is_a?(Integer) && limit >= 1)
      unless slot.nil? || (slot.is_a?(Integer) && limit && (1..limit).cover?(slot))
        refuse("slot must be one of the numbers from 1 to limit: #{slot.inspect}")
      end
      unless sync.nil? || (sync.is_a?(Array) && sync.size == 2 && sync[0].is_a?(Integer) && sync[0] >= 1)
        refuse("sync must be [replicas, seconds], with at least one replica: #{sync.inspect}")
      end
      refuse("owner must be a string of 1 to 128 bytes") unless owner.nil? || (owner.is_a?(String) && (1..128).cover?(owner.bytesize))
      refuse("label must be a string: #{label.inspect}") unless label.nil? || label.is_a?(String)
      Request.ms("wait", wait, 0) if wait
      @wait, @session, @sync, @named, @renew = wait, session, sync, !owner.nil?, renew
      @shape = shared ? :shared : limit ? :limit : :exclusive
      self.lease = lease
      @owner = owner || SecureRandom.uuid
      @name = @owner.b # binary, as in messages
      @sync_words = sync ? ["SYNC", sync[0], Request.ms("sync", sync[1])] : []
      @mode = [*("SHARED" if shared), *(["LIMIT", limit] if limit), *(["SLOT", slot] if slot), *("SESSION" if session), *("DETECT" if detect),
               *(["MAXHOLD", Request.ms("max_hold", max_hold)] if max_hold), *(["LABEL", label] if label)]
    end

    def lease=(lease)
      @lease, @px = lease, lease ? ["PX", Request.ms("lease", lease)] : []
    end

    def named? = @named
    # Whether the package renews the lock. The server renews a session itself, but only a renewal tells how long its lease is.
    def kept? = @renew || @session

    # Whether work may begin at the start message, which tells of one new grant of a fresh owner. All other grants have to be claimed first;
    # only the claim begins a session, or waits for replicas.
    def starts? = keys.size == 1 && !named? && !session && !sync

    # `block` is in seconds: nil asks once, and 0 waits for ever. A start message repeats the number `start`.
    def acquire(channel, block, lease, start = nil)
      wait = block ? ["BLOCK", block.zero? ? 0 : Request.ms("wait", block, 0)] : []
      command("ACQUIRE", "OWNER", owner, *px(lease), "NOTIFY", channel, *(["START", start] if start), "ONCE", *wait, *@mode, *@sync_words)
    end

    def extend(fences) = command("EXTEND", owner, *px(lease), *fence(fences), *@sync_words)
    def release(fences) = command("RELEASE", owner, *fence(fences))
    def leave = ["LOCK.LEAVE", keys[0], owner]
    def to_s = keys.join(", ")

    private

    def refuse(why) = raise(ArgumentError, why)
    def px(lease) = lease == @lease ? @px : ["PX", Request.ms("lease", lease)]

    # Restricts a command to this grant. Locks that were entered again have different fences, so no FENCE can name them.
    def fence(fences) = fences.size == 1 || fences.uniq.size == 1 ? ["FENCE", fences[0]] : []

    def command(verb, *words)
      keys.size == 1 ? ["LOCK.#{verb}", *keys, *words] : ["LOCK.M#{verb}", keys.size, *keys, *words]
    end
  end
end
