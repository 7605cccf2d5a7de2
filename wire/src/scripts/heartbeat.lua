-- A daemon says that it is alive, until when that may be believed, and how it is doing.
--
-- KEYS
-- 1. index of daemons
-- 2. generation
-- 3. details of this daemon
-- 4. schema
-- 5. claims
-- 6. last heartbeats of configs
--
-- ARGV
-- 1. this daemon's id
-- 2. µs for which the heartbeat is good
-- 3. the schema that it writes
-- 4. 'owner'
-- 5. the name of its config
-- 6. and on, more details, fields and values
--
-- Reply {now, generation, schema, roster, declared}. If the schema in Redis is higher than that of the daemon,
--       nothing was written.
-- - generation: -1 when nothing is published (a flushed or new Redis)
-- - roster: a hash that changes with the live daemons and with the claims
-- - declared: the hash of the config that this daemon has declared
assert(#KEYS == 6 and #ARGV >= 5 and #ARGV % 2 == 1,
  'heartbeat takes 6 keys, an id, a time, a schema and pairs')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local generation, own = tonumber(redis.call('GET', KEYS[2]) or -1), tonumber(ARGV[3])
-- MGET finds nothing in a key of another type, which is overwritten.
local schema = tonumber(string.match(redis.call('MGET', KEYS[4])[1] or '', '^%d+$') or 0)
if schema > own then return {now, generation, math.min(schema, 1000000), '', ''} end
-- A daemon that has been silent for a minute is gone. Its details expire by themselves.
local GONE = 60000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - GONE * 1000)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('HSET', KEYS[3], unpack(ARGV, 4))
redis.call('PEXPIRE', KEYS[3], GONE)
if schema < own then redis.call('SET', KEYS[4], ARGV[3]) end
-- A heartbeat succeeds even if these two keys are broken. The next claim mends them.
redis.pcall('HSET', KEYS[6], ARGV[5], string.format('%.0f', now))
local version = redis.pcall('HGET', KEYS[5], 'version')
local roster = redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf')
table.sort(roster)
roster[#roster + 1] = type(version) == 'string' and version or ''
return {now, generation, own, redis.sha1hex(table.concat(roster, '\n')),
  redis.call('HGET', KEYS[3], 'declared') or ''}
