# frozen_string_literal: true

require_relative "lib/redislock/version"

Gem::Specification.new do |gem|
  gem.name = "redislock-client"
  gem.version = Redislock::VERSION
  gem.summary = "Locks of a Redis or Valkey server with the module Redislock: fair, fenced, renewed, beside redis-rb and redis-client"
  gem.authors = ["the Redislock contributors"]
  gem.license = "MIT"
  gem.required_ruby_version = ">= 3.1"
  gem.files = Dir["lib/**/*.rb", "README.md"]
end
