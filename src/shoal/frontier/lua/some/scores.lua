-- some/scores.lua: how well proxies do; before the operations that lend them.

-- A proxy's score, 0 to 1: half of what it has lost comes back in this time, for who is not asked cannot prove itself.
local function score_now(score, scored)
  local half_life_ms = 60000
  local lost = 1 - (tonumber(score) or 1)
  return 1 - lost * 0.5 ^ ((now - (tonumber(scored) or now)) / half_life_ms)
end
