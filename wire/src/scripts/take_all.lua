-- Takes from several buckets, of any algorithms, all or nothing. Runs after take_packed.lua, time.lua, bucket.lua,
-- schedule.lua, rest.lua, state.lua, lazy.lua, windows.lua and the files of all algorithms.
--
-- KEYS
-- 1. and on, the keys of each bucket in turn
--    - token bucket: state, record, due index, previous index
--    - gcra: state, record
--    - other algorithms: record, state
--
-- ARGV
-- 1. and on, of each bucket in turn, algorithm, count up to 2^53, and 1. A bucket in shadow, whose denial does not
--    hold, has 0 instead of 1
--
-- Reply for each bucket the numbers of settle.lua. They reply to its take if all enforced buckets allow, else to a
--       peek at so many tokens. The reply is one string of doubles, little-endian, 8 of each bucket: an array of as
--       many numbers would cost Redis more than a take. No bucket may be named twice.
--
-- Laws  those of the algorithms. Nothing is taken of any bucket unless all enforced ones allow. Then a bucket in shadow
--       is taken from by itself, and its denial stops no take.
assert(#KEYS >= 2 and #ARGV >= 3 and #ARGV % 3 == 0, 'take_all takes 3 arguments for each bucket, and 4 or 2 keys')
local settles = {
  ['lazy-token-bucket'] = lazy_token_bucket, ['leaky-bucket'] = leaky_bucket,
  ['fixed-window'] = fixed_window, ['sliding-window'] = sliding_window, ['sliding-counter'] = sliding_counter,
}
local now = microseconds()

-- For each bucket, a function that applies an operation to it.
local buckets, enforced, last, keys = {}, {}, 0, 0
for i = 1, #ARGV, 3 do
  local algorithm, count = ARGV[i], tonumber(ARGV[i + 1])
  local first, decide, has = keys + 1, settles[algorithm], 2
  if algorithm == 'token-bucket' or algorithm == 'gcra' then
    if algorithm == 'token-bucket' then has = 4 end
    buckets[#buckets + 1] = function(operation)
      local due, previous = KEYS[first + 2], KEYS[first + 3]
      if has == 2 then due, previous = nil, nil end
      return (token_bucket(algorithm, KEYS[first], KEYS[first + 1], due, previous, now, operation, count, false))
    end
  else
    assert(decide, 'take_all takes no algorithm of this name')
    buckets[#buckets + 1] = function(operation)
      return decide(KEYS[first], KEYS[first + 1], now, operation, count)
    end
  end
  keys = keys + has
  enforced[#buckets] = ARGV[i + 2] == '1'
  if enforced[#buckets] then last = #buckets end
end
assert(keys == #KEYS, 'take_all takes as many keys as its buckets have')

-- If all other enforced buckets allow, the last of them decides alone, and takes at once.
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
for i = 1, #replies do replies[i] = struct.pack('<dddddddd', unpack(replies[i])) end
return table.concat(replies)
