-- Holds of one bucket: tokens that are taken at an estimate, and settled once at what was used. Runs after time.lua,
-- bucket.lua, schedule.lua, rest.lua, state.lua, lazy.lua, windows.lua and the files of all algorithms.
--
-- KEYS
-- 1. and on, those of take_all.lua for the bucket, then the open holds of the shard, then the mark of the hold
--
-- ARGV
-- 1. algorithm
-- 2. operation
--    - reserve: take of the bucket, and remember the hold
--    - remember: remember a hold whose tokens another call has taken
--    - settle: put back what was not used, or charge what was used beyond the tokens taken
--    - abandon: put the tokens of a remembered hold back
-- 3. member of the hold among the open ones: ID, tokens and key. Empty if it is not remembered
-- 4. tokens taken, or to take (reserve)
-- 5. time to live in µs (reserve, remember), or tokens used, up to 2^53 (settle)
-- 6. the most debt after a charge (settle)
-- 7. the longest time in µs for which a worker has tokens in hand (settle, abandon)
-- 8. the key, under fair-shares
--
-- Reply {outcome, uncharged, then the numbers of settle.lua}.
-- - outcome: 0 done, 1 done before, 2 to be sent again after `wait`, 3 nothing done since there is no such limit
-- - uncharged: tokens used that the bound of the debt left out
--
-- Laws  those of the algorithm. A hold is settled or abandoned once. The mark of a settled one lasts HOLD_MARK ms, and
--       an abandoned one is no longer among the open ones. A remembered hold that was abandoned has no tokens, so a
--       settlement charges all that was used.
assert(#KEYS >= 4 and #KEYS <= 6 and (#ARGV == 7 or #ARGV == 8), 'hold takes 4 or 6 keys and 7 or 8 arguments')
local algorithm, operation, entry = ARGV[1], ARGV[2], ARGV[3]
local count, bound = tonumber(ARGV[4]), tonumber(ARGV[5])
local holds, mark = KEYS[#KEYS - 1], KEYS[#KEYS]
local settles = {
  ['lazy-token-bucket'] = lazy_token_bucket, ['leaky-bucket'] = leaky_bucket,
  ['fixed-window'] = fixed_window, ['sliding-window'] = sliding_window, ['sliding-counter'] = sliding_counter,
}
local now = microseconds()

local function decide(word, tokens, last, in_hand_for)
  if algorithm == 'fair-shares' then
    return fair_shares(KEYS[1], KEYS[2], now, word == 'put-in' and 'refund' or word, tokens, ARGV[8])
  end
  local settle = settles[algorithm]
  if settle then return settle(KEYS[1], KEYS[2], now, word == 'put-in' and 'refund' or word, tokens, last) end
  local due, previous
  if algorithm == 'token-bucket' then due, previous = KEYS[3], KEYS[4] end
  return (token_bucket(algorithm, KEYS[1], KEYS[2], due, previous, now, word, tokens, false, last, in_hand_for, 0))
end
local function reply(outcome, uncharged, numbers)
  return {outcome, uncharged, unpack(numbers or {1, 0, 0, 0, 0, now, 0, 0})}
end

if operation == 'reserve' or operation == 'remember' then
  local taken = operation == 'reserve' and decide('take', count) or {1, 0, 0, 0, 0, now, 0, 0}
  if taken[1] == 1 then
    redis.call('ZADD', holds, whole(now + bound), entry)
    -- Should no daemon ever come, the tokens stay taken.
    redis.call('PEXPIRE', holds, whole(math.ceil(bound / 1000) + HOLDS_LEFT))
  end
  return reply(taken[1] == -1 and 3 or 0, 0, taken)
end

local is_open = entry ~= '' and redis.call('ZSCORE', holds, entry)
local used = 0
if operation == 'settle' then
  local done = redis.call('GET', mark)
  if done then return reply(1, tonumber(done) or 0) end
  -- Its tokens have been put back.
  if entry ~= '' and not is_open then count = 0 end
  used = bound
elseif not is_open then
  return reply(1, 0)
end

local uncharged, numbers = 0, nil
if used > count then
  numbers = decide('charge', used - count, tonumber(ARGV[6]))
  uncharged = used - count - numbers[7]
elseif used < count then
  numbers = decide('put-in', count - used, 0, tonumber(ARGV[7]))
end
if numbers and numbers[1] == -1 then return reply(3, 0, numbers) end
if numbers and numbers[1] == 2 then
  numbers[1] = 1
  return reply(2, 0, numbers)
end
if is_open then redis.call('ZREM', holds, entry) end
if operation == 'settle' then redis.call('SET', mark, whole(uncharged), 'PX', whole(HOLD_MARK)) end
return reply(0, uncharged, numbers)
