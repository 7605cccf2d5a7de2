-- Runs after time.lua.
-- ARGV  n, p, score, now, k of each case
-- Reply {start, owed, score after, instant} of each case, as text
local answers = {}
local function answer(number) answers[#answers + 1] = string.format('%.0f', number) end
for i = 1, #ARGV, 5 do
  local n, p, score = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local now, k = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local given, at = owed(score, now, n, p)
  answer(start(now, n, p))
  -- Beyond 2^53 it only matters that it is beyond.
  answer(math.min(given, EXACT))
  answer(at)
  answer(instant(score, k, n, p))
end
return answers
