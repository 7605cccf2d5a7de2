-- Moves the tokens of a key from the bucket of one plan to that of another, over one change of its plan or several.
-- Runs after the files of take_all.lua but that one.
--
-- KEYS
-- 1. the mark of the key: the instant of the last change that was made, and the limit or plan that has the tokens
-- 2. and on, the keys of the bucket that has the tokens, then of the bucket that gets them, as in take_all.lua. It may
--    be one bucket
--
-- ARGV
-- 1. the instant of the last change
-- 2. the mark as the caller has read it; empty for none
-- 3. the mark after the move
-- 4. ms for which it is kept
-- 5. on_change
-- 6. the algorithm of the bucket that has the tokens
-- 7. the algorithm of the bucket that gets them
-- 8. the most debt of the bucket that gets them
-- 9. the instant from which on the first change is long past
-- 10. and on, of each plan behind that of the first bucket: the instant of its beginning, capacity, n and p. Capacity 0
--    for plans that are not known any more. The last one is that of the second bucket
--
-- Reply {outcome, now}. 1 moved. Otherwise nothing was done:
-- - 0 too early
-- - 2 the mark is another one
-- - 3 others may take from the bucket of the first change, which no mark tells
--
-- Laws  6. The first bucket has no whole token after it. At each change, `on_change` turns the tokens of then into
--       tokens of the next plan. Time between changes counts by the rate of the plan in force. Plans that are not known
--       leave no tokens, but debt. The first bucket counts as full at the first change if it is full by now. The second
--       one gets the part of a token that has come, and keeps none of its own.
assert(#KEYS >= 5 and #ARGV >= 13 and #ARGV % 4 == 1, 'move takes 5 keys at least, 9 arguments, and 4 for each plan')
local settles = {
  ['lazy-token-bucket'] = lazy_token_bucket, ['leaky-bucket'] = leaky_bucket,
  ['fixed-window'] = fixed_window, ['sliding-window'] = sliding_window, ['sliding-counter'] = sliding_counter,
}
local in_windows = {['fixed-window'] = true, ['sliding-window'] = true, ['sliding-counter'] = true}
local now, on_change = microseconds(), ARGV[5]
if now < tonumber(ARGV[1]) then return {0, now} end
if now >= tonumber(ARGV[9]) then return {3, now} end
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return {2, now} end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])

-- For each bucket, a function that applies an operation to it as of now or of another instant. Then its record and its
-- state.
local next_key, buckets, records, states = 2, {}, {}, {}
for i = 1, 2 do
  local algorithm, first = ARGV[5 + i], next_key
  if algorithm == 'token-bucket' or algorithm == 'gcra' then
    local due, previous = KEYS[first + 2], KEYS[first + 3]
    if algorithm == 'gcra' then due, previous = nil, nil end
    next_key, states[i], records[i] = first + (due and 4 or 2), KEYS[first], KEYS[first + 1]
    buckets[i] = function(operation, count, most_debt, at)
      at = at or now
      return (token_bucket(algorithm, states[i], records[i], due, previous, at, operation, count, false, most_debt))
    end
  else
    local decide = settles[algorithm]
    assert(decide, 'move takes no algorithm of this name')
    next_key, records[i], states[i] = first + 2, KEYS[first], KEYS[first + 1]
    buckets[i] = function(operation, count, most_debt, at)
      return decide(records[i], states[i], at or now, operation, count, most_debt)
    end
  end
end

-- The content of a bucket. First its tokens, with the part of the next one that has come, and below 0 in debt. Then
-- whole tokens, the capacity, tokens in a µs, and whether they come in parts.
local function held(i)
  local told = buckets[i]('peek', 1)
  if told[1] == -1 then return nil end
  local whole, capacity = told[2], told[3]
  local f = redis.call('HMGET', records[i], 'n', 'p', 'catch_up')
  local pace = (tonumber(f[1]) or 0) / (tonumber(f[2]) or 1)
  local tokens, catches_up = whole, f[3] ~= '0'
  if pace > 0 and whole < capacity then
    local exact = capacity - buckets[i]('peek', capacity)[4] * pace
    if whole > 0 or not catches_up then
      tokens = math.max(whole, math.min(exact, whole + 1))
    else
      tokens, whole = math.min(exact, 1), math.min(0, math.floor(exact + 1e-6))
    end
  end
  return tokens, whole, capacity, pace, pace > 0 and catches_up and not in_windows[ARGV[5 + i]]
end

local tokens, whole, capacity, pace = held(1)
local own_tokens, own, new_capacity, new_pace, in_parts = held(2)
if not tokens or not own then return {1, now} end
-- As of the first change ...
if whole < capacity then tokens = tokens - (now - tonumber(ARGV[10])) * pace end
-- ... and over each one.
for i = 10, #ARGV, 4 do
  local most, n, p = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  if most == 0 then
    tokens = math.min(0, tokens)
  else
    if on_change == 'reset' or on_change == 'proportional' and tokens >= capacity then
      tokens = most
    elseif on_change == 'proportional' and tokens > 0 then
      tokens = tokens * most / capacity
    end
    tokens = math.min(most, math.min(most, tokens) + (tonumber(ARGV[i + 4] or now) - tonumber(ARGV[i])) * n / p)
    capacity = most
  end
end
if on_change == 'proportional' and own >= 0 then tokens = math.min(tokens, own_tokens) end
local goal = math.min(new_capacity, math.floor(tokens + 1e-6))
if states[1] ~= states[2] then
  if whole > 0 then buckets[1]('take', whole) elseif whole < 0 then buckets[1]('refund', -whole) end
  -- A hold of the second bucket has charged it since.
  if own < 0 and on_change ~= 'reset' then goal = goal + own end
end
local at = now
if own >= 0 and in_parts then
  -- Full at the instant since which the part of a token has come, and what is too much is taken then.
  if goal < new_capacity then at = now - math.floor(math.max(0, tokens - goal) / new_pace) end
  buckets[2]('reset', 0, nil, at)
  own = new_capacity
end
if goal < math.min(0, own) then
  buckets[2]('charge', own - goal, tonumber(ARGV[8]), at)
elseif goal < own then
  buckets[2]('take', own - goal, nil, at)
elseif goal > own and on_change ~= 'proportional' and new_pace > 0 then
  buckets[2]('refund', goal - own)
end
return {1, now}
