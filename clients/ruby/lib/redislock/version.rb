# frozen_string_literal: true

module Redislock
  VERSION = "0.1.0"
end
