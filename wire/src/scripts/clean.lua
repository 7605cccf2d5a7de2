-- Cleans entries of the due index that no script writes. Runs after time.lua, bucket.lua and rest.lua.
--
-- KEYS
-- 1. record
-- 2. due index
-- 3. and on, counters of the entries
--
-- ARGV
-- 1. bytes before the member in a counter's key
-- 2. 1 if the limit is keyed, else 0
--
-- Reply entries cleaned. An entry is removed if no bucket can have its name, or if it has neither a score nor a
--       counter. Any other entry with a score ahead of the clock, or of no band, counts from now.
--
-- Laws  1. A bucket keeps its tokens and gets no time. 5. After a step of the clock back, all entries are ahead.
assert(#KEYS >= 3 and #ARGV == 2, 'clean takes at least 3 keys and 2 arguments')
local record, due, prefix = KEYS[1], KEYS[2], tonumber(ARGV[1])
local now = microseconds()
local terms = read_terms(record, 'token-bucket')
local members = {}
for i = 3, #KEYS do members[i - 2] = string.sub(KEYS[i], prefix + 1) end
local scores, texts = redis.call('ZMSCORE', due, unpack(members)), redis.call('MGET', unpack(KEYS, 3))
local cleaned, done, leaving, gone = 0, {}, {}, {}
for i, member in ipairs(members) do
  local indexed = not done[member] and tonumber(scores[i] or nil)
  if terms and indexed then
    local in_bands = indexed >= -LAST_BAND_OFFSET and indexed < LAST_BAND_OFFSET
    local is_foreign = (member == '') == (ARGV[2] == '1') or #member > MOST_KEY_BYTES
    local is_ahead = not in_bands or score_in_index(indexed) > now + LATEST_START
    local text = texts[i]
    done[member], cleaned = true, cleaned + 1
    if is_foreign or is_ahead and not text and not in_bands then
      leaving[#leaving + 1], gone[#gone + 1] = member, KEYS[i + 2]
    elseif is_ahead and parse_rest(text) then
      leaving[#leaving + 1] = member
    elseif is_ahead then
      local tokens = counted(terms, tonumber(text or 0) or 0)
      tokens = math.floor(math.min(terms.capacity, tokens))
      redis.call('SET', KEYS[i + 2], whole(tokens))
      redis.call('ZADD', due, whole(index_score(terms, tokens, fresh(terms, now))), member)
    else
      cleaned = cleaned - 1
    end
  end
end
if #gone > 0 then redis.call('UNLINK', unpack(gone)) end
if #leaving > 0 then redis.call('ZREM', due, unpack(leaving)) end
return cleaned
