-- Counts denied takes of keys, and tells which keys are to be blocked for how long.
--
-- KEYS
-- 1. the record of the limit
-- 2. and on, a hash for each key
--
-- ARGV
-- 1. denied takes that block a key
-- 2. the time in µs within which they count
-- 3. the first block in µs
-- 4. the length of a block in lengths of the one before
-- 5. the longest block in µs
-- 6. and on, new denied takes of each key. 0 says that the key is blocked as told
--
-- Reply the time in µs for which each key is to be blocked, 0 for none. Empty if the limit has no record. Then
--       nothing was done.
--
-- State of a key:
-- - denied: its denied takes from the instant `since` on
-- - blocks, until: its blocks so far, and the end of the last one
-- - anew: the instant from which it has no block behind it
-- - open: the instant until which the last block is told again, since no worker has said that the key is blocked
--
-- Laws  4. A limit that was removed meanwhile gets no key back.
--       Takes that are denied within a block count for nothing. A key that stays free for as long as its last block
--       took begins anew. A block whose worker had no answer is told to the next one.
assert(#KEYS >= 2 and #ARGV == #KEYS + 4, 'penalty takes a record, keys, 5 numbers, and a number for each key')
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local after, within, first, factor, longest = unpack(ARGV, 1, 5)
after, within = tonumber(after), tonumber(within)
local function whole(number) return string.format('%.0f', number) end
-- A worker hands over once a second.
local TOLD_AGAIN = 5000000
local told = {}
for i = 2, #KEYS do
  local key, block = KEYS[i], 0
  if redis.call('TYPE', key).ok ~= 'hash' then redis.call('DEL', key) end
  local known = redis.call('HMGET', key, 'denied', 'since', 'blocks', 'until', 'anew', 'open')
  local more = tonumber(ARGV[i + 4])
  for field = 1, 6 do known[field] = tonumber(known[field] or 0) or 0 end
  local denied, since, blocks, till, anew, open = unpack(known)
  if more == 0 then
    if open > 0 then redis.call('HSET', key, 'open', 0) end
  elseif till <= now then
    if anew <= now then blocks = 0 end
    if denied == 0 or now - since >= within then denied, since = 0, now end
    denied, open = denied + more, 0
    if denied >= after then
      block = math.min(longest, first * factor ^ math.min(blocks, 60))
      denied, blocks, till, anew, open = 0, blocks + 1, now + block, now + 2 * block, now + TOLD_AGAIN
    end
    local kept = math.max(within, anew - now)
    redis.call('HSET', key, 'denied', denied, 'since', whole(since), 'blocks', blocks, 'until', whole(till),
      'anew', whole(anew), 'open', whole(open))
    redis.call('PEXPIRE', key, math.ceil(kept / 1000))
  elseif open > now then
    block = till - now
  end
  told[i - 1] = block
end
return told
