-- Removes counters and keys at rest that no command may use any more.
--
-- KEYS
-- 1. record
-- 2. due index
-- 3. previous index
-- 4. and on, counters, or keys at rest
--
-- ARGV
-- 1. bytes before the member in a counter's key
--
-- Reply keys removed. While the record is of a token bucket, only strays are removed. A stray is no string, or it
--       neither expires nor stands in an index. A bare DECR that came late has left the latter.
--
-- Laws  4 6. A limit that another daemon has published again meanwhile keeps its tokens.
assert(#KEYS >= 4 and #ARGV == 1, 'sweep takes at least 4 keys and 1 argument')
local record, due, previous, prefix = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1])
local published = redis.call('HGET', record, 'algorithm') == 'token-bucket'
local gone, members = {}, {}
for i = 4, #KEYS do
  local member = string.sub(KEYS[i], prefix + 1)
  local kind = redis.call('TYPE', KEYS[i]).ok
  local stray = not published or kind ~= 'string' and kind ~= 'none'
    or redis.call('PTTL', KEYS[i]) == -1 and not redis.call('ZSCORE', due, member)
    and not redis.call('ZSCORE', previous, member)
  if stray then gone[#gone + 1], members[#members + 1] = KEYS[i], member end
end
if #gone == 0 then return 0 end
redis.call('UNLINK', unpack(gone))
if not published then
  redis.call('ZREM', due, unpack(members))
  redis.call('ZREM', previous, unpack(members))
end
return #gone
