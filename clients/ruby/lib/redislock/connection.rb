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
      def initialize(client)
        @client = client
      end

      # All bytes are sent as they are, whatever their encodings.
      def call(words)
        once(words.map { |word| word.to_s.b })
      rescue StandardError => error
        raise if Refusal.code(error) != "MOVED" || cluster?

        raise Error, "this server is one node of a cluster: the locks need a client of the whole cluster (#{error.message})"
      end

      # Yields :up and messages, until nothing has come for that long.
      def listen(channel, seconds)
        @pubsub = pubsub
        @pubsub.call_v(["SUBSCRIBE", channel])
        while (kind, _, message = @pubsub.next_event(seconds))
          raise kind if kind.is_a?(Exception)

          yield kind == "subscribe" ? :up : message if %w[subscribe message].include?(kind)
        end
      end

      # The answer shows that the subscription is alive. For another thread than the one that listens.
      def ping = @pubsub&.call_v(["PING"])

      def close
        @pubsub&.close
        @client.close
      end

      private

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
      def listen(channel, seconds)
        @client.without_reconnect do
          @client.subscribe_with_timeout(seconds, channel) do |on|
            on.subscribe { yield :up }
            on.message { |_, message| yield message }
          end
        end
      end

      def ping
        listening = @client._client
        listening.call([:ping]) if listening.is_a?(::Redis::SubscribedClient) # it writes, and leaves the answer to the other thread
      end

      private

      def cluster? = @client._client.class.name.end_with?("::Cluster")
      def once(words) = @client.without_reconnect { @client.call(*words) }
    end
  end
end
