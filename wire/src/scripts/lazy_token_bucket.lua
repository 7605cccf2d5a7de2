-- The lazy token bucket: the script of each operation credits it, and it needs no daemon. Written upon time.lua,
-- bucket.lua, schedule.lua, state.lua and lazy.lua. State is {tokens, at, since}. The bucket has
-- been credited up to the instant `at`, under terms that apply since the instant `since`. Tokens are below 0 in debt. A
-- full bucket has no key.
-- Laws  1 (with no tick) 2 3 4 5 6 7.
local function lazy_token_bucket(record, state, now, operation, count, most_debt)
  local terms, own = with_changes(read_terms(record, 'lazy-token-bucket'), record, now)
  if not terms then return unknown(state, now) end

  local begun = tonumber(redis.call('HGET', record, 'since'))
  local since = terms.from or begun
  local tokens, written, under = numbers(state, '<ddd')
  local at = written
  local wrote = tokens and terms
  local function is_of(one) return one.began == under end
  while wrote and wrote ~= own and under ~= wrote.from do wrote = wrote.before end
  if wrote == own and under ~= begun then wrote = before_own(own, record, is_of) end
  if wrote then
    tokens, at = carried(terms, wrote, tokens, at)
    tokens, at = credit(terms, tokens, at, now)
  else
    -- There is no state, or a removed limit of the same name has left it.
    tokens, at = absent(terms, now)
  end

  local moved = at ~= written or since ~= under
  local reply, written, kept, left = answer(terms, tokens, at, moved, operation, count, now, most_debt)
  if written and kept then
    local full = reached(terms, left, at)
    redis.call('SET', state, struct.pack('<ddd', left, at, since), 'PXAT', expiry(terms, full))
  elseif written then
    redis.call('DEL', state)
  end
  return reply
end

local settle = lazy_token_bucket
