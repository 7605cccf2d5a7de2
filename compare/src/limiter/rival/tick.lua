-- Takes from a counter if there is enough.
-- KEYS 1 counter   ARGV 1 count   Reply 1 allowed, 0 denied
local left, count = tonumber(redis.call('GET', KEYS[1]) or 0), tonumber(ARGV[1])
if left < count then return 0 end
redis.call('DECRBY', KEYS[1], count)
return 1
