-- Pauses a limit or one of its keys, or ends such pauses. All pauses are in one sorted set, scored by their ends. Its
-- member '' has the version of the pauses as its score. The version rises with each change, and control polls read it.
--
-- KEYS
-- 1. pauses
--
-- ARGV
-- 1. pause, resume or clear. Clear ends the pauses of the member and of all keys of that limit
-- 2. the member, LIMIT or LIMIT:KEY
-- 3. µs from now (pause)
-- 4. most pauses
--
-- Reply {now, until, changed}.
-- - until: the end of the member's pause, 0 if it has none, -1 if there was no room for it
-- - changed: 1 if anything changed, else 0
assert(#KEYS == 1 and #ARGV == 4, 'pause takes 1 key, an operation, a member, a time and a number')
local key, operation, member = KEYS[1], ARGV[1], ARGV[2]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if redis.call('TYPE', key).ok ~= 'zset' then
  redis.call('DEL', key)
end
local version = tonumber(redis.call('ZSCORE', key, '') or 0)
redis.call('ZREM', key, '')
redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
local before = tonumber(redis.call('ZSCORE', key, member) or 0)
local till = 0
if operation == 'pause' then
  -- A shorter pause does not shorten a longer one.
  till = math.max(before, now + ARGV[3])
  if before == 0 and redis.call('ZCARD', key) >= tonumber(ARGV[4]) then
    till = -1
  else
    redis.call('ZADD', key, till, member)
  end
end
local ended = 0
if operation == 'resume' then
  ended = redis.call('ZREM', key, member)
end
if operation == 'clear' then
  for _, paused in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    if paused == member or string.sub(paused, 1, #member + 1) == member .. ':' then
      ended = ended + redis.call('ZREM', key, paused)
    end
  end
end
local changed = ended > 0 or till > before
if changed then
  version = math.max(now, version + 1)
end
local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
if last[2] then
  redis.call('PEXPIRE', key, math.ceil((last[2] - now) / 1000))
  redis.call('ZADD', key, version, '')
end
return {now, till, changed and 1 or 0}
