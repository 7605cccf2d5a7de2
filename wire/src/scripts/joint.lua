-- Takes from several buckets, of any algorithms, all or nothing. Runs after time.lua, bucket.lua, lazy.lua,
-- windows.lua and the files of all algorithms.
-- KEYS  1 and on, of each bucket in turn: record, due index, former index and counter of a token bucket; else record
--       and state
-- ARGV  1 and on, of each bucket in turn: algorithm, member (empty but for a token bucket), count, up to 2^53
-- Reply for each bucket what settle.lua answers: to its take when all are allowed, else to a peek at so many tokens.
--       No bucket may be named twice.
-- Laws  those of the algorithms; and nothing is taken of any unless all allow.
assert(#KEYS >= 2 and #ARGV >= 3 and #ARGV % 3 == 0, 'joint takes 3 arguments for each bucket, and 4 or 2 keys')
local scripted = {
  ['lazy-token-bucket'] = lazy_token_bucket, gcra = gcra, ['leaky-bucket'] = leaky_bucket,
  ['fixed-window'] = fixed_window, ['sliding-window'] = sliding_window, ['sliding-counter'] = sliding_counter,
}
local now = microseconds()

-- Of each bucket, what asks it.
local buckets, keys = {}, 0
for i = 1, #ARGV, 3 do
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
end
assert(keys == #KEYS, 'joint takes as many keys as its buckets have')

-- The last one may take at once: whether all allow hangs on it alone when the others do.
local replies, allowed = {}, true
for i = 1, #buckets do
  replies[i] = buckets[i](allowed and i == #buckets and 'take' or 'peek')
  allowed = allowed and replies[i][1] == 1
end
if allowed then
  for i = 1, #buckets - 1 do replies[i] = buckets[i]('take') end
end
return replies
