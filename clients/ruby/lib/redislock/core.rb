# frozen_string_literal: true

require "securerandom"
require "socket"
require_relative "answers"
require_relative "entry"
require_relative "subscription"
require_relative "wires"

module Redislock
  # The locks of one process: which entries wait and hold, and when commands are due. One mutex guards all of it.
  class Core
    include Answers

    ASK_AGAIN = 4.0 # s; less than the server's setting lock.claim, so a lost message delays the grant but does not lose it
    TRY_AGAIN = 0.1 # s after a lost connection
    AGED = "it has reached its maximum age (max_hold, or the server's lock.max-hold)"
    PARTING = 0.04 # s: how long a wait that is over waits for its place to be given up
    CANCELLING = 1.0 # s: how long a wait that was cancelled does so
    NEVER = Entry::NEVER

    attr_reader :pid

    # False in a child after a fork, and once the client was closed: then the locks need a new core.
    def current? = @pid == Process.pid && !@client_closed

    def initialize(servers)
      @pid = Process.pid
      host = Socket.gethostname.scrub("_").gsub(/[^A-Za-z0-9._-]/, "_")[0, 64]
      @name = "redislock:#{host}:#{@pid}:#{SecureRandom.uuid}" # LOCK.INFO shows host and process to operators
      @mutex, @tick = Mutex.new, ConditionVariable.new
      @entries, @waiting, @next_look = {}, 0, NEVER
      @servers, @wires, @shards = servers, {}, {} # by the node; a single server's key is nil
      @up = @closed = @client_closed = @done = false
      @start = true # false once a server did not know START
    end

    # The methods for users' threads follow. Interrupts from other threads are handled only where these methods wait.

    def acquire(entry)
      watch = entry.watch or return take(entry)

      Thread.handle_interrupt(Object => :never) do # the observer hears of each lock, and of its end; only waits can be interrupted
        begin
          take(entry)
          got = true
        rescue Exception => error
          raise
        ensure # also if the thread is killed
          got ? watch.acquired(entry) : watch.refused(entry, error)
        end
        on_lost(entry, watch.method(:lost))
      end
    end

    def take(entry)
      sending do
        raise Closed, "the locks are closed" if @closed || Wires.ending?

        entry.state, entry.due = :waiting, 0
        @waiting += 1
        entry.until = now + entry.request.wait if entry.request.wait&.positive?
        add(entry)
        @clock ||= Wires.thread { clock }
        look(entry)
      end
      if entry.watch
        exclusively { wait(entry) { entry.state != :waiting || entry.watch.queued } }
        entry.watch.waiting if entry.watch.queued
      end
      exclusively do
        wait(entry) { entry.state != :waiting }
        next unless %i[leaving over].include?(entry.state)

        pause(entry, PARTING) { entry.state == :over }
        raise entry.error
      end
    end

    # Releases a lock, or gives up a wait.
    def release(entry)
      waited = nil
      sending do
        error = loss(entry) and raise error # a process that was suspended notices a loss here
        next unless %i[waiting held].include?(entry.state)

        waited = entry.state == :waiting
        leave(entry)
      end
      return if waited.nil?

      begin
        exclusively do
          pause(entry, waited ? CANCELLING : NEVER) { entry.state == :over || entry.again } unless Wires.ending?
        end
        @wires.each_value(&:work_off) if Wires.ending?
      ensure
        entry.watch&.left(entry.error)
      end
      raise entry.error if entry.error && !waited
    end

    def extend(entry, lease)
      exclusively do
        pause(entry) { entry.extension.nil? || entry.state != :held } # of two extensions at once, nobody could tell which the server did last
        error = loss(entry) and raise error
        raise ArgumentError, "#{entry.request} was released" unless entry.state == :held

        extension = entry.extension = Extension.new(lease, entry.due)
        entry.request.lease = entry.lease = lease if lease
        entry.due = 0
        look(entry)
        pause(entry) { extension.done || entry.state != :held }
        error = loss(entry) || entry.error || extension.error and raise error
        extension.lease
      end
    end

    def lost(entry) = exclusively { loss(entry) }

    def on_lost(entry, listener)
      exclusively { loss(entry) || (entry.listeners << listener && nil) }&.then { |error| listener.call(error) }
    end

    def close(why = "the locks were closed")
      told = []
      exclusively do
        return if @closed

        @closed = true
        all.each { |entry| fail_wait(entry, Closed.new(why)) if entry.state == :waiting }
        all.each { |entry| told << entry if entry.state == :held && end_held(entry, why) }
        limit = now + Wires::SILENCE
        while (entry = all.first) && now < limit
          pause(entry, limit - now) { entry.state == :over }
        end
        @done = true
        @tick.signal
      end
      told.each { |entry| entry.watch.left(entry.state == :over ? entry.error : entry.ended) }
      @clock&.join
      limit = now + Wires::SILENCE
      (@shards.values + @wires.values).each { |each| each.close(limit) }
    end

    def client_closed
      @client_closed = true unless @closed
      close("the client was closed")
    end

    # Releases locks at the end of the program. Those without renewals are meant to last, and blocks release theirs themselves.
    def program_ends(limit)
      exclusively do
        all.each { |entry| leave(entry) if entry.state == :held && entry.loose && entry.request.kept? }
        all.each { |entry| pause(entry, limit - now) { entry.state == :over } if entry.state == :leaving }
      end
    end

    private

    def now = Wires.now

    def exclusively(&block)
      Thread.handle_interrupt(Object => :never) { @mutex.synchronize(&block) }
    end

    # This thread itself sends the commands that the block makes, and handles the answers, so that no other thread has to be woken. It does so
    # even if the block raises, because no other thread would send them.
    def sending
      jobs = []
      Thread.handle_interrupt(Object => :never) do
        @mutex.synchronize do
          @mine = jobs
          yield
        ensure
          @mine = nil
        end
      ensure
        jobs.each { |wires, words, answer| wires.send_now(words, answer) }
      end
    end

    def interruptible(&block) = Thread.handle_interrupt(Object => :immediate, &block)

    def pause(entry, most = NEVER)
      limit = now + most
      until yield
        left = limit - now
        return if left <= 0

        interruptible { entry.changed.wait(@mutex, left == NEVER ? nil : left) }
      end
    end

    def wait(entry, &over)
      entry.shard&.lead(entry.until, &over)
      pause(entry, &over)
    end

    # The subscription for messages about this entry, which is made when it is first needed.
    def listen(entry)
      node = @servers.node(entry.request.keys[0])
      shard = @shards[node] ||= Subscription.new(@servers, @name, node, @mutex, -> { @waiting.positive? }) { |*told| hear(*told) }
      shard.used = now
      entry.shard = shard
    end

    # Changes the entry's subscription if its slot has moved to another node.
    def follow(entry)
      before = entry.shard or return
      return unless %i[waiting held].include?(entry.state)

      doubt(entry) if listen(entry).channel && entry.shard != before
    end

    # Whether nobody needs the subscription. From then on, no entry gets it.
    def unused?(shard)
      return false if !@servers.shards? || of(shard).any?

      @shards.delete_if { |_, each| each.equal?(shard) }
      true
    end

    def of(shard) = all.select { |entry| entry.shard.equal?(shard) && %i[waiting held].include?(entry.state) }

    # Runs the one timer for all entries.
    def clock
      exclusively do
        until @done
          if now >= @next_look # a release does not wake the clock, so its planned time may have nothing due
            @next_look = NEVER
            all.each { |entry| look(entry) }
          end
          left = [@next_look - now, 60].min
          interruptible { @tick.wait(@mutex, left) } if left.positive? # an interrupt has to end this thread at the end of the process
        end
      end
    end

    def all = @entries.values.flatten

    def add(entry)
      (@entries[entry.request.name] ||= []) << entry
    end

    def forget(entry)
      mine = @entries[entry.request.name] or return
      mine.delete_if { |each| each.equal?(entry) }
      @entries.delete(entry.request.name) if mine.empty?
    end

    # Another entry in one of these states that shares the grant, or will share it.
    def partner(entry, *states, fences: nil)
      @entries[entry.request.name]&.find do |other|
        states.include?(other.state) && other.shares?(entry) && (fences.nil? || other.fences == fences)
      end
    end

    # Does what is due for the entry.
    def look(entry)
      time = now
      expire(entry) if time >= entry.until
      if !entry.flight && time >= entry.due
        entry.due = NEVER
        case entry.state
        when :waiting then ask(entry)
        when :held then renew(entry)
        when :leaving then part(entry)
        end
      end
      return if entry.state == :lost || entry.state == :over

      soon = entry.flight ? entry.until : [entry.until, entry.due].min
      return if soon >= @next_look

      @next_look = soon
      @tick.signal
    end

    def expire(entry)
      case entry.state
      when :waiting then fail_wait(entry, not_acquired(entry))
      when :held then lose(entry, "its lease is over, and no renewal came through")
      when :leaving
        unless entry.request.session && !@closed
          entry.error ||= entry.ended
          return finish(entry)
        end
        entry.until, entry.again = NEVER, true # a session's lease goes on; no caller waits any longer for the release
        entry.changed.broadcast
      end
    end

    # Sends a command. `sets` is an extension's lease. Of two pending commands for one grant, either may reach the server last.
    def transmit(entry, words, session: false, sets: NEVER)
      others = @entries.fetch(entry.request.name, []).select { |other| other.flight && entry.shares?(other) }
      entry.flight, entry.most = sets, now + (others.map(&:flight).min || NEVER)
      answer = lambda do |reply, error, began|
        exclusively do
          entry.flight = nil
          forget(entry) if entry.state == :lost
          yield reply, error, began
          entry.until = now + entry.lease if entry.state == :leaving && entry.until == NEVER
          follow(entry)
          look(entry)
        end
      end
      wires = @wires[@servers.node(entry.request.keys[0])] ||= Wires.new(@servers)
      @mine && !session ? @mine << [wires, words, answer] : wires.send(words, session, &answer)
    end

    # The owner comes last in a message, because it may contain spaces.
    def hear(shard, what)
      case what
      when :up
        @up = @start = true
        of(shard).each { |entry| doubt(entry) }
      when :moved
        of(shard).each { |entry| follow(entry) }
        unused?(shard)
      when :quiet then now >= shard.used + Wires::SILENCE && unused?(shard)
      when Exception
        return if shard.channel

        waiting = of(shard).select { |entry| entry.state == :waiting }
        waiting.select! { |entry| entry.request.wait&.zero? && Refusal.ends_connection?(what) } if @up && Refusal.passes?(what)
        waiting.each { |entry| fail_wait(entry, what) }
      else
        word, owner = what.b.split(" ", 2)
        if word == "start"
          *told, number, owner = owner.split(" ", 5)
          return @entries.fetch(owner, []).dup.each { |entry| told(entry, number.to_i, told.map(&:to_i)) }
        end
        fence, owner = owner.split(" ", 2) if %w[granted lost wanted].include?(word)
        @entries.fetch(owner, []).dup.each { |entry| heard(entry, word, fence.to_i) }
      end
    end

    # Handles a start message. If its number is not that of the last acquire, it is late, because the lock was asked for again.
    def told(entry, number, told)
      return if entry.state != :waiting || number != entry.tries

      entry.told = told
      begin_work(entry) unless entry.flight
    end

    def heard(entry, word, fence)
      if word == "lost"
        entry.heard_lost << fence if entry.state == :waiting # the answer with this fence may come later
        lose(entry, "the server says that it has ended") if entry.fences.include?(fence)
      elsif word == "gone" || (%w[granted timeout].include?(word) && entry.state == :waiting)
        doubt(entry)
      end
    end

    # Checks with the server: a wait asks again, and a held lock is acquired again.
    def doubt(entry)
      return unless %i[waiting held].include?(entry.state)

      entry.doubted = true
      entry.due = 0
      look(entry)
    end

    def loss(entry)
      expire(entry) if entry.state == :held && now >= entry.until
      entry.ended || (entry.error if entry.state == :lost)
    end

    def leave(entry)
      was_held = entry.state == :held
      other = partner(entry, :waiting, :held)
      left = was_held ? entry.fences : entry.left
      inherit(other, left, place: !was_held && (entry.place || entry.unsure)) if other
      entry.used, entry.state, entry.due = !other.nil?, :leaving, 0
      entry.until = entry.flight ? NEVER : now + entry.lease if entry.flight || !was_held # the pending answer decides first
      unless was_held
        @waiting -= 1
        give_back(entry.request, left) if left && !other
      end
      look(entry)
    end

    def lose(entry, why)
      return unless entry.state == :held

      why = AGED if entry.aged && now >= entry.until # the server may report the end a moment before the clock runs
      entry.state, entry.error = :lost, LockLost.of(entry.request, why)
      forget(entry) unless entry.flight # an extension counts for others until it is answered
      # If only the network failed, or only one of several locks was lost, the server still has some of them.
      give_back(entry.request, entry.fences, unsure: entry.unsure)
      warn_holder(entry, entry.error)
    end

    def warn_holder(entry, error)
      entry.changed.broadcast
      entry.listeners.each { |listener| Wires.thread { listener.call(error) } } # Ruby reports its errors
    end

    # Ends a held lock because all locks are being closed. Returns whether the observer still has to be told how its release went.
    def end_held(entry, why)
      entry.ended = LockLost.of(entry.request, why)
      told = entry.watch && entry.listeners.delete(entry.watch.method(:lost))
      warn_holder(entry, entry.ended)
      leave(entry)
      told
    end

    # Makes the heir responsible for this grant or place: the heir gives it up, unless it gets a grant of its own.
    def inherit(heir, fences, place: false)
      heir.place ||= place
      heir.left = fences if fences && heir.fences.empty?
    end

    # Releases a grant that nobody wants.
    def give_back(request, fences, unsure: false)
      other = Entry.new(request)
      other.fences, other.state, other.again, other.unsure = fences, :leaving, true, unsure
      return if fences.empty?

      if (heir = partner(other, :waiting, :held))
        return inherit(heir, fences)
      end
      other.until = now + Entry::NO_LEASE
      other.due = 0
      add(other)
      look(other)
    end

    def fail_wait(entry, error)
      entry.error = error
      leave(entry)
      entry.changed.broadcast
    end

    def finish(entry)
      entry.state = :over
      forget(entry)
      entry.changed.broadcast
      @entries[entry.request.name]&.dup&.each do |other|
        next unless other.state == :waiting

        other.due = 0
        look(other)
      end
    end

    def not_acquired(entry)
      why = entry.trouble&.message || ("no answer from the server" if entry.tries.zero? || (entry.flight && !entry.place))
      NotAcquired.new(why ? "could not ask for #{entry.request}: #{why}" : "#{entry.request} is not free")
    end
  end
end
