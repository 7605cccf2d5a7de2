-- The sliding window: a log of what was taken, exact to the µs, and any number of rules about it, all of which must
-- admit a take. Written upon time.lua, bucket.lua and windows.lua. State is a stream of an entry for each take or
-- share: its id is the instant and, after it, all that was ever taken (modulo 2^52), its one value how much of that was
-- this. A bucket of which nothing counts has no key.
--
-- What was taken since an instant is the difference between the newest entry and the last one up to then, found by
-- search: so a rule costs the same however much was taken, and whether old entries are still there makes no difference.
-- A take trims so many of them that they grow no more, and no more than that, so that none takes long.
-- Laws  never more than a rule's tokens in any time as long as its window; 4 7; 5: a clock that steps back by less than
--       the shortest window stands still; by more, and what counts is taken for taken now; 6: what was taken counts
--       under the new terms, as far as it is still there.
local function sliding_window(record, state, now, operation, count)
  local terms = read_windows(record, 'sliding-window')
  if not terms then return unknown(state, now) end
  local rules = terms.rules
  local longest = rules[#rules].micros
  -- Totals are below this. Entries that a refund takes back at most, and that a take trims: neither is to take long.
  local MODULUS, MOST = 4503599627370496, 1000

  -- Instant and total of a row, and its tokens.
  local function entry(row)
    if not row then return nil end
    local instant, total = string.match(row[1], '^(%d+)-(%d+)$')
    return tonumber(instant), tonumber(total), tonumber(row[2][2])
  end
  local first, first_total, first_tokens = entry(redis.call('XRANGE', state, '-', '+', 'COUNT', 1)[1])
  -- The last entry up to an instant. Asked for one before the first, Redis would look at all of them.
  local function last(at)
    if not first or at < first then return nil end
    return entry(redis.call('XREVRANGE', state, whole(at), '-', 'COUNT', 1)[1])
  end
  local function id(instant, total)
    return whole(instant) .. '-' .. whole(total)
  end

  local newest, total = last(EXACT)
  local at, stepped = now, false
  if newest and newest > now then
    at, stepped = newest, newest - now > rules[1].micros
  end
  total = total or 0
  local used, bases, oldest = {}, {}, nil
  for i = 1, #rules do
    local instant, base = last(at - rules[i].micros)
    oldest = instant and id(instant, base)
    bases[i] = base or first and first_total - first_tokens or 0
    used[i] = (total - bases[i]) % MODULUS
  end
  if stepped then at = now end

  -- The instant of the entry with which `excess` of the tokens that count under a rule will be out of its window.
  local function leaving(i, excess)
    if stepped then
      -- As they are written below.
      for j = i, 1, -1 do
        if used[i] - (used[j - 1] or 0) >= excess then return j > 1 and now - rules[j - 1].micros or now end
      end
    end
    local low, high = math.max(at - rules[i].micros, first - 1), newest
    if excess <= 64 then
      for _, row in ipairs(redis.call('XRANGE', state, whole(low + 1), '+', 'COUNT', excess)) do
        local instant, there = entry(row)
        if (there - bases[i]) % MODULUS >= excess then return instant end
      end
    end
    while high - low > 1 do
      local middle = low + math.floor((high - low) / 2)
      local instant, there = last(middle)
      if instant and instant > low and (there - bases[i]) % MODULUS >= excess then
        high = instant
      else
        low = middle
      end
    end
    return high
  end

  local function remaining()
    local tokens = terms.capacity
    for i = 1, #rules do tokens = math.min(tokens, rules[i].tokens - used[i]) end
    return math.max(0, tokens)
  end
  -- An entry for `tokens` taken now. No id may be less than the newest there was, of the total `top`.
  local function add(tokens, top)
    local sum = (total + tokens) % MODULUS
    if newest == at and sum < top then at = at + 1 end
    if oldest then
      redis.call('XADD', state, 'MINID', '~', oldest, 'LIMIT', MOST, id(at, sum), 't', whole(tokens))
    else
      redis.call('XADD', state, id(at, sum), 't', whole(tokens))
    end
    newest, total, first = at, sum, first or at
    for i = 1, #rules do used[i] = used[i] + tokens end
  end

  local tokens, verdict, granted, missing = remaining()
  tokens, verdict, granted, missing = operate(terms, tokens, operation, count)
  local writes = operation ~= 'peek' and (verdict == 1 or verdict == 0 and stepped)
  if writes and stepped then
    -- What counts under each rule, and not under those of shorter windows, as if it had been taken just before these.
    redis.call('UNLINK', state)
    newest, total, oldest, stepped = nil, 0, nil, false
    for i = #rules, 1, -1 do
      local only = used[i] - (used[i - 1] or 0)
      if only > 0 then
        newest, total = i > 1 and now - rules[i - 1].micros or now, total + only
        redis.call('XADD', state, id(newest, total), 't', whole(only))
      end
    end
    first = now - longest
    for i = 1, #rules do bases[i] = total - used[i] end
  end
  if writes and granted > 0 then
    add(granted, total)
  elseif operation == 'refund' and count > 0 then
    local back, rest, gone, top = 0, 0, {}, total
    for _, row in ipairs(redis.call('XREVRANGE', state, '+', whole(math.max(0, at - longest) + 1), 'COUNT', MOST)) do
      if back == count then break end
      local _, there, taken = entry(row)
      local some = math.min(taken, count - back)
      back, rest, total, gone[#gone + 1] = back + some, taken - some, (there - taken) % MODULUS, row[1]
    end
    if #gone > 0 then
      redis.call('XDEL', state, unpack(gone))
      for i = 1, #rules do used[i] = math.max(0, used[i] - back - rest) end
      -- Also where nothing is left of them, since the newest id is not forgotten.
      add(rest, top)
    end
    tokens = remaining()
  elseif operation == 'reset' then
    used[#rules] = 0
  end
  if writes and used[#rules] > 0 then
    redis.call('PEXPIREAT', state, whole(math.ceil((newest + longest) / 1000)))
  elseif writes then
    redis.call('UNLINK', state)
  end

  local free = now
  if missing > 0 then
    for i = 1, #rules do
      local excess = used[i] + tokens + missing - rules[i].tokens
      if excess > 0 then free = math.max(free, leaving(i, excess) + rules[i].micros) end
    end
  end
  return {verdict, tokens, terms.capacity, free - now, 0, now, granted, 0}
end

local scripted = sliding_window
