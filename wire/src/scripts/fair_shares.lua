-- Fair shares: capacity and rate of a limit are divided among parts, and what idle parts leave is lent. A key belongs
-- to the part of its name, else to that of the longest pattern, else to `*`. Written upon time.lua and bucket.lua.
--
-- State is a hash. Its field `=` has the total: a bucket of the limit's capacity and rate, which every token is taken
-- from. Each field `:NAME` has a part: a bucket of its capacity and rate, its loan, and its use of loans. Tokens of
-- the total that are in no part's bucket are the pool. A take uses tokens of its part, then its loan. Where both are
-- too few and the last deal is a period ago, the pool is dealt. A deal takes loans back, and gives each part in need
-- as much as it will use, or by weight. The record's field `parts` has the period, and weight, capacity, n and p of
-- each part. An absent state is full. Its key lives a little longer than it takes to fill.
--
-- Laws  1 (of the total, with no tick) 3 4 5 7.
--       2 of each part, whatever the others take. A loan leaves all tokens that parts have or get within the period.
--       6. Tokens stay with their part. A new part begins empty.
local function fair_shares(record, state, now, operation, count, key, lists)
  local TOTAL, PART = '<dddddddddd', '<dddddddd'
  local f = redis.call('HMGET', record, 'algorithm', 'since')
  local since = tonumber(f[2])
  local known = f[1] == 'fair-shares' and since

  local function read_total(text)
    if not text or #text < 80 then return nil end
    local total = {patterns = string.sub(text, 81)}
    total.since, total.capacity, total.n, total.p, total.tokens, total.at, total.dealt, total.period, total.expires,
      total.lends = struct.unpack(TOTAL, text)
    return total
  end
  local function read_part(name, text)
    if not text or #text ~= 64 then return nil end
    local part = {name = name}
    part.capacity, part.n, part.p, part.tokens, part.at, part.loan, part.used, part.carry = struct.unpack(PART, text)
    return part
  end
  local function credited(bucket)
    if bucket then bucket.tokens, bucket.at = credit(bucket, bucket.tokens, bucket.at, now) end
    return bucket
  end
  -- The pattern that a key belongs to. Longer ones come first.
  local function pattern_of(patterns)
    for prefix in string.gmatch(patterns, '[^\n]+') do
      if string.sub(key, 1, #prefix) == prefix then return prefix .. '*' end
    end
    return '*'
  end

  local held = redis.call('HMGET', state, '=', ':' .. key, ':*')
  local total, part, parts = known and read_total(held[1]), nil, nil
  if total and total.since == since then
    part = read_part(key, held[2])
    if not part then
      local name = pattern_of(total.patterns)
      part = read_part(name, name == '*' and held[3] or redis.call('HGET', state, ':' .. name))
    end
    credited(total)
    credited(part)
  end

  -- Reads all parts, as they are under the present terms; nil where the record is none of shares.
  local function load_all()
    local terms = read_terms(record, 'fair-shares')
    f = redis.call('HMGET', record, 'parts', 'on_change')
    local period, lines = string.match(f[1] or '', '^(%d+)\n(.+)$')
    if not terms or terms.n == 0 or not period then return nil end
    local names, patterns, all = {}, {}, {}
    for capacity, n, p, name in string.gmatch(lines, '%d+ (%d+) (%d+) (%d+) ([^\n]+)') do
      local one = {name = name, capacity = tonumber(capacity), n = tonumber(n), p = tonumber(p)}
      if not (is_sound(one.capacity, 1) and is_sound(one.n, 1) and is_sound(one.p, 1)) then return nil end
      all[#all + 1], names[#names + 1] = one, ':' .. name
      if #name > 1 and string.sub(name, -1) == '*' then patterns[#patterns + 1] = string.sub(name, 1, -2) end
    end
    if #all == 0 then return nil end
    local function begin(one, tokens, at, loan, used, carry)
      one.tokens, one.at, one.loan, one.used, one.carry = tokens, at, loan or 0, used or 0, carry or 0
    end

    if part and total.since == since then
      local texts = redis.call('HMGET', state, unpack(names))
      for i, one in ipairs(all) do
        local same = credited(read_part(one.name, texts[i]))
        if same then
          begin(one, same.tokens, same.at, same.loan, same.used, same.carry)
        else
          begin(one, 0, start(now, one.n, one.p))
        end
      end
      return all
    end

    local before, tokens, at = total, absent(terms, now)
    total = {since = since, dealt = 0, period = tonumber(period), expires = 0, lends = 0,
      patterns = table.concat(patterns, '\n')}
    total.capacity, total.n, total.p, total.tokens, total.at = terms.capacity, terms.n, terms.p, tokens, at
    -- In proportion to the capacity of the limit, whatever the weights, and to the whole token: the parts never have
    -- more than the total.
    local function migrated(bucket, later)
      bucket.since, bucket.change, bucket.filled = math.min(since, now), 'keep', 0
      local pace = {capacity = bucket.capacity, n = later.n, p = later.p}
      local some, credited_up_to = migrate(bucket, pace, bucket.tokens, bucket.at)
      if f[2] == 'reset' then some = later.capacity end
      if f[2] == 'proportional' then
        some = math.floor(some * terms.capacity / before.capacity)
        credited_up_to = start(bucket.since, later.n, later.p)
      end
      return math.min(some, later.capacity), credited_up_to
    end
    if before then
      total.tokens, total.at = migrated(before, total)
      credited(total)
      local texts = redis.call('HGETALL', state)
      for i = 1, #texts, 2 do texts[texts[i]] = texts[i + 1] end
      local left = total.tokens
      for i, one in ipairs(all) do
        local same = read_part(one.name, texts[names[i]])
        if same then
          begin(one, migrated(same, one))
        else
          begin(one, f[2] == 'reset' and one.capacity or 0, start(math.min(since, now), one.n, one.p))
        end
        credited(one)
        one.tokens = math.min(one.tokens, left)
        left = left - one.tokens
      end
    else
      for _, one in ipairs(all) do
        local full = tokens >= terms.capacity
        local some = full and one.capacity or math.floor(tokens / terms.capacity * one.capacity)
        begin(one, some, start(now, one.n, one.p))
      end
    end
    return all, true
  end

  -- Takes all loans back, and deals the pool. The part that asks is in need.
  local function deal()
    local own, ahead, needy = 0, 0, {}
    -- Tokens with the share of the next one that has come.
    local function exact(bucket)
      return math.min(bucket.capacity, bucket.tokens + math.max(0, now - bucket.at) * bucket.n / bucket.p)
    end
    local function soon(one, tokens) return math.min(one.capacity, tokens + total.period * one.n / one.p) end
    total.dealt, total.lends = now, 0
    for i, one in ipairs(parts) do
      local tokens = exact(one)
      local later = soon(one, tokens)
      if one ~= part then own, ahead = own + tokens, ahead + later end
      if one.used ~= 0 then
        one.need, one.weight, one.order = one.used < 0 and math.huge or 2 * one.used + 1, one.n / one.p, i
        needy[#needy + 1] = one
      else
        one.carry = 0
        if later == one.capacity then total.lends = 1 end
      end
      one.loan, one.used = 0, 0
    end
    local most = exact(total)
    -- Lent tokens are in no part's bucket, and need no place of a token that a part gets within the period.
    local function pool(tokens) return math.min(most - own - tokens, total.capacity - ahead - soon(part, tokens)) end
    local rest = math.max(0, math.floor(pool(exact(part))))
    if rest > 0 then total.lends = 1 end
    -- A full total gets no more tokens. The share of a token that the pool has left completes the next one of the part.
    if most == total.capacity and part.tokens < part.capacity and pool(part.tokens + 1) >= rest then
      part.tokens, part.at = part.tokens + 1, start(now, part.n, part.p)
    end

    -- The smallest needs are met first, as far as they are below what a part may have by its weight.
    local function sum(from)
      local weights = 0
      for i = from, #needy do weights = weights + needy[i].weight end
      return weights
    end
    table.sort(needy, function(one, other)
      local a, b = one.need / one.weight, other.need / other.weight
      if a ~= b then return a < b end
      return one.order < other.order
    end)
    local first, weights = 1, sum(1)
    while first <= #needy do
      local one = needy[first]
      if one.need > rest or one.need * weights > rest * one.weight then break end
      one.loan, one.carry, rest, weights, first = one.need, 0, rest - one.need, weights - one.weight, first + 1
    end

    -- The others have the rest by weight; if there are none, all. A part of a token is carried to the next deal.
    if first > #needy then first = 1 end
    local left, takers = rest, {}
    weights = sum(first)
    for i = first, #needy do
      local one = needy[i]
      local due = rest * one.weight / weights + one.carry
      local more = math.max(0, math.min(math.floor(due), left))
      one.loan, one.carry, left = one.loan + more, due - more, left - more
      takers[#takers + 1] = one
    end
    table.sort(takers, function(one, other)
      if one.carry ~= other.carry then return one.carry > other.carry end
      return one.order < other.order
    end)
    for i, one in ipairs(takers) do
      if i <= left then one.loan, one.carry = one.loan + 1, one.carry - 1 end
      one.carry = math.max(-1, math.min(1, one.carry))
    end
  end

  local anew, dealt = false, false
  local function load_parts()
    parts, anew = load_all()
    if not parts then return false end
    local own, rest = nil, pattern_of(total.patterns)
    for _, one in ipairs(parts) do
      if one.name == key then own = one end
      if one.name == rest then part = one end
    end
    part = own or part
    return part
  end
  if known and (lists or not part) then known = load_parts() end
  if not known then return lists and {now, {}, {}} or unknown(state, now) end
  if lists then
    local names, numbers = {}, {}
    local is_lent = total.dealt <= now and now < total.dealt + total.period
    for i, one in ipairs(parts) do
      names[i] = one.name
      numbers[3 * i - 2], numbers[3 * i - 1], numbers[3 * i] = one.capacity, one.tokens, is_lent and one.loan or 0
    end
    return {now, names, numbers}
  end

  -- Tokens of the loan: it is good for a period.
  local function lent()
    return total.dealt <= now and now < total.dealt + total.period and part.loan or 0
  end
  local function is_due() return now >= total.dealt + total.period or total.dealt > now end
  local takes = operation ~= 'refund' and operation ~= 'reset'
  local is_whole = operation == 'take' or operation == 'peek'
  local short = takes and count > math.min(part.tokens + lent(), total.tokens)
    and not (is_whole and count > part.capacity)
  if short and is_due() and (parts or load_parts()) then
    part.used, dealt = -1, true
    deal()
  end

  local loan = lent()
  local tokens, verdict, granted, missing = math.min(part.tokens + loan, total.tokens), 1, 0, 0
  local changed = anew or dealt
  if takes then
    tokens, verdict, granted, missing = apply(part, tokens, operation, count, 0)
    local own = math.min(granted, part.tokens)
    part.tokens, part.loan, total.tokens = part.tokens - own, loan - (granted - own), total.tokens - granted
    if part.used >= 0 then part.used = part.used + granted - own end
    if short and granted < count and part.used >= 0 and operation ~= 'peek' then part.used, changed = -1, true end
  else
    local before = part.tokens
    part.tokens = operation == 'reset' and part.capacity or math.min(part.capacity, before + count)
    local back = operation == 'reset' and part.tokens - before or count
    total.tokens = math.min(total.capacity, total.tokens + back)
    -- Loans would need the place of these tokens. The next take in need deals anew.
    total.dealt, tokens = 0, math.min(part.tokens, total.tokens)
  end

  -- Where a deal is due, the next take in need gets a loan at once, or learns how long to wait.
  local wait = 0
  if missing > 0 and not is_due() then
    local goal, next_deal = tokens + missing, total.dealt + total.period
    local function reached(bucket, more)
      return more > 0 and instant(bucket.at, more, bucket.n, bucket.p) or now
    end
    local by_own = reached(part, goal - part.tokens - lent())
    -- The loan is over by then.
    if by_own >= next_deal then by_own = reached(part, goal - part.tokens) end
    if total.lends == 1 then by_own = math.min(by_own, math.max(next_deal, reached(total, 1))) end
    wait = math.max(0, math.max(by_own, reached(total, goal - total.tokens)) - now)
  end

  if operation ~= 'peek' and (verdict == 1 or changed and verdict == 0) then
    local fill, expires = math.ceil(total.capacity / total.n * total.p) + 1000, nil
    if total.expires < now + fill then
      expires = math.min(EXACT, now + fill + math.max(1000000, math.floor(fill / 8)))
      total.expires = expires
    end
    local values = {}
    for _, one in ipairs(parts or {part}) do
      values[#values + 1] = ':' .. one.name
      values[#values + 1] = struct.pack(PART, one.capacity, one.n, one.p, one.tokens, one.at, one.loan, one.used,
        one.carry)
    end
    if anew then redis.call('DEL', state) end
    redis.call('HSET', state, '=', struct.pack(TOTAL, total.since, total.capacity, total.n, total.p, total.tokens,
      total.at, total.dealt, total.period, total.expires, total.lends) .. total.patterns, unpack(values))
    if expires then redis.call('PEXPIREAT', state, whole(math.ceil(expires / 1000))) end
  end
  return {verdict, tokens, part.capacity, wait, 0, now, granted, 0}
end

