-- The sliding window: a log of takes, exact to the µs, and rules that must all admit a take. Written upon time.lua,
-- bucket.lua and windows.lua. State is a list with an entry for each take or share: {at, sum}, or {at, sum, tokens} of
-- more than one token. They are the instant, the total of all tokens ever taken (these included, modulo 2^52) and their
-- number, each a double of 8 bytes. A bucket without entries that count has no key.
--
-- The tokens taken since an instant are the difference between two totals: of the newest entry, and of the last one up
-- to the instant. A binary search finds that entry, so old entries make no difference. A write trims some old entries:
-- enough that their number does not grow, and few enough that no call takes long. A log's key lives an eighth of its
-- window longer than the log counts at most.
-- Laws  4 7. Never more than a rule's tokens in any time as long as its window.
--       5. After a step of the clock back by less than the shortest window, time stands still for the log. After a
--       larger one, its tokens count as taken now.
--       6. Takes count under the new terms, as far as their entries are still there.
local function sliding_window(record, state, now, operation, count)
  local terms = read_windows(record, 'sliding-window')
  if not terms then return unknown(state, now) end
  local rules = terms.rules
  local longest = rules[#rules].micros

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
  -- The first entry from `low` on for which `is` holds, as it does for all later ones; one beyond the last if there is
  -- none. The search begins at the newest entry, since a shorter window ends near it.
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

  -- Newest instant and total. For each rule: tokens that count at `at`, the total before them, and their first entry.
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
      used[i], firsts[i] = (total - bases[i]) % LOG_TOTALS, low
    end
  end
  local at, stepped = now, false
  if entries > 0 then
    newest = entry(entries - 1)
    if newest > now then at, stepped = newest, newest - now > rules[1].micros end
  end
  measure(at)
  if stepped then at = now end

  -- The instant of the entry that must leave a rule's window for `excess` tokens to have left it.
  local function leaving(i, excess)
    if stepped then
      -- The entries are those that are written below.
      for j = i, 1, -1 do
        if used[i] - (used[j - 1] or 0) >= excess then return j > 1 and now - rules[j - 1].micros or now end
      end
    end
    local function suffices(j)
      local _, sum = entry(j)
      return (sum - bases[i]) % LOG_TOTALS >= excess
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
  tokens, verdict, granted, missing = apply(terms, tokens, operation, count)
  local writes = operation ~= 'peek' and (verdict == 1 or verdict == 0 and stepped)
  if writes and stepped then
    -- One entry for each rule: the tokens that count in its window and in no shorter one, as if taken just before that.
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
    newest, total = at, (total + granted) % LOG_TOTALS
    add(at, total, granted)
    for i = 1, #rules do used[i] = used[i] + granted end
  elseif operation == 'refund' and count > 0 then
    local back, gone, kept, rest = 0, 0, nil, 0
    while back < count and gone < LOG_BATCH and entries - gone > firsts[#rules] do
      local taken_at, _, taken = entry(entries - gone - 1)
      local some = math.min(taken, count - back)
      back, gone, kept, rest = back + some, gone + 1, taken_at, taken - some
    end
    if gone > 0 then
      redis.call('LTRIM', state, 0, whole(-gone - 1))
      entries = entries - gone
      if rest > 0 then add(kept, (total - back) % LOG_TOTALS, rest) end
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
    local gone, slack = math.min(firsts[#rules], LOG_BATCH), (longest - longest % LOG_KEPT_LONGER) / LOG_KEPT_LONGER + 1
    if gone > 0 then redis.call('LTRIM', state, gone, -1) end
    redis.call('PEXPIREAT', state, whole(math.ceil((newest - newest % slack + slack + longest) / 1000)))
  elseif writes then
    redis.call('UNLINK', state)
  end
  return {verdict, tokens, terms.capacity, free - now, 0, now, granted, 0}
end

local settle = sliding_window
