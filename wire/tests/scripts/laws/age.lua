-- Makes time pass for a log.
-- KEYS  1 state
-- ARGV  1 µs to pass
local rows = redis.call('XRANGE', KEYS[1], '-', '+')
redis.call('DEL', KEYS[1])
for _, row in ipairs(rows) do
  local instant, total = string.match(row[1], '^(%d+)(-%d+)$')
  redis.call('XADD', KEYS[1], string.format('%.0f', instant - ARGV[1]) .. total, row[2][1], row[2][2])
end
