-- Makes time pass for a log.
--
-- KEYS
-- 1. state
--
-- ARGV
-- 1. µs to pass
local rows = redis.call('LRANGE', KEYS[1], 0, -1)
redis.call('DEL', KEYS[1])
for _, row in ipairs(rows) do
  local at = struct.unpack('<d', row)
  redis.call('RPUSH', KEYS[1], struct.pack('<d', at - ARGV[1]) .. string.sub(row, 9))
end
