-- Reads all claims to limits, and when each config was last alive.
-- KEYS  1 claims  2 last heartbeats of configs
-- Reply {now, claims, last heartbeats}: fields and values. A key of another type counts as absent.
assert(#KEYS == 2 and #ARGV == 0, 'ownership takes 2 keys')
local t = redis.call('TIME')
local function fields(key)
  local found = redis.pcall('HGETALL', key)
  return found.err and {} or found
end
return {t[1] * 1000000 + t[2], fields(KEYS[1]), fields(KEYS[2])}
