-- Counts a publication, so that workers and daemons read the records again: all of them, or those of the named limits.
--
-- KEYS
-- 1. generation
-- 2. change log
--
-- ARGV
-- 1. most limits in the change log
-- 2. and on, names of the limits that have changed. None stands for all limits
--
-- Reply the new generation: at least the instant of Redis in ms. A generation after a flush is therefore a later one.
--
-- The change log has the limits that have changed, each by the generation of its last change. Its member ' since' has
-- the generation after which all changes are in it, and ' last' the generation of the last one. A change of all limits
-- leaves no log.
assert(#KEYS == 2 and #ARGV >= 1, 'announce takes 2 keys, a number and names')
local log, most = KEYS[2], tonumber(ARGV[1])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local before = tonumber(redis.call('GET', KEYS[1]) or 0)
local generation = math.max(before + 1, now)
local function whole(number) return string.format('%.0f', number) end
redis.call('SET', KEYS[1], whole(generation))
if #ARGV == 1 then
  redis.call('UNLINK', log)
  return generation
end
local last = redis.pcall('ZSCORE', log, ' last')
-- Anybody who counts without this log has changed any limit.
if type(last) ~= 'string' or tonumber(last) ~= before then
  redis.call('UNLINK', log)
  redis.call('ZADD', log, whole(generation), ' since')
end
redis.call('ZADD', log, whole(generation), ' last')
for i = 2, #ARGV do redis.call('ZADD', log, whole(generation), ARGV[i]) end
local excess = redis.call('ZCARD', log) - 2 - most
if excess > 0 then
  -- ' since' sorts before all others.
  local oldest = redis.call('ZRANGE', log, 1, excess)
  redis.call('ZADD', log, redis.call('ZSCORE', log, oldest[#oldest]), ' since')
  for i = 1, #oldest, 1000 do redis.call('ZREM', log, unpack(oldest, i, math.min(i + 999, #oldest))) end
end
return generation
