-- The token bucket: every operation on it but the native commands. Written upon time.lua, bucket.lua, schedule.lua and
-- rest.lua. GCRA is the same without a due index, always at rest. State is one of
-- - a counter of the tokens left, in the due index or the previous one. A daemon credits it.
-- - a value at rest, see rest.lua. It fills by itself.
-- - none. The bucket is full. A counter in no index counts as none, since a bare DECR that came late has left it.
-- Without catch-up, and where tokens come at calendar instants, no bucket is at rest.
-- Laws  1 2 3 5 6 7. An unknown limit leaves no key behind, not even a bare DECR's.
-- The arguments from `operation` on are those of settle.lua. Returns the reply of settle.lua, always as all numbers,
-- and whether the bucket may be at rest under terms that a worker has read.
local function token_bucket(algorithm, state, record, due, previous, now, operation, count, may_count, last,
  in_hand_for, spare, unused, unused_since)
  local own = read_terms(record, algorithm)
  if not own then return unknown(state, now), false end
  if not due then own.catch_up = true end
  local terms = with_changes(own, record, now)
  local rests = terms.n > 0 and terms.catch_up
  local as_number = due and rests_as_number(terms)
  local puts = operation == 'put-in' or operation == 'fill'
  local charges, reserves = operation == 'charge', operation == 'reserve'
  local gives = operation == 'reset' or operation == 'fill'
    or (operation == 'refund' or operation == 'put-in') and count > 0
  local doubt = rests and not puts and not charges and not reserves and last or 0
  local doubted_full = doubt > 0 and spare or 0

  -- As last written ...
  local member = due and string.sub(state, #due)
  local text = redis.call('GET', state)
  local under = terms
  local form, tag, said, hold, of_debt = parse_rest(text, terms.tag)
  local function is_of(one)
    form, tag, said, hold, of_debt = parse_rest(text, one.tag)
    return tag == one.tag
  end
  while form and tag ~= under.tag and under ~= own do
    under = under.before
    is_of(under)
  end
  local tokens, score, found, indexed, stepped, moved = nil, nil, 'absent', nil, false, doubt > 0
  -- When the bucket is full if nothing more is taken: what tells whether it misses tokens in doubt.
  local full_instant
  if form then
    -- A shard that was published later than others counts its terms from 1 as well, and has no previous ones.
    if tag ~= under.tag then under = before_own(own, record, is_of) or terms end
    -- A value that was written under a quota tells nothing under a rate.
    if under.n > 0 then
      found = 'rest'
      if form == 'f' then
        local taken = first_taken(under, state, said)
        local at = math.min(taken + 999, now)
        if under.anchor then
          tokens, score = absent(under, at)
        else
          tokens, score = under.capacity, start(at, under.n, under.p)
        end
        tokens, moved = math.max(0, tokens - said), moved or taken > now
      elseif form == 'd' then
        -- Debt tells its own instant. After a step of the clock back, it counts from now, as a counter does.
        tokens, score, moved = -said, of_debt, moved or of_debt > now + LATEST_START
      else
        full_instant = under == terms and said
        tokens, score, stepped = arrived(under, said, under == terms and now or under.since)
        -- Takes found no token and are about to be given back. A bucket that this call takes nothing of stays as it is.
        local filling = stepped and as_number and under == terms and terms.capacity * terms.p
        local owed = filling and said - now - (filling - filling % terms.n) / terms.n
        local owes = owed and owed <= math.max(GIVING_BACK, MOST_TAKEN_AT_REST * terms.p / terms.n)
        if owes then score = stepped end
        moved = moved or stepped and not owes
      end
      if under ~= terms then
        tokens, score = carried(terms, under, tokens, score)
        moved = true
      end
      tokens, score = credit(terms, tokens, score, now)
    end
  elseif due then
    indexed, found = redis.call('ZSCORE', due, member), 'due'
    if not indexed and own.has_previous then
      indexed, found = redis.call('ZSCORE', previous, member), 'previous'
    end
    if not indexed then
      found = 'absent'
    else
      -- A missing counter was evicted, so the bucket is empty, not full. Debt below 0 counts as empty.
      local number, met = tonumber(text) or 0, false
      score = score_in_index(indexed)
      local written = score
      if found == 'previous' then
        tokens, score = migrate_counter(read_previous_terms(record), own, number, score)
      else
        tokens, met = counted(own, number)
      end
      tokens, score = carried(terms, own, tokens, score)
      full_instant = doubted_full > 0 and instant(score, terms.capacity - tokens, terms.n, terms.p)
      -- A full bucket that still has a key counts from now, as an absent one does.
      if terms.catch_up or tokens >= terms.capacity then tokens, score = credit(terms, tokens, score, now) end
      moved = moved or met or score ~= written
    end
  end
  -- ... and as of now.
  if not tokens then tokens, score = absent(terms, now) end
  -- A credit up to the capacity has forgotten tokens in doubt, be it this one or that of another worker before. And a
  -- bucket made anew has never missed them.
  local misses = full_instant and doubted_full > 0 and are_whole_tokens(terms, math.abs(full_instant - doubted_full))
  if misses then doubt = 0 end
  -- Buckets that are never at rest have no debt.
  tokens = math.max(rests and math.min(0, tokens) or 0, tokens - doubt)
  hold = found == 'rest' and rests and math.min(hold, now + LONGEST_HOLD) or 0
  if stepped and as_number then hold = math.max(hold, now + GIVING_BACK) end
  local counting = found == 'due' or found == 'previous'
  local refunded = hold > now and hold % 2 == 1

  -- The bucket is full at the instant that the worker expects: no other worker has taken since, and the tokens go in at
  -- once. In a held bucket, others may also have taken as many tokens as were put back. Otherwise other workers may
  -- have tokens in hand, which are good only while the bucket with them is below full. The bucket therefore ends
  -- counting first, and the tokens go in once those in hand are spent or gone.
  local untouched, ended, wait = false, false, 0
  if puts then
    -- To a bucket of ideal precision, unused tokens were never taken. A refund since may have overflowed it.
    local lost = refunded and unused_since and unused_since <= hold - HOLD
    count = count + (not lost and unused or 0)
    local full = now + headroom(terms, score, tokens, now)
    untouched = last > 0 and hold <= now and terms.p >= 10 * terms.n and terms.n > 0
      and math.abs(full - last) <= FULL_AT_SLACK
    if untouched then
      count = count + spare
    elseif (count > 0 or operation == 'fill') and rests and full < EXACT then
      local span = math.max(HOLD, in_hand_for + HOLD_MARGIN)
      local left = hold > now and hold - span + in_hand_for - now or 0
      if counting then
        ended, hold, wait = true, now + span, in_hand_for
      elseif left > 0 then
        ended, wait = true, left
      end
    end
    operation = operation == 'fill' and 'reset' or 'refund'
    if ended then operation, count = 'refund', 0 end
  end

  -- A reservation is a charge whose debt is repaid in time. Where tokens were put in lately, or wait for that, it is
  -- a take.
  local most_debt, delay, spans = charges and rests and last or 0, nil, 0
  if reserves then
    operation = 'take'
    local short, forfeit = count - tokens, spare or 0
    local rest = rests and forfeit % terms.p or 0
    spans = rests and (forfeit - rest) / terms.p + (rest > 0 and 1 or 0) or 0
    local may_owe = count <= terms.capacity and short + spans * terms.n <= EXACT - terms.capacity
    if short > 0 and may_owe and rests and not refunded then
      delay = wait_for(terms, tokens, score, short, now)
      if delay <= last then operation, most_debt = 'charge', short else delay = nil end
    end
  end
  local before = tokens
  local verdict, granted, missing
  tokens, verdict, granted, missing = apply(terms, tokens, operation, count, most_debt)
  if delay then
    -- As if it were credited later. Spans keep the score in the past.
    tokens, score = tokens - spans * terms.n, score + (spare or 0) - spans * terms.p
    -- Until it is used or given up, other tokens that are put in have to wait, and the bucket does not count.
    local in_hand = in_hand_for or 0
    local used = math.max(delay + RESERVED_FOR, in_hand)
    wait, hold = delay, math.max(hold, now + used + math.max(HOLD - in_hand, HOLD_MARGIN))
  elseif missing > 0 then
    wait = wait_for(terms, tokens, score, missing, now)
    -- Without catch-up, only the daemon's ticks bring tokens. A tick that is due comes soon, or never if no daemon is
    -- alive, so the caller asks again after a quarter of one.
    if not terms.catch_up then
      local soon = math.max(SHORTEST_TICK_WAIT, math.min(LONGEST_TICK_WAIT, math.floor(terms.tick / 4)))
      wait = math.max(wait, score + terms.tick - now, soon)
    end
  end

  -- The form after it.
  local ahead, gap = headroom(terms, score, tokens, now), terms.capacity - tokens
  local counts = true
  if ended and counting then
    counts = false
  elseif rests and due and tokens > before and not untouched then
    -- A value at rest tells no full instant of 2^53 or later.
    counts, hold = now + ahead >= EXACT, math.max(hold, now + HOLD)
  elseif rests and counting then
    counts = untouched or gap > 1
  elseif rests then
    counts = due and may_count and granted > 0 and hold <= now and gap >= COUNT_FROM and ahead >= LEAST_AHEAD
    counts = counts or due and now + ahead >= EXACT
  end
  refunded = refunded or gives and not (ended and counting)
  if hold > now and (hold % 2 == 1) ~= refunded then hold = hold - 1 end
  -- Terms that no daemon has published have no due index. Nor does a bucket in debt count: no bare command may take.
  if terms.from or tokens < 0 then counts = false end

  -- A denied operation that credits nothing writes nothing. The next credit clamps debt.
  if operation ~= 'peek' and (verdict == 1 or verdict == 0 and moved) then
    local full = absent(terms, now) >= terms.capacity
    if full and terms.n > 0 and terms.anchor < terms.capacity and not terms.from then
      -- An absent bucket has grown to its new capacity, so the terms can be packed again. A worker may not be
      -- allowed to.
      terms.anchor = terms.capacity
      redis.pcall('HSET', record, 'anchor', whole(terms.anchor), 'packed', packed_terms(algorithm, terms))
    end
    local vanishes = tokens >= terms.capacity and hold <= now and full
    if counts and not vanishes then
      redis.call('SET', state, whole(tokens))
      local target = index_score(terms, tokens, score)
      if found ~= 'due' or target ~= tonumber(indexed) then redis.call('ZADD', due, whole(target), member) end
      if found == 'previous' then redis.call('ZREM', previous, member) end
    else
      if vanishes then
        redis.call('DEL', state)
      else
        local full_at = gap == 0 and now or math.min(now + ahead, EXACT - 1)
        keep_at_rest(terms, state, full_at, hold, now, as_number, terms.ahead and reached(terms, tokens, score),
          tokens, score)
      end
      if counting then redis.call('ZREM', found == 'due' and due or previous, member) end
    end
    counting = counts and not vanishes
  end
  return {ended and 2 or verdict, math.max(0, tokens), terms.capacity, wait, ahead, now, granted, counting and 1 or 0},
    rests and not terms.from
end
