-- Takes from several buckets, of any algorithms, all or nothing. Runs after light.lua, time.lua, bucket.lua,
-- state.lua, lazy.lua, windows.lua and the files of all algorithms.
-- KEYS  1 and on, of each bucket in turn: record, due index, former index and counter of a token bucket; else record
--       and state
-- ARGV  1 and on, of each bucket in turn: algorithm, member (empty but for a token bucket), count, up to 2^53,
--       and 1, or 0 for one in shadow, whose denial stops nobody
-- Reply for each bucket what settle.lua answers: to its take when all that are enforced allow, else to a peek at so
--       many tokens. It is one string of doubles, little-endian, 7 of each bucket: so many whole numbers cost Redis more
--       than a take. No bucket may be named twice.
-- Laws  those of the algorithms; and nothing is taken of any unless all that are enforced allow. One in shadow is then
--       taken from by itself: what it has not stops nobody.
assert(#KEYS >= 2 and #ARGV >= 4 and #ARGV % 4 == 0, 'joint takes 4 arguments for each bucket, and 4 or 2 keys')
local scripted = {
  ['lazy-token-bucket'] = lazy_token_bucket, gcra = gcra, ['leaky-bucket'] = leaky_bucket,
  ['fixed-window'] = fixed_window, ['sliding-window'] = sliding_window, ['sliding-counter'] = sliding_counter,
}
local now = microseconds()

-- Of each bucket, what asks it.
local buckets, enforced, last, keys = {}, {}, 0, 0
for i = 1, #ARGV, 4 do
  local algorithm, member, count = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local first, decide = keys + 1, scripted[algorithm]
  if algorithm == 'token-bucket' then
    keys = keys + 4
    buckets[#buckets + 1] = function(operation)
      return token_bucket(KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3], member, now, operation, count)
    end
  else
    assert(decide, 'joint takes no algorithm of this name')
    keys = keys + 2
    buckets[#buckets + 1] = function(operation)
      return decide(KEYS[first], KEYS[first + 1], now, operation, count)
    end
  end
  enforced[#buckets] = ARGV[i + 3] == '1'
  if enforced[#buckets] then last = #buckets end
end
assert(keys == #KEYS, 'joint takes as many keys as its buckets have')

-- The last one enforced may take at once: whether all allow hangs on it alone when the others do.
local replies, allowed = {}, true
for i = 1, #buckets do
  if enforced[i] then
    replies[i] = buckets[i](allowed and i == last and 'take' or 'peek')
    allowed = allowed and replies[i][1] == 1
  end
end
for i = 1, #buckets do
  if i ~= last and (allowed or not enforced[i]) then replies[i] = buckets[i](allowed and 'take' or 'peek') end
end
for i = 1, #replies do replies[i] = struct.pack('<ddddddd', unpack(replies[i])) end
return table.concat(replies)
