-- A daemon says that it is alive, until when that may be believed, and how it is doing.
-- KEYS  1 index of daemons  2 generation  3 details of this daemon
-- ARGV  1 this daemon's id  2 µs for which the heartbeat is good  3... details, fields and values
-- Reply {now, generation}: generation -1 when nothing is published (a flushed or new Redis).
assert(#KEYS == 3 and #ARGV >= 2 and #ARGV % 2 == 0, 'heartbeat takes 3 keys, an id, a time and pairs')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
-- A daemon that has been silent for a minute is gone. Its details expire by themselves.
local GONE = 60000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - GONE * 1000)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
if #ARGV > 2 then redis.call('HSET', KEYS[3], unpack(ARGV, 3)) end
redis.call('PEXPIRE', KEYS[3], GONE)
return {now, tonumber(redis.call('GET', KEYS[2]) or -1)}
