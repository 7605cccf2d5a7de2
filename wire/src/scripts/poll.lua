-- The control poll of a worker: is a daemon alive, has anything been published since, and of which schema?
-- KEYS  1 index of daemons  2 generation  3 schema  4 pauses; left out for a user who may
--       not read them
-- Reply {now, generation, alive, schema, extends, paused}: generation -1 when nothing is published; alive: daemons
--       whose heartbeat is still good; schema 0 when no daemon has written it; extends 1 where PEXPIREAT has the
--       option GT; paused: the version of all pauses, 0 without any.
assert(#KEYS >= 3 and #KEYS <= 4 and #ARGV == 0, 'poll takes 3 or 4 keys')
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
return {now, generation, redis.call('ZCOUNT', KEYS[1], now, '+inf'), math.min(schema, 1000000), extends, paused}
