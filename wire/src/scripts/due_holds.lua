-- Lists holds whose time to live is over.
--
-- KEYS
-- 1. open holds of a shard
--
-- ARGV
-- 1. most holds
--
-- Reply {now, next, member, ...}. The instant of Redis, the instant at which the time of the next hold is over (0
--       without one), and the members of the holds.
--
-- Laws  none, since it writes nothing.
assert(#KEYS == 1 and #ARGV == 1, 'due_holds takes 1 key and 1 argument')
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000000 + t[2])
local members = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
local others = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {tonumber(now), tonumber(others[2] or 0), unpack(members)}
