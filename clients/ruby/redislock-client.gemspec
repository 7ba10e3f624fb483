# frozen_string_literal: true

Gem::Specification.new do |gem|
  gem.name = "redislock-client"
  gem.version = "0.1.0"
  gem.summary = "Locks of a Redis or Valkey server with the module Redislock: fair, fenced, renewed, beside redis-rb and redis-client"
  gem.authors = ["the Redislock contributors"]
  gem.license = "MIT"
  gem.required_ruby_version = ">= 3.1"
  gem.files = Dir["lib/**/*.rb", "README.md"]
end
