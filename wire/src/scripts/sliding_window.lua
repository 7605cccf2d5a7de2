-- The sliding window: a log of what was taken, exact to the µs, and any number of rules about it, all of which must
-- admit a take. Written upon time.lua, bucket.lua and windows.lua. State is a list of an entry for each take or share,
-- {at, sum}, or {at, sum, tokens} of more than one token: the instant, all that was ever taken, these included (modulo
-- 2^52), and how many they were, each a double of 8 bytes. A bucket of which nothing counts has no key.
--
-- What was taken since an instant is the difference between the newest entry and the last one up to then, found by
-- search: whether old entries are still there makes no difference. What writes trims so many of them that they grow no
-- more, and no more than that, so that nothing takes long. A log has a key for an eighth of its window longer than it
-- counts at most.
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

  local entries = redis.call('LLEN', state)
  -- Instant, total and tokens of an entry, from 0 on.
  local function entry(i)
    local row = redis.call('LINDEX', state, whole(i))
    local at, sum = struct.unpack('<dd', row)
    local tokens = #row > 16 and struct.unpack('<d', row, 17) or 1
    return at, sum, tokens
  end
  local function add(at, sum, tokens)
    redis.call('RPUSH', state, tokens == 1 and struct.pack('<dd', at, sum) or struct.pack('<ddd', at, sum, tokens))
    entries = entries + 1
  end
  -- The first entry from `low` on of which this is so, as of all after it; or one beyond the last. Looked for from the
  -- newest on, since a shorter window ends near it.
  local function first(low, is)
    local high, step = entries, 1
    while high > low do
      local i = step and math.max(low, high - step) or math.floor((low + high) / 2)
      if is(i) then
        high, step = i, step and 2 * step
      else
        low, step = i + 1, nil
      end
    end
    return high
  end

  -- Newest instant and total, and of each rule the first entry that counts at `at`, what was taken before it and since.
  local newest, total, used, bases, firsts
  local function measure(at)
    newest, total, used, bases, firsts = nil, 0, {}, {}, {}
    if entries > 0 then newest, total = entry(entries - 1) end
    local low = 0
    for i = #rules, 1, -1 do
      local gone = at - rules[i].micros
      local function counts(j) return entry(j) > gone end
      if low < entries and not counts(low) then low = first(low + 1, counts) end
      bases[i] = total
      if low < entries then
        local _, sum, tokens = entry(low)
        bases[i] = sum - tokens
      end
      used[i], firsts[i] = (total - bases[i]) % MODULUS, low
    end
  end
  local at, stepped = now, false
  if entries > 0 then
    newest = entry(entries - 1)
    if newest > now then at, stepped = newest, newest - now > rules[1].micros end
  end
  measure(at)
  if stepped then at = now end

  -- The instant of the entry with which `excess` of the tokens that count under a rule will be out of its window.
  local function leaving(i, excess)
    if stepped then
      -- As they are written below.
      for j = i, 1, -1 do
        if used[i] - (used[j - 1] or 0) >= excess then return j > 1 and now - rules[j - 1].micros or now end
      end
    end
    local function suffices(j)
      local _, sum = entry(j)
      return (sum - bases[i]) % MODULUS >= excess
    end
    local found = firsts[i]
    if not suffices(found) then found = first(found + 1, suffices) end
    return (entry(found))
  end

  local function remaining()
    local tokens = terms.capacity
    for i = 1, #rules do tokens = math.min(tokens, rules[i].tokens - used[i]) end
    return math.max(0, tokens)
  end
  local tokens, verdict, granted, missing = remaining()
  tokens, verdict, granted, missing = operate(terms, tokens, operation, count)
  local writes = operation ~= 'peek' and (verdict == 1 or verdict == 0 and stepped)
  if writes and stepped then
    -- What counts under each rule, and not under those of shorter windows, as if it had been taken just before these.
    redis.call('UNLINK', state)
    entries, stepped = 0, false
    local sum, before = 0, used
    for i = #rules, 1, -1 do
      local only = before[i] - (before[i - 1] or 0)
      sum = sum + only
      if only > 0 then add(i > 1 and now - rules[i - 1].micros or now, sum, only) end
    end
    measure(now)
  end
  if writes and granted > 0 then
    newest, total = at, (total + granted) % MODULUS
    add(at, total, granted)
    for i = 1, #rules do used[i] = used[i] + granted end
  elseif operation == 'refund' and count > 0 then
    local back, gone, kept, rest = 0, 0, nil, 0
    while back < count and gone < MOST and entries - gone > firsts[#rules] do
      local taken_at, _, taken = entry(entries - gone - 1)
      local some = math.min(taken, count - back)
      back, gone, kept, rest = back + some, gone + 1, taken_at, taken - some
    end
    if gone > 0 then
      redis.call('LTRIM', state, 0, whole(-gone - 1))
      entries = entries - gone
      if rest > 0 then add(kept, (total - back) % MODULUS, rest) end
      measure(at)
    end
    tokens = remaining()
  elseif operation == 'reset' then
    used[#rules] = 0
  end

  local free = now
  if missing > 0 then
    for i = 1, #rules do
      local excess = used[i] + tokens + missing - rules[i].tokens
      if excess > 0 then free = math.max(free, leaving(i, excess) + rules[i].micros) end
    end
  end
  if writes and used[#rules] > 0 then
    local gone, eighth = math.min(firsts[#rules], MOST), (longest - longest % 8) / 8 + 1
    if gone > 0 then redis.call('LTRIM', state, gone, -1) end
    redis.call('PEXPIREAT', state, whole(math.ceil((newest - newest % eighth + eighth + longest) / 1000)))
  elseif writes then
    redis.call('UNLINK', state)
  end
  return {verdict, tokens, terms.capacity, free - now, 0, now, granted, 0}
end

local scripted = sliding_window
