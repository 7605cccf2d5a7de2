-- The control poll of a worker: is a daemon alive, has anything been published since, and of which schema?
--
-- KEYS
-- 1. index of daemons
-- 2. generation
-- 3. schema
-- 4. pauses
-- 5. assignments. Both are left out for a user who may not read them
--
-- Reply {now, generation, alive, schema, extends, paused, assigned}.
-- - generation: -1 when nothing is published
-- - alive: daemons whose heartbeat is still good
-- - schema: 0 when no daemon has written it
-- - extends: 1 where PEXPIREAT has the option GT
-- - paused: the version of all pauses, 0 without any
-- - assigned: the version of all assignments, 0 without any, -1 where they were left out
assert(#KEYS >= 3 and #KEYS <= 5 and #ARGV == 0, 'poll takes 3 to 5 keys')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local generation = tonumber(redis.call('GET', KEYS[2]) or -1)
-- MGET finds nothing in a key of another type, which a daemon then overwrites.
local schema = tonumber(string.match(redis.call('MGET', KEYS[3])[1] or '', '^%d+$') or 0)
-- Both are new in Redis 7.0.
local extends = redis.REDIS_VERSION_NUM and 1 or 0
local paused = KEYS[4] and redis.pcall('ZSCORE', KEYS[4], '')
-- A key of another type holds no pauses.
paused = type(paused) == 'string' and tonumber(string.match(paused, '^%d+$') or 0) or 0
local assigned = KEYS[5] and redis.pcall('HGET', KEYS[5], ' version')
assigned = type(assigned) == 'string' and tonumber(string.match(assigned, '^%d+$') or 0) or KEYS[5] and 0 or -1
return {now, generation, redis.call('ZCOUNT', KEYS[1], now, '+inf'), math.min(schema, 1000000), extends, paused,
  assigned}
