# frozen_string_literal: true

require_relative "errors"

module Redislock
  # Makes the commands for an entry, and handles their answers. All methods need the mutex of the core, which includes this module.
  module Answers
    private

    def ask(entry)
      # Without a confirmed subscription, nobody would hear the grant; and a pending release of the same owner could end the grant that this
      # entry would enter. When either is done, this entry is looked at again.
      channel = listen(entry).channel
      return if channel.nil? || partner(entry, :leaving)

      request = entry.request
      block = request.wait&.zero? ? nil : entry.until == Entry::NEVER ? 0 : [entry.until - now, 0.001].max
      entry.tries += 1
      entry.asked, entry.told = now, nil
      start = entry.tries if @start && request.starts?
      transmit(entry, request.acquire(channel, block, request.lease, start), session: request.session) do |reply, error, began|
        if start && error && error.message.include?("syntax error") # the server does not know START
          @start = false
          entry.due = 0
        else
          asked(entry, reply, error, began)
        end
      end
    end

    def asked(entry, reply, error, began)
      passes = error && Refusal.passes?(error)
      # Without one of several locks, it may hold the others.
      entry.unsure &&= error || (!reply.is_a?(Array) && entry.request.keys.size > 1)
      entry.unsure ||= passes
      entry.place ||= error ? Refusal.code(error) == "NOREPLICAS" : reply.is_a?(String) # the unclaimed place or grant may still be there
      fences = granted(reply)
      case entry.state
      when :waiting
        if fences then hold(entry, fences, reply, began)
        elsif error.nil? && reply.nil? then fail_wait(entry, not_acquired(entry))
        elsif error.nil?
          if entry.watch
            entry.watch.queued = true
            entry.changed.broadcast
          end
          entry.due, entry.trouble = [entry.due, now + Core::ASK_AGAIN].min, nil
          begin_work(entry) if entry.told
        elsif passes && (!entry.request.wait&.zero? || entry.tries < 2) then entry.due, entry.trouble = now + Core::TRY_AGAIN, error
        else fail_wait(entry, Refusal.explained(error, entry.request))
        end
      when :leaving
        entry.fences = fences if fences
        # Others may have left meanwhile, without this grant: each of them releases the grant that it knows, or only its place.
        heir = partner(entry, :waiting, :held)
        inherit(heir, fences, place: entry.place || entry.unsure) if entry.used && heir
        entry.used &&= heir || (fences && partner(entry, :leaving, fences: fences))
      else
        give_back(entry.request, fences) if fences
      end
    end

    # The fences of a grant, one for each key.
    def granted(reply) = reply.is_a?(Array) ? Array(reply[1]) : nil

    def hold(entry, fences, reply, began)
      @waiting -= 1
      entry.fences, entry.slots, entry.state = fences, Array(reply[4]), :held
      entry.doubted, entry.until = false, Entry::NEVER
      entry.lease = entry.request.lease || reply[3] / 1000.0
      renewed(entry, reply[3], began)
      entry.changed.broadcast
      lose(entry, "the server says that it has ended") if (entry.heard_lost & fences).any?
    end

    # Holds the lock from the start message on, if enough time is left. The message repeats the number of the last acquire, so the grant is
    # younger than this acquire: its lease safely counts from when this was sent.
    def begin_work(entry)
      fence, lasts, slot = entry.told
      ends = entry.asked + lasts / 1000.0
      left = ends - now
      return doubt(entry) if left < lasts / 5000.0 || entry.heard_lost.include?(fence)

      @waiting -= 1
      entry.fences, entry.slots, entry.state = [fence], slot.zero? ? [] : [slot], :held
      entry.doubted, entry.unclaimed, entry.lease = false, true, entry.request.lease || Entry::NO_LEASE
      entry.until, entry.due = ends, now + left / 3
      entry.changed.broadcast
      look(entry)
    end

    # `whole`: the answer is that of an extension. The answer to an acquire may tell the longer lease of another hold.
    def renewed(entry, left, began, whole: false)
      before, entry.unclaimed = entry.until, false
      entry.until = entry.due = Entry::NEVER
      lease = left.negative? ? Entry::NEVER : left / 1000.0 # somebody used PERSIST, so the lease never ends
      # The maximum age only cuts a new lease. If the end moved back by more than the answer took, the server's default was changed instead.
      other = before < Entry::NEVER && began + lease < before - (now - began) - 0.001
      asked = entry.request.lease || (!other && entry.given) || 0
      entry.aged = entry.request.kept? && lease < asked - 0.001
      entry.given = lease if whole && !entry.aged
      entry.lease = lease unless entry.request.lease || left.negative?
      sure = [began + lease, entry.most].min - began
      return if sure == Entry::NEVER

      entry.until = began + sure
      # A lease that comes out short has reached the maximum age, and no renewal makes it longer.
      entry.due = began + sure / 3 if entry.request.kept? && lease >= asked / 2
      shorten(entry, sure, began)
    end

    # Applies a shorter lease to all that share the grant. The server may handle their pending commands before or after the one that sets it.
    def shorten(entry, lease, began)
      sharers(entry).each do |other|
        other.most = [other.most, began + lease].min if other.flight
        next unless other.state == :held && began + lease < other.until

        other.until = began + lease
        other.due = [other.due, began + lease / 3].min if other.request.kept?
        look(other)
      end
    end

    # The server does not know the grant any more, so it is lost for all that share it.
    def gone(entry, why) = sharers(entry).each { |other| lose(other, why) }
    def sharers(entry) = @entries.fetch(entry.request.name, []).select { |other| other.equal?(entry) || other.shares?(entry) }

    def renew(entry)
      request, extension, kept = entry.request, entry.extension, entry.request.kept? || entry.unclaimed
      if entry.doubted && !extension && (channel = listen(entry).channel)
        # An acquire, so that the server learns this channel and this connection anew; the fence tells whether the grant is still the old one.
        # It never makes a lease shorter, so a claimed lock without renewals asks for the shortest one.
        words = request.acquire(channel, nil, kept ? request.lease : 0.001)
        entry.doubted = false
        transmit(entry, words, session: request.session) { |*answer| checked(entry, *answer) }
      elsif extension || kept
        lease = request.lease || entry.lease
        shorten(entry, lease, now) # even if the answer does not come
        transmit(entry, request.extend(entry.fences), sets: lease) { |*answer| extended(entry, extension, *answer) }
      end
    end

    def extended(entry, extension, reply, error, began)
      if entry.state == :held
        if error.nil?
          renewed(entry, reply, began, whole: true)
        elsif (why = Refusal.gone(error))
          gone(entry, why)
        else
          entry.doubted = true if Refusal.code(error) == "GRACE"
          again = entry.request.kept? || entry.doubted || entry.unclaimed
          soon = now + [1, entry.lease / 10, *((entry.until - now) / 3 if entry.unclaimed)].min
          entry.due = [soon, *extension&.due].min if again
        end
        entry.due = 0 if entry.doubted && error.nil? && listen(entry).channel # else, the confirmation of the subscription does this
      end
      entry.due = 0 if entry.extension != extension # another extension was requested meanwhile
      return unless extension

      extension.lease, extension.error, extension.done = reply && reply / 1000.0, error && Refusal.explained(error, entry.request), true
      entry.extension = nil
      entry.changed.broadcast
    end

    def checked(entry, reply, error, began)
      fences = granted(reply)
      if error
        entry.doubted = true
        entry.unsure = true # the acquire may have made a new grant
        if (why = Refusal.gone(error)) then gone(entry, why)
        elsif entry.state == :held then entry.due = now + [1, entry.lease / 10].min
        end
      elsif fences == entry.fences
        renewed(entry, reply[3], began) if entry.state == :held
        entry.due = 0 if entry.doubted || entry.extension || entry.state == :leaving
      else
        give_back(entry.request, fences) if fences # a new grant, which the holder doesn't know
        gone(entry, why = "it was free, or someone else's, meanwhile")
        entry.error, entry.fences = LockLost.of(entry.request, why), [] if entry.state == :leaving
      end
    end

    # Gives up the grant or the place. While the server can't be asked, this is tried again until the lease would be over anyway.
    def part(entry)
      if entry.used
        finish(entry)
      elsif entry.fences.any?
        transmit(entry, entry.request.release(entry.fences)) { |*answer| parted(entry, *answer) }
      elsif entry.place || entry.unsure
        transmit(entry, entry.request.leave) { |*answer| left(entry, *answer) }
      else
        finish(entry)
      end
    end

    def left(entry, reply, error, began)
      # The lock may have been granted, with the start message still on its way; of several, some may be held beside the place.
      if error.nil? && (reply.zero? || entry.request.keys.size > 1) && (entry.unsure || entry.request.starts?)
        release_unnamed(entry)
      else
        parted(entry, nil, error, began)
      end
    end

    def parted(entry, reply, error, _began)
      if error && Refusal.passes?(error)
        entry.again = true
        entry.due = now + Core::TRY_AGAIN
        entry.changed.broadcast
        return
      end
      why = error ? Refusal.gone(error) : ("one of the locks was gone when it was released" if Array(reply).include?(nil))
      if why
        entry.error ||= LockLost.of(entry.request, why) unless entry.again
        return release_unnamed(entry) if entry.unsure
      elsif error
        entry.error ||= Refusal.explained(error, entry.request)
      end
      finish(entry) unless entry.state == :over
    end

    # Releases a grant of which only the answer was lost, so that its fence is not known. (An owner that the caller named may hold the lock in
    # another process.)
    def release_unnamed(entry)
      return finish(entry) if entry.request.named?

      entry.again, entry.unsure = true, false
      transmit(entry, entry.request.release([])) { |*answer| parted(entry, *answer) }
    end
  end
end
