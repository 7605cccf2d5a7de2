-- The token bucket: every operation on one but the bare commands. Written upon time.lua, bucket.lua and rest.lua. GCRA
-- is the same without a due index: always at rest. State is one of
--   a counter, tokens left, and a place in the due or former index: a daemon tops it up
--   a value at rest, see rest.lua: nobody has to
--   none: the bucket is full. A counter in no index, which a bare DECR left that came late, is as good as none.
-- Without catch-up, and where tokens come at calendar instants, no bucket is at rest.
-- Laws  1 2 3 5 6, and 7: an unknown limit leaves no key behind, not even what a bare DECR has left.
-- The arguments from `operation` on are settle.lua's. Answers as settle.lua, but always all numbers; and whether the
-- bucket could be at rest.
local function token_bucket(algorithm, state, record, due, former, now, operation, count, may_count, last,
  in_hand_for)
  local terms = read_terms(record, algorithm)
  if not terms then return unknown(state, now), false end
  if not due then terms.catch_up = true end
  local rests = terms.n > 0 and terms.catch_up
  local as_number = due and rests_as_number(terms)
  local puts = operation == 'put-in' or operation == 'fill' or operation == 'put-back'
  local doubt = rests and not puts and last or 0

  -- As last written ...
  local member = due and string.sub(state, #due)
  local text = redis.call('GET', state)
  local form, tag, said, hold = parse_rest(text, terms.tag)
  local tokens, score, found, stood, stepped, moved = nil, nil, 'absent', nil, false, doubt > 0
  if form then
    local under = tag == terms.tag and terms or read_former_terms(record)
    -- A shard that is younger than others counts its terms from its own beginning.
    if not under.capacity then under = terms end
    -- What a quota has left says nothing of a rate.
    if under.n > 0 then
      found = 'rest'
      if form == 'f' then
        local taken = first_taken(under, state, said)
        local at = math.min(taken + 999, now)
        if under == terms then
          tokens, score = absent(terms, at)
        else
          tokens, score = under.capacity, start(at, under.n, under.p)
        end
        tokens, moved = math.max(0, tokens - said), moved or taken > now
      else
        tokens, score, stepped = arrived(under, said, under == terms and now or under.since)
        -- Takes that found no token and are about to be given back: a bucket that nothing is taken of stays as it is.
        local owes = stepped and as_number and under == terms
          and said - now - terms.capacity * terms.p <= GIVING_BACK
        if owes then score = now - (now - said) % terms.p end
        moved = moved or stepped and not owes
      end
      if under ~= terms then
        tokens, score = carry(under, terms, tokens, score)
        moved = true
      end
      tokens, score = credit(terms, tokens, score, now)
    end
  elseif due then
    stood, found = redis.call('ZSCORE', due, member), 'due'
    if not stood and terms.former then
      stood, found = redis.call('ZSCORE', former, member), 'former'
    end
    if not stood then
      found = 'absent'
    else
      -- A missing counter was evicted: empty, not full. Below 0 is debt, which is nobody's.
      local number, met = tonumber(text) or 0, false
      score = score_at(stood)
      local written = score
      if found == 'former' then
        tokens, score = carry_counter(read_former_terms(record), terms, number, score)
      else
        tokens, met = counted(terms, number)
      end
      -- A full bucket that still has a key counts from now, as one without does. What is in doubt was taken: were it
      -- not, the bucket would have lost what it cannot hold.
      if terms.catch_up or tokens >= terms.capacity then
        tokens, score = credit(terms, tokens + doubt, score, now)
      end
      moved = moved or met or score ~= written
    end
  end
  -- ... and as of now.
  if not tokens then tokens, score = absent(terms, now) end
  tokens = math.max(0, tokens - doubt)
  hold = found == 'rest' and rests and math.min(hold, now + LONGEST_HOLD) or 0
  if stepped and as_number then hold = math.max(hold, now + GIVING_BACK) end
  local counting = found == 'due' or found == 'former'

  -- If the bucket is full when the worker reckons it is, nobody has taken since, and tokens go in at once. Otherwise
  -- other workers may have some in hand, which are good only while the bucket with them is below full. So a counter
  -- ends first, and the tokens go in when all those are spent or gone.
  local untouched, ended, wait = false, false, 0
  if puts then
    local full = now + headroom(terms, score, tokens, now)
    untouched = last > 0 and terms.p >= 10 * terms.n and terms.n > 0 and math.abs(full - last) <= 5
    if operation == 'put-back' then
      if not untouched then count = 0 end
    elseif rests and due and not untouched and full < EXACT then
      local span = math.max(HOLD, in_hand_for + 250000)
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

  local before = tokens
  local verdict, granted, missing
  tokens, verdict, granted, missing = operate(terms, tokens, operation, count)
  if missing > 0 then
    wait = time_to(terms, score, missing, now)
    -- Without catch-up, tokens come at the daemon's ticks only. Once they are due it comes within a tick, and never
    -- should it be dead: a quarter of one is soon enough to ask again.
    if not terms.catch_up then
      local soon = math.max(1000, math.min(250000, math.floor(terms.tick / 4)))
      wait = math.max(wait, score + terms.tick - now, soon)
    end
  end

  -- The form after it.
  local ahead, gap = headroom(terms, score, tokens, now), terms.capacity - tokens
  local counts = true
  if ended and counting then
    counts = false
  elseif rests and due and tokens > before and not untouched then
    -- No value at rest can say more than that.
    counts, hold = now + ahead >= EXACT, math.max(hold, now + HOLD)
  elseif rests and counting then
    counts = untouched or gap > 1
  elseif rests then
    counts = due and may_count and granted > 0 and hold <= now and gap >= COUNT_FROM and ahead >= LEAST_AHEAD
    counts = counts or due and now + ahead >= EXACT
  end

  -- What was refused and credited nothing is left as it is, debt included: whoever credits next clamps it.
  if operation ~= 'peek' and (verdict == 1 or verdict == 0 and moved) then
    local full = absent(terms, now) >= terms.capacity
    if full and terms.n > 0 and terms.anchor < terms.capacity then
      -- Grown to its new capacity: from here on the terms are packed again.
      terms.anchor = terms.capacity
      redis.call('HSET', record, 'anchor', whole(terms.anchor), 'packed', packed_terms(algorithm, terms))
    end
    local vanishes = tokens >= terms.capacity and hold <= now and full
    if counts and not vanishes then
      redis.call('SET', state, whole(tokens))
      local stands = place(terms, tokens, score)
      if found ~= 'due' or stands ~= tonumber(stood) then redis.call('ZADD', due, whole(stands), member) end
      if found == 'former' then redis.call('ZREM', former, member) end
    else
      if vanishes then
        redis.call('DEL', state)
      else
        keep_at_rest(terms, state, gap == 0 and now or now + ahead, hold, now, as_number)
      end
      if counting then redis.call('ZREM', found == 'due' and due or former, member) end
    end
    counting = counts and not vanishes
  end
  return {ended and 2 or verdict, tokens, terms.capacity, wait, ahead, now, granted, counting and 1 or 0}, rests
end
