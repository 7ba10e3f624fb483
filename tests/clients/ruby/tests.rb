# frozen_string_literal: true

# ./run starts this file.

require_relative "raw_test"
require_relative "locks_test"
require_relative "interrupts_test"
require_relative "endings_test"
require_relative "observer_test"
require_relative "jobs_test"
