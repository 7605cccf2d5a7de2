-- Changes of terms by a schedule, before a daemon makes them. Prepended after bucket.lua to the scripts that take.
--
-- The record's field `schedule` lists the next changes: instant, capacity, rate, n and p of each. Every script follows
-- a change from its instant on, and leaves the record as it is: workers may not write it. Until a daemon makes the
-- change, scripts leave all buckets at rest, under the tag that the daemon will count. The due index has buckets of
-- the record's own terms only.
--
-- Terms are linked. `before` applied until then, `ahead` will apply next. `from` is the instant of the change to them,
-- and nil of the record's own. `since` and `change` say when and how they end, as in `read_previous_terms`.

-- The terms at `now`, and the record's own.
local function with_changes(terms, record, now)
  if not terms or terms.schedule == '' then return terms, terms end
  local change = redis.call('HGET', record, 'on_change')
  local own, last, present = terms, terms, terms
  for at, capacity, n, p in string.gmatch(terms.schedule, '(%d+) (%d+) [^ ]+ (%d+) (%d+)') do
    local later = {
      from = tonumber(at), capacity = tonumber(capacity), n = tonumber(n), p = tonumber(p), catch_up = own.catch_up,
      tick = own.tick, filled = 0, fills = 0, schedule = own.schedule, count = last.count + 1, before = last,
      tag = format('%04d', (last.count + 1) % TAGS),
    }
    local sound = is_sound(later.from, 1) and is_sound(later.capacity, 1) and is_sound(later.n, 1)
      and is_sound(later.p, 1) and own.n > 0 and later.from > (last.from or 0)
    if not sound then break end
    last.ahead, last.since, last.change = later, later.from, change
    later.anchor, later.anchored = migrate(last, later, last.anchor, last.anchored)
    if later.from <= now then present = later end
    last = later
  end
  return present, own
end

-- The terms before the record's own for which `is_of` holds, else the previous ones; nil if there are none. `began` is
-- the instant from which they applied, where that is known.
local function before_own(own, record, is_of)
  local previous = read_previous_terms(record)
  if not previous.capacity then return nil end
  local last, count = previous, own.count - 1
  own.before, previous.tag = previous, format('%04d', count % TAGS)
  -- The field `earlier` lists the terms before the previous ones: count, end, capacity, n, p, last filling, and the
  -- `on_change` of their end.
  local row = '(%d+) (%d+) (%d+) (%d+) (%d+) (%-?%d+) (%a+)'
  for said, ended, capacity, n, p, filled, change in string.gmatch(redis.call('HGET', record, 'earlier') or '', row) do
    local one = {
      since = tonumber(ended), change = change, capacity = tonumber(capacity), n = tonumber(n), p = tonumber(p),
      filled = tonumber(filled),
    }
    local sound = is_sound(one.since, 1) and is_sound(one.capacity, 1) and is_sound(one.n, 0) and is_sound(one.p, 1)
      and is_sound(one.filled, -EXACT) and tonumber(said) == count - 1
    if not sound then break end
    last.began = one.since
    if is_of(last) then return last end
    count, last.before, last = count - 1, one, one
    last.tag = format('%04d', count % TAGS)
  end
  return is_of(last) and last or previous
end

-- Tokens and score of a bucket that was last credited under `under`, `terms` or earlier ones.
local function carried(terms, under, tokens, score)
  if terms == under then return tokens, score end
  tokens, score = carried(terms.before, under, tokens, score)
  return migrate(terms.before, terms, tokens, score)
end

-- The instant at which a bucket of `tokens` has `goal` tokens, or all of its capacity if nil. It follows the changes
-- ahead. A goal above a later capacity is told at that change.
local function reached(terms, tokens, score, goal)
  local at = instant(score, (goal or terms.capacity) - tokens, terms.n, terms.p)
  while terms.ahead and at > terms.since do
    tokens, score = migrate(terms, terms.ahead, tokens, score)
    terms = terms.ahead
    local aim = goal or terms.capacity
    if tokens >= aim or aim > terms.capacity then
      at = terms.from
    else
      at = instant(score, aim - tokens, terms.n, terms.p)
    end
  end
  return at
end

-- µs from `now` until a bucket of `tokens` has `missing` more. See `time_to`.
local function wait_for(terms, tokens, score, missing, now)
  if not terms.ahead then return time_to(terms, score, missing, now) end
  return math.max(0, reached(terms, tokens, score, tokens + missing) - now)
end
