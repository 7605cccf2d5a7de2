-- Changes claims to limits, unless any has changed since they were read. Says what a daemon has in its config.
--
-- KEYS
-- 1. claims
-- 2. last heartbeats of configs
-- 3. definitions by code
-- 4. details of the daemon, where a daemon claims
--
-- ARGV
-- 1. the version as read, empty if there was none
-- 2. number of claims to delete
-- 3. number of configs to forget
-- 4. number of claims to set
-- 5. and on, the first two as fields, the last as fields and values. Then fields and values of the details
--
-- Reply 1 done. 0 nothing done, since the claims have changed, or code has defined one of the limits
local released, forgotten, set = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local details = set and #ARGV - 4 - released - forgotten - 2 * set or -1
assert(#KEYS == 4 and details >= 0 and details % 2 == 0 or #KEYS == 3 and details == 0,
  'claim takes 3 or 4 keys, a version, 3 numbers and as many fields')
for i = 1, 2 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', KEYS[i]) end
end
-- Anything but a number counts as no version.
local version = string.match(redis.call('HGET', KEYS[1], 'version') or '', '^%d+$') or ''
if version ~= ARGV[1] then return 0 end
for i = 5 + released + forgotten, 4 + released + forgotten + 2 * set, 2 do
  local is_defined = redis.pcall('HGET', KEYS[3], string.match(ARGV[i], '^[^ ]*'))
  if type(is_defined) == 'string' and not redis.call('HGET', KEYS[1], ARGV[i]) then return 0 end
end
local i = 5
for _ = 1, released do
  redis.call('HDEL', KEYS[1], ARGV[i])
  i = i + 1
end
for _ = 1, forgotten do
  redis.call('HDEL', KEYS[2], ARGV[i])
  i = i + 1
end
for _ = 1, set do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  i = i + 2
end
for _ = 1, details, 2 do
  redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1])
  i = i + 2
end
-- A daemon that ends before its first heartbeat leaves no details behind.
if KEYS[4] then redis.call('PEXPIRE', KEYS[4], 60000) end
-- At least the instant of Redis: no version after a flush is an earlier one.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('HSET', KEYS[1], 'version', string.format('%.0f', math.max((tonumber(version) or 0) + 1, now)))
return 1
