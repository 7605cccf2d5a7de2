-- The control poll of a worker: is a daemon alive, and has anything been published since?
-- KEYS  1 index of daemons  2 generation
-- Reply {now, generation, alive}. The generation is -1 when nothing is published. Alive are the daemons whose heartbeat
--       is still good.
assert(#KEYS == 2 and #ARGV == 0, 'poll takes 2 keys')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
return {now, tonumber(redis.call('GET', KEYS[2]) or -1), redis.call('ZCOUNT', KEYS[1], now, '+inf')}
