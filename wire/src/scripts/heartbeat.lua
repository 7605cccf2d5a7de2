-- A daemon says that it is alive, until when that may be believed, and how it is doing.
-- KEYS  1 index of daemons  2 generation  3 details of this daemon  4 claims  5 last heartbeats of configs
-- ARGV  1 this daemon's id  2 µs for which the heartbeat is good  3 'owner'  4 the name of its config
--       5... more details, fields and values
-- Reply {now, generation, roster, declared}: generation -1 when nothing is published (a flushed or new Redis), a hash
--       that changes with the live daemons and with the claims, and the hash of the config that this daemon has
--       declared.
assert(#KEYS == 5 and #ARGV >= 4 and #ARGV % 2 == 0, 'heartbeat takes 5 keys, an id, a time and pairs')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
-- A daemon that has been silent for a minute is gone. Its details expire by themselves.
local GONE = 60000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - GONE * 1000)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('HSET', KEYS[3], unpack(ARGV, 3))
redis.call('PEXPIRE', KEYS[3], GONE)
-- A heartbeat succeeds even if these two keys are broken. The next claim mends them.
redis.pcall('HSET', KEYS[5], ARGV[4], string.format('%.0f', now))
local version = redis.pcall('HGET', KEYS[4], 'version')
local roster = redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf')
table.sort(roster)
roster[#roster + 1] = type(version) == 'string' and version or ''
return {now, tonumber(redis.call('GET', KEYS[2]) or -1), redis.sha1hex(table.concat(roster, '\n')),
  redis.call('HGET', KEYS[3], 'declared') or ''}
