-- Moves the tokens of a key from the bucket of one plan to that of another, once for each change. Runs after the files
-- of take_all.lua but that one.
-- KEYS  1 the mark of the change  2... the keys of the bucket before, then of the bucket after, as in take_all.lua
-- ARGV  1 the instant of the change  2 ms for which the mark is kept  3 on_change  4 and 5 the algorithms
-- Reply {outcome, now}. 0 too early, and nothing was done. 1 moved. 2 moved before
-- Laws  6. The bucket before is empty after it. `on_change` turns the tokens that it had at the instant of the change
--       into tokens of the bucket after. That one has at most these and its own.
assert(#KEYS >= 5 and #ARGV == 5, 'move takes 5 keys at least, and 5 arguments')
local settles = {
  ['lazy-token-bucket'] = lazy_token_bucket, ['leaky-bucket'] = leaky_bucket,
  ['fixed-window'] = fixed_window, ['sliding-window'] = sliding_window, ['sliding-counter'] = sliding_counter,
}
local now, at = microseconds(), tonumber(ARGV[1])
if now < at then return {0, now} end
if not redis.call('SET', KEYS[1], '', 'NX', 'PX', ARGV[2]) then return {2, now} end

-- For each bucket, a function that applies an operation to it, and its record.
local next_key, buckets, records = 2, {}, {}
for i = 1, 2 do
  local algorithm, first = ARGV[3 + i], next_key
  if algorithm == 'token-bucket' or algorithm == 'gcra' then
    local due, previous = KEYS[first + 2], KEYS[first + 3]
    if algorithm == 'gcra' then due, previous = nil, nil end
    next_key, records[i] = first + (due and 4 or 2), KEYS[first + 1]
    buckets[i] = function(operation, count)
      return (token_bucket(algorithm, KEYS[first], KEYS[first + 1], due, previous, now, operation, count, false))
    end
  else
    local decide = settles[algorithm]
    assert(decide, 'move takes no algorithm of this name')
    next_key, records[i] = first + 2, KEYS[first]
    buckets[i] = function(operation, count) return decide(KEYS[first], KEYS[first + 1], now, operation, count) end
  end
end
local function pace(record)
  local f = redis.call('HMGET', record, 'n', 'p')
  return (tonumber(f[1]) or 0) / (tonumber(f[2]) or 1)
end

local before, after = buckets[1]('peek', 1), buckets[2]('peek', 1)
if before[1] == -1 or after[1] == -1 then return {1, now} end
local tokens, capacity, room, new_capacity = before[2], before[3], after[2], after[3]
if tokens > 0 then buckets[1]('take', tokens) end
local kept = converted(tokens, capacity, new_capacity, ARGV[3])
-- Since the change, tokens came at the old rate and not at the new one.
local time = now - at
local then_there = converted(math.max(0, tokens - math.ceil(time * pace(records[1]))), capacity, new_capacity, ARGV[3])
kept = math.max(kept, then_there + math.floor(time * pace(records[2])))
if kept < room then buckets[2]('take', room - kept) end
return {1, now}
