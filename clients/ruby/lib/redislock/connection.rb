# frozen_string_literal: true

require_relative "errors"

module Redislock
  # Connections of our own, with the settings of the user's client: that may have one connection, or a pool that is busy. They send
  # each command once, where the client lets itself be told so: the protocol itself sends again what was lost.
  module Connection
    # A function that makes one.
    def self.like(client)
      one = client.respond_to?(:with) ? client.with(&:itself) : client # of a pool
      if defined?(::Redis) && one.is_a?(::Redis)
        ::Redis::VERSION.to_i < 5 ? like4(one) : -> { Redis5.new(one.dup) }
      elsif one.respond_to?(:call_once_v) && one.respond_to?(:config)
        -> { Plain.new(one.config.new_client) }
      else
        raise ArgumentError, "the client must be a Redis, a RedisClient, or a pool of them: #{client.class}"
      end
    end

    # A copy does not know of a `select`.
    def self.like4(one)
      database = one._client.db if one._client.is_a?(::Redis::Client)
      -> { Redis4.new(one.dup.tap { |copy| copy._client.db = database if database }) }
    end
    private_class_method :like4

    # redis-client.
    class Plain
      LEAST = 0.001 # s; to redis-rb, no time at all means for ever

      def initialize(client)
        @client = client
      end

      # All bytes are sent as they are, whatever their encodings.
      def call(words) = refused { once(words.map { |word| word.to_s.b }) }

      def subscribe(channel)
        @pubsub = pubsub
        @pubsub.call_v(["SUBSCRIBE", channel])
      end

      # :up once it has subscribed, a message, or :pong, the answer to a ping. Nil: nothing has come for so many seconds.
      def hear(seconds) = heard(@pubsub.next_event([seconds, LEAST].max))

      # The answer shows that the subscription is alive. For another thread than the one that hears.
      def ping = @pubsub&.call_v(["PING"])

      def close
        @pubsub&.close
        @client.close
      end

      private

      def refused
        yield
      rescue StandardError => error
        raise if Refusal.code(error) != "MOVED" || cluster?

        raise Error, "this server is one node of a cluster: the locks need a client of the whole cluster (#{error.message})"
      end

      # Anything else is the rest of what was given up in the middle, since it came too slowly.
      def heard(reply)
        case reply
        in ["message", _, message] then message
        in nil then nil
        in ["subscribe", *] then :up
        in "PONG" | ["pong", *] then :pong
        in Exception then raise reply
        end
      end

      def cluster? = @client.class.name.end_with?("::Cluster")
      def once(words) = @client.call_once_v(words)
      def pubsub = @client.pubsub
    end

    # redis-rb, since it is based on redis-client.
    class Redis5 < Plain
      private

      def once(words)
        cluster? ? @client.call(*words) : @client.without_reconnect { @client.call(*words) }
      end

      def pubsub = @client._client.pubsub
    end

    # redis-rb before that.
    class Redis4 < Plain
      # It sees to encodings itself. Each connection is one thread's at a time, so the lock around its client is not needed.
      def call(words) = refused { @client._client.with_reconnect(false) { @client._client.call(words) } }

      def subscribe(channel)
        @listening = cluster? ? @client._client.send(:assign_node, [:subscribe, channel]) : @client._client
        @up = @listening.with_reconnect(false) { @listening.call([:subscribe, channel]) }
      end

      def hear(seconds)
        return (@up = nil) || :up if @up

        @listening.connection.timeout = [seconds, LEAST].max
        heard(@listening.read)
      rescue ::Redis::TimeoutError
        nil
      end

      def ping = @listening&.write([:ping])

      private

      def cluster? = @client._client.class.name.end_with?("::Cluster")
    end
  end
end
