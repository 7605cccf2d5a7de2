-- Counts denied takes of keys, and tells which keys are to be blocked for how long.
-- KEYS  1 the record of the limit  2 and on, a hash for each key
-- ARGV  1 denied takes that block a key  2 the time in µs within which they count  3 the first block in µs
--       4 the length of a block in lengths of the one before  5 the longest block in µs
--       6 and on, new denied takes of each key
-- Reply the time in µs for which each key is to be blocked, 0 for none. Empty if the limit has no record. Then nothing
--       was done.
-- State of a key is denied, since, blocks and until. They are its denied takes from the instant `since` on, its blocks
--       so far, and the end of the last block.
-- Laws  4. A limit that was removed meanwhile gets no key back.
--       Takes that are denied within a block count for nothing. A key that stays free for as long as its last block
--       took begins anew.
assert(#KEYS >= 2 and #ARGV == #KEYS + 4, 'penalty takes a record, keys, 5 numbers, and a number for each key')
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local after, within, first, factor, longest = unpack(ARGV, 1, 5)
after, within = tonumber(after), tonumber(within)
local told = {}
for i = 2, #KEYS do
  local key, block = KEYS[i], 0
  if redis.call('TYPE', key).ok ~= 'hash' then redis.call('DEL', key) end
  local known = redis.call('HMGET', key, 'denied', 'since', 'blocks', 'until')
  local denied, since = tonumber(known[1] or 0) or 0, tonumber(known[2] or 0) or 0
  local blocks, till = tonumber(known[3] or 0) or 0, tonumber(known[4] or 0) or 0
  if till <= now then
    if now - since >= within then denied, since = 0, now end
    denied = denied + ARGV[i + 4]
    local kept = within
    if denied >= after then
      block = math.min(longest, first * factor ^ math.min(blocks, 60))
      denied, since, blocks, till = 0, 0, blocks + 1, now + block
      kept = math.max(within, 2 * block)
    end
    redis.call('HSET', key, 'denied', denied, 'since', string.format('%.0f', since), 'blocks', blocks,
      'until', string.format('%.0f', till))
    redis.call('PEXPIRE', key, math.max(math.ceil(kept / 1000), redis.call('PTTL', key)))
  end
  told[i - 1] = block
end
return told
