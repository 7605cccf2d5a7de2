-- Publishes one shard of a limit. Runs after time.lua, bucket.lua and packed_state.lua.
--
-- KEYS
-- 1. record
-- 2. due index
-- 3. previous index
--
-- ARGV
-- 1. the instant from which the terms apply (µs; now, unless it lies between the last change and now)
-- 2. the latest instant of a freeze that all workers have been told of (µs; 0 if they have been told of none)
-- 3. and on, the record's fields and values. The field `expires`, the end of a limit that code has defined, may be
--    among them. A record that has an end keeps it. One that has none ends UNCONFIRMED_MICROS from now at the latest,
--    until expire.lua moves the end: whoever writes a record may have lost the definition meanwhile
--
-- Reply {outcome, now}.
-- - 0 unchanged, 1 changed, 2 created
-- - 3 busy. Nothing was changed. Buckets of an earlier change or of another algorithm are first to be migrated or
--   swept
-- - 4 announced. The record is frozen, and nothing else was changed. Tell the workers, and publish again
--   FREEZE_MICROS after they were told
-- - 5 too early. Nothing was changed. A change of plans that workers wait for takes force first: publish again after
--   so many µs as `now` says here
--
-- Laws  6. The cost of a change does not depend on the number of buckets, since the due index becomes the previous
--       index.
--       1. While a record is frozen, workers take by script. After a change, therefore, no bare DECR relies on the
--       previous terms.
assert(#KEYS == 3 and #ARGV >= 4 and #ARGV % 2 == 0, 'publish takes 3 keys, 2 instants and pairs of fields and values')
local record, due, previous = KEYS[1], KEYS[2], KEYS[3]

-- Whether the record is one that can change. Absurd numbers would stop every publication.
local function is_publishable()
  if redis.call('TYPE', record).ok ~= 'hash' then return false end
  local changes = redis.call('HGET', record, 'generation') or '0'
  if not string.find(changes, '^%d+$') or #changes > 15 then return false end
  for _, field in ipairs({'since', 'frozen', 'was_capacity', 'was_n', 'was_p', 'was_filled'}) do
    local text = redis.call('HGET', record, field)
    if text and not is_sound(tonumber(text), field == 'was_p' and 1 or -EXACT) then return false end
  end
  return read_terms(record, redis.call('HGET', record, 'algorithm')) ~= nil
end

local now = microseconds()
local given, names = {}, {}
for i = 3, #ARGV, 2 do
  if ARGV[i] ~= 'expires' then names[#names + 1] = ARGV[i] end
  given[ARGV[i]] = ARGV[i + 1]
end
if not is_publishable() then redis.call('UNLINK', record) end
for i = 2, 3 do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'zset' and kind ~= 'none' then redis.call('UNLINK', KEYS[i]) end
end
local held = redis.call('HMGET', record, unpack(names))
local created, same = redis.call('EXISTS', record) == 0, true
local before = {}
for i = 1, #names do
  before[names[i]] = held[i]
  if held[i] ~= given[names[i]] then same = false end
end
-- A limit has an end or none: the one is of code, and the other of a config.
local had_end = redis.call('HGET', record, 'expires')
if not had_end ~= not given.expires then same = false end
local function set_end()
  if not given.expires then
    redis.call('HDEL', record, 'expires')
    redis.call('PERSIST', record)
    return
  end
  local held = tonumber(had_end or nil)
  local ends = is_sound(held, 0) and held or math.min(tonumber(given.expires), now + UNCONFIRMED_MICROS)
  redis.call('HSET', record, 'expires', whole(ends))
  if created then redis.call('PEXPIRE', record, UNCONFIRMED_MICROS / 1000) end
end
local frozen = tonumber(redis.call('HGET', record, 'frozen') or 0)
if same then
  if given.expires then set_end() end
  if frozen == 0 then return {0, now} end
  -- The announced change has been withdrawn.
  redis.call('HSET', record, 'frozen', 0)
  redis.call('HINCRBY', record, 'generation', 1)
  return {1, now}
end

-- Workers change to other plans together, at an instant that all of them know ahead. Until then, the ones before hold.
-- Not all of them would know in time of a change that is taken back.
local moves = not created and (before.plans or '') ~= given.plans
local changes_at = moves and tonumber(redis.call('HGET', record, 'plans_at') or 0) or 0
if changes_at > now and changes_at <= now + PLANS_AHEAD then return {5, changes_at - now} end

local capacity = tonumber(given.capacity)
local since = tonumber(redis.call('HGET', record, 'since') or 0)
local at = tonumber(ARGV[1])
-- A change cannot begin before the last one, nor in the future.
if at <= since or at > now then at = now end

-- Buckets at rest name the terms that they were written under. All shards of a limit count alike, since workers read
-- one record.
local counted = tonumber(redis.call('HGET', record, 'terms') or 0) + 1
local anew = {}
-- Whether workers may still take by native commands: not once they have known of the freeze for long enough.
local function is_to_wait()
  -- The clock stepped back, so the freeze begins anew.
  if frozen == 0 or frozen > now then
    frozen = now
    redis.call('HSET', record, 'frozen', whole(now))
  end
  return frozen > tonumber(ARGV[2]) or now - frozen < FREEZE_MICROS
end
if created or before.algorithm ~= given.algorithm then
  if not created and before.algorithm == 'token-bucket' and is_to_wait() then return {4, now} end
  -- Buckets of the other algorithm are swept. Until then, their indexes would be taken for those of this one.
  local leftovers = redis.call('EXISTS', due, previous) > 0
  if given.algorithm == 'token-bucket' and leftovers then return {3, now} end
  redis.call('HDEL', record, 'was_capacity', 'was_n', 'was_p', 'was_filled', 'change', 'earlier')
  anew = {'anchor', whole(capacity), 'anchored', whole(at), 'former', 0, 'since', whole(at), 'terms', whole(counted)}
elseif (given.permit_ttl or '0') ~= '0' then
  -- Holders go by the ttl that they were told last.
  if before.capacity ~= given.capacity or before.permit_ttl ~= given.permit_ttl then
    local told = tonumber(redis.call('HGET', record, 'permit_longest') or 0) or 0
    if at >= since + told then told = 0 end
    anew = {'since', whole(at), 'permit_longest', whole(math.max(told, tonumber(before.permit_ttl or 0) or 0))}
  end
elseif given.rules ~= '' then
  -- Taken tokens stay taken, and count under the new windows.
  if before.rules ~= given.rules or before.aligned ~= given.aligned then anew = {'since', whole(at)} end
else
  local terms = read_terms(record, before.algorithm)
  local changed = {capacity = capacity, n = tonumber(given.n), p = tonumber(given.p)}
  local is_overdue = overdue(terms, now)
  local function differs()
    return terms.capacity ~= changed.capacity or terms.n ~= changed.n or terms.p ~= changed.p
  end
  if is_overdue or differs() then
    -- Workers may have migrated the last buckets of the previous index themselves.
    if terms.has_previous and redis.call('EXISTS', previous) == 1 then return {3, now} end
    if given.algorithm == 'token-bucket' and (before.n ~= '0' or given.n ~= '0') and is_to_wait() then
      return {4, now}
    end
  end
  -- The fields of a change of `terms` to `later` ones at an instant.
  local function change_to(later, from, change)
    terms.since, terms.change, terms.filled = from, change, last_filled(terms, from)
    -- All absent buckets are migrated here, at once.
    local anchor, anchored = migrate(terms, later, terms.anchor, terms.anchored)
    local active = redis.call('EXISTS', due)
    if active == 1 then redis.call('RENAME', due, previous) end
    -- Buckets at rest may have been written under any of the last terms.
    local was, earlier = read_previous_terms(record), {}
    if was.since and was.change and was.capacity and was.n and was.p and was.filled then
      local numbers = {terms.count - 1, was.since, was.capacity, was.n, was.p, was.filled}
      for i = 1, #numbers do numbers[i] = whole(numbers[i]) end
      earlier[1] = table.concat(numbers, ' ') .. ' ' .. was.change
    end
    for one in string.gmatch(redis.call('HGET', record, 'earlier') or '', '[^,]+') do
      if #earlier < MOST_EARLIER then earlier[#earlier + 1] = one end
    end
    return {'anchor', whole(anchor), 'anchored', whole(anchored), 'former', active, 'since', whole(from),
      'was_capacity', whole(terms.capacity), 'was_n', whole(terms.n), 'was_p', whole(terms.p), 'was_filled',
      whole(terms.filled), 'earlier', table.concat(earlier, ','), 'change', change, 'terms', whole(terms.count + 1)}
  end
  -- Changes of the schedule that no daemon has made: scripts have followed them, each from its own instant on.
  while is_overdue do
    local from, most, rate, n, p, rest = string.match(terms.schedule, '^(%d+) (%d+) ([^ ]+) (%d+) (%d+),?(.*)$')
    local later = {capacity = tonumber(most), n = tonumber(n), p = tonumber(p)}
    local sound = is_sound(later.capacity, 1) and is_sound(later.n, 1) and is_sound(later.p, 1)
    if not sound or terms.n == 0 then break end
    from = tonumber(from)
    redis.call('HSET', record, 'packed', '', 'capacity', most, 'n', n, 'p', p, 'rate', rate, 'schedule', rest,
      unpack(change_to(later, from, before.on_change)))
    terms = read_terms(record, before.algorithm)
    if at <= from then at = now end
    is_overdue = overdue(terms, now)
    if terms.has_previous and (is_overdue or differs()) then return {3, now} end
  end
  if differs() then
    anew = change_to(changed, at, given.on_change)
  elseif before.parts ~= given.parts and given.parts ~= '' then
    -- Buckets of parts are carried over this instant, too.
    anew = {'since', whole(at)}
  end
end
if moves then
  -- The tables before these, while they matter for tokens: of each `@UNTIL LENGTH`, then the table. A table that is
  -- lost has the length `?`. A change matters while the buckets fill, and may have come at the end of a time without a
  -- bucket that was as long.
  local past, old, i, left = {}, redis.call('HGET', record, 'plans_past') or '', 1, MOST_PAST_BYTES
  local function keep(till, table)
    if till <= math.max(0, now - 2 * tonumber(given.plans_fill or 0)) then return end
    left = left - (table and #table or 0)
    past[#past + 1] = {till, left >= 0 and table}
  end
  keep(changes_at, redis.call('HGET', record, 'plans_before') or '')
  while true do
    local till, length, first = string.match(old, '^@(%d+) ([%d?]+)\n()', i)
    if not till or #past > MOST_PAST then break end
    length = tonumber(length)
    keep(tonumber(till), length and string.sub(old, first, first + length - 1))
    i = first + (length and length + 1 or 0)
  end
  -- The first of them stays, since a key that is not used has its tokens there. The ones behind it are lost.
  if #past > MOST_PAST then
    past[#past - 2][2] = false
    table.remove(past, #past - 1)
  end
  for j = 1, #past do
    local till, text = whole(past[j][1]), past[j][2]
    past[j] = text and '@' .. till .. ' ' .. #text .. '\n' .. text .. '\n' or '@' .. till .. ' ?\n'
  end
  redis.call('HSET', record, 'plans_before', before.plans or '', 'plans_at', whole(now + PLANS_AHEAD),
    'plans_past', table.concat(past))
end
-- Redis searches a small hash from its beginning, so the field that every take reads is written first.
redis.call('HSET', record, 'packed', '', unpack(ARGV, 3))
redis.call('HSET', record, 'frozen', 0)
if had_end or given.expires then set_end() end
if #anew > 0 then redis.call('HSET', record, unpack(anew)) end
local rests = given.algorithm == 'token-bucket' or given.algorithm == 'gcra'
local terms = read_terms(record, given.algorithm)
local packed = rests and packed_terms(given.algorithm, terms)
  or packed_state_terms(given, terms, redis.call('HGET', record, 'since'), now)
redis.call('HSET', record, 'packed', packed)
redis.call('HINCRBY', record, 'generation', 1)
return {created and 2 or 1, now}
