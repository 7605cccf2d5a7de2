-- Announces a change of terms in advance. From the freeze on, workers take by script only.
--
-- KEYS
-- 1. record
--
-- ARGV
-- 1. capacity
-- 2. n
-- 3. p, as they will be
--
-- Reply {frozen, now}. The record is frozen now if it is of a token bucket with a rate and has other terms. Frozen is
--       then 1, else 0.
assert(#KEYS == 1 and #ARGV == 3, 'freeze takes 1 key and 3 arguments')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local f = redis.call('HMGET', KEYS[1], 'algorithm', 'capacity', 'n', 'p', 'frozen')
if f[1] ~= 'token-bucket' or f[3] == '0' then return {0, now} end
if f[2] == ARGV[1] and f[3] == ARGV[2] and f[4] == ARGV[3] then return {0, now} end
local frozen = tonumber(f[5]) or 0
-- The clock stepped back, so the freeze begins anew.
if frozen == 0 or frozen > now then redis.call('HSET', KEYS[1], 'frozen', string.format('%.0f', now)) end
return {1, now}
