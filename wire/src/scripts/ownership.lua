-- Reads all claims to limits, when each config was last alive, and the definitions by code.
--
-- KEYS
-- 1. claims
-- 2. last heartbeats of configs
-- 3. definitions
-- 4. their ends
--
-- Reply {now, claims, last heartbeats, definitions, ends}: fields and values, and members and scores. A key of
--       another type counts as absent.
assert(#KEYS == 4 and #ARGV == 0, 'ownership takes 4 keys')
local t = redis.call('TIME')
local function all(...)
  local found = redis.pcall(...)
  return found.err and {} or found
end
return {t[1] * 1000000 + t[2], all('HGETALL', KEYS[1]), all('HGETALL', KEYS[2]), all('HGETALL', KEYS[3]),
  all('ZRANGE', KEYS[4], 0, -1, 'WITHSCORES')}
