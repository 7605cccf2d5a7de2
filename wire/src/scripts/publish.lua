-- Publishes one shard of a limit. Runs after time.lua and bucket.lua.
-- KEYS  1 record  2 due index  3 former index
-- ARGV  1 the instant from which the terms apply (µs; now, unless it lies between the last change and now)
--       2 the latest instant of a freeze that all workers have been told of (µs; 0: they have been told of none)
--       3... the record's fields and values
-- Reply {outcome, now}: outcome 0 as it was, 1 changed, 2 created, 3 busy: buckets of an earlier change or another
--       algorithm are still to be carried over or swept; nothing was changed, ask again after. 4 announced: the record
--       is frozen, and nothing else was changed; tell the workers, and ask again FREEZE after they were told.
-- Laws  6. A change costs the same however many buckets there are: the due index becomes the former index.
--       1. While a record is frozen, workers take by script. So when a change is made, no bare DECR reckons with the
--       terms before it.
assert(#KEYS == 3 and #ARGV >= 4 and #ARGV % 2 == 0, 'publish takes 3 keys, 2 instants and pairs of fields and values')
local record, due, former = KEYS[1], KEYS[2], KEYS[3]
-- µs from telling the workers of a freeze to its change. A worker believes what it knows for 700 ms.
local FREEZE = 750000

-- The terms in one field of the record, 40 bytes, for light.lua: the letter of the algorithm in a state's key,
-- capacity, then n, p and since; or of windows their length, 1 where they are aligned, and of a log the instant of this
-- change, up to which expiries were set by other terms. Empty where light.lua would reckon wrongly.
local function light_terms(given, record, now)
  local letters = {
    ['lazy-token-bucket'] = 'l', ['leaky-bucket'] = 'k', ['fixed-window'] = 'f', ['sliding-counter'] = 'c',
    ['sliding-window'] = 's',
  }
  local letter, form = letters[given.algorithm], '<ddddd'
  -- Where Redis was built for 32 bits, %d is too short for an instant.
  if not letter or struct.size('l') < 8 then return '' end
  if given.rules ~= '' then
    local tokens, micros = string.match(given.rules, '^(%d+) (%d+)$')
    if not tokens then return '' end
    local aligned = letter == 'f' and given.aligned or 0
    return struct.pack(form, string.byte(letter), tokens, micros, aligned, letter == 's' and now or 0)
  end
  local terms, since = read_terms(record, given.algorithm), redis.call('HGET', record, 'since')
  if not is_plain(terms.n, terms.p) or letter == 'l' and terms.anchor < terms.capacity then return '' end
  return struct.pack(form, string.byte(letter), terms.capacity, terms.n, terms.p, since)
end

local now = microseconds()
local given, names = {}, {}
for i = 3, #ARGV, 2 do
  names[#names + 1] = ARGV[i]
  given[ARGV[i]] = ARGV[i + 1]
end
local held = redis.call('HMGET', record, unpack(names))
local created, same = redis.call('EXISTS', record) == 0, true
local before = {}
for i = 1, #names do
  before[names[i]] = held[i]
  if held[i] ~= given[names[i]] then same = false end
end
local frozen = tonumber(redis.call('HGET', record, 'frozen') or 0)
if same then
  if frozen == 0 then return {0, now} end
  -- The change that was announced is not wanted any more.
  redis.call('HSET', record, 'frozen', 0)
  redis.call('HINCRBY', record, 'generation', 1)
  return {1, now}
end

local capacity = tonumber(given.capacity)
local since = tonumber(redis.call('HGET', record, 'since') or 0)
local at = tonumber(ARGV[1])
-- An instant that has been published under already, or is still to come, says nothing of this change.
if at <= since or at > now then at = now end

-- Buckets at rest say under which terms they were written. All shards of a limit count alike, as workers read one.
local counted = tonumber(redis.call('HGET', record, 'terms') or 0) + 1
local anew = {}
-- Whether workers may still take by bare commands: not once a freeze they were told of is old enough.
local function is_to_wait()
  -- A clock that stepped back begins anew.
  if frozen == 0 or frozen > now then
    frozen = now
    redis.call('HSET', record, 'frozen', whole(now))
  end
  return frozen > tonumber(ARGV[2]) or now - frozen < FREEZE
end
if created or before.algorithm ~= given.algorithm then
  if not created and before.algorithm == 'token-bucket' and is_to_wait() then return {4, now} end
  -- Another algorithm's buckets are swept; until they are, those that would be taken for ours keep us waiting.
  local leftovers = redis.call('EXISTS', due, former) > 0
  if given.algorithm == 'token-bucket' and leftovers then return {3, now} end
  redis.call('HDEL', record, 'was_capacity', 'was_n', 'was_p', 'was_filled', 'change')
  anew = {'anchor', whole(capacity), 'anchored', whole(at), 'former', 0, 'since', whole(at), 'terms', whole(counted)}
elseif given.rules ~= '' then
  -- What was taken stays taken: whoever asks next counts it under the windows of then.
  if before.rules ~= given.rules or before.aligned ~= given.aligned then anew = {'since', whole(at)} end
elseif before.capacity ~= given.capacity or before.n ~= given.n or before.p ~= given.p then
  local terms = read_terms(record, before.algorithm)
  -- Workers may have carried the last of them over themselves.
  if terms.former and redis.call('EXISTS', former) == 1 then return {3, now} end
  if given.algorithm == 'token-bucket' and (before.n ~= '0' or given.n ~= '0') and is_to_wait() then return {4, now} end
  terms.since, terms.change, terms.filled = at, given.on_change, last_filled(terms, at)
  local changed = {capacity = capacity, n = tonumber(given.n), p = tonumber(given.p)}
  -- An absent bucket is carried over here, once for all of them.
  local anchor, anchored = carry(terms, changed, terms.anchor, terms.anchored)
  local active = redis.call('EXISTS', due)
  if active == 1 then redis.call('RENAME', due, former) end
  anew = {'anchor', whole(anchor), 'anchored', whole(anchored), 'former', active, 'since', whole(at), 'was_capacity',
    before.capacity, 'was_n', before.n, 'was_p', before.p, 'was_filled', whole(terms.filled), 'change', given.on_change,
    'terms', whole(counted)}
end
-- What every take reads is written first, and so found first: Redis searches a small hash from its beginning.
redis.call('HSET', record, 'packed', '', unpack(ARGV, 3))
redis.call('HSET', record, 'frozen', 0)
if #anew > 0 then redis.call('HSET', record, unpack(anew)) end
local rests = given.algorithm == 'token-bucket' or given.algorithm == 'gcra'
local packed = rests and packed_terms(given.algorithm, read_terms(record, given.algorithm))
redis.call('HSET', record, 'packed', packed or light_terms(given, record, now))
redis.call('HINCRBY', record, 'generation', 1)
return {created and 2 or 1, now}
