-- Counts a publication, so that workers and daemons read the records again.
-- KEYS  1 generation
-- Reply the new generation: at least the instant of Redis in ms. A generation after a flush is therefore a later one.
assert(#KEYS == 1 and #ARGV == 0, 'announce takes 1 key')
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local generation = math.max(tonumber(redis.call('GET', KEYS[1]) or 0) + 1, now)
redis.call('SET', KEYS[1], string.format('%.0f', generation))
return generation
