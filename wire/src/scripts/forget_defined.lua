-- Forgets a definition that has ended, once its keys are removed.
--
-- KEYS
-- 1. definitions
-- 2. their ends
-- 3. registry
--
-- ARGV
-- 1. the limit's name
--
-- Reply 1 done. 0 nothing was done, since it was renewed meanwhile, or is not defined.
assert(#KEYS == 3 and #ARGV == 1, 'forget_defined takes 3 keys and a name')
local name = ARGV[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ends = redis.call('ZSCORE', KEYS[2], name)
local held = redis.call('HGET', KEYS[1], name)
if not ends and not held or ends and tonumber(ends) > now then return 0 end
redis.call('HDEL', KEYS[1], name)
redis.call('ZREM', KEYS[2], name)
-- An entry of the ends alone is none of a definition.
if held then redis.call('HDEL', KEYS[3], name) end
return 1
