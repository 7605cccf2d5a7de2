-- The generic cell rate algorithm: of a bucket one instant is kept, the theoretical arrival time, at which it will be
-- full if it is left alone. Written upon time.lua, bucket.lua and lazy.lua. State is a string "tat since": that
-- instant, and the one since which the terms apply under which it was reckoned. A full bucket has no key.
--
-- Tokens fall on the lattice of time.lua, and the arrival time is as far after one of its instants as they are: so it
-- holds the phase of any rate exactly, up to a token every µs, and decides as a token bucket does. A bucket that has
-- just stopped being full may seem to miss one token more for the 2 µs by which it starts late.
-- Laws  1 (with no tick) 2 3 4 6 7, and 5: a clock that steps back empties a bucket, which then fills from now.
local function gcra(record, state, now, operation, count)
  local terms = read_terms(record, 'gcra')
  if not terms then return unknown(state, now) end

  -- Tokens and score as of `at` of a bucket that will be full at `tat`.
  local function arrived(under, tat, at)
    if tat <= at then return under.capacity, tat end
    local base, i, d = locate(tat, under.n, under.p)
    local base_at, i_at, rest = locate(at - d, under.n, under.p)
    local missing = (base - base_at) / under.p * under.n + i - i_at
    if missing > under.capacity then return 0, start(at, under.n, under.p) end
    return under.capacity - missing, at - rest
  end

  local since = redis.call('HGET', record, 'since')
  local held, written_under = string.match(redis.call('GET', state) or '', '^(%d+) (%d+)$')
  local before = held and written_under ~= since and read_former_terms(record)
  local tokens, at
  if before and before.capacity then
    tokens, at = arrived(before, tonumber(held), before.since)
    tokens, at = carry(before, terms, tokens, at)
    tokens, at = credit(terms, tokens, at, now)
  elseif held and not before then
    tokens, at = arrived(terms, tonumber(held), now)
    tokens, at = credit(terms, tokens, at, now)
  else
    -- Full; or left by a limit of this name that has been removed, which says nothing of this one.
    tokens, at = absent(terms, now)
  end

  local moved = whole(instant(at, terms.capacity - tokens, terms.n, terms.p)) ~= held or since ~= written_under
  local reply, written, kept = answer(terms, tokens, at, moved, operation, count, now)
  if written and kept then
    local tat = instant(at, terms.capacity - reply[2], terms.n, terms.p)
    redis.call('SET', state, whole(tat) .. ' ' .. since, 'PXAT', expiry(terms, tat))
  elseif written then
    redis.call('DEL', state)
  end
  return reply
end

local scripted = gcra
