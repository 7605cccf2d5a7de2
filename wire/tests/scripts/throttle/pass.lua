-- Makes time pass for one throttle. Its state moves back, and is gone once it is over. Below 0, takes time back that has
-- passed.
--
-- KEYS
-- 1. state: "µs ns" of throttle.lua, or ns of redis-cell
--
-- ARGV
-- 1. µs to pass
local held = redis.call('GET', KEYS[1])
if not held then return 0 end
local us, ns = string.match(held, '^(%d+)( %d+)$')
if not us then us, ns = string.match(held, '^(%d+)(%d%d%d)$') end
us = us - ARGV[1]
local time = redis.call('TIME')
if us <= time[1] * 1000000 + time[2] then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], string.format('%.0f', us) .. ns, 'PXAT', string.format('%.0f', math.ceil(us / 1000) + 1000))
return 1
