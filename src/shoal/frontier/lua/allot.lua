-- allot.lua: pages of a job's budget for one of its slots, as far as there are any.
-- ARGV[1] job   ARGV[2] its life   ARGV[3] slot   ARGV[4] pages that are wanted, 0 for a new version only
-- returns {all that the slot may have, version of this, 1 when there are no more}
local job, slot, want = ARGV[1], ARGV[3], tonumber(ARGV[4])
local j = redis.call('HMGET', job_key(job), 'pages', 'admitted', 'dead', 'dropped', 'redirects', 'life')
if j[6] ~= ARGV[2] then return { 0, 0, 1 } end
local function number(i) return tonumber(j[i]) or 0 end
-- What a restored job has used before stands in its own sums.
local left, limit, version = number(1) - (number(2) - number(3) - number(4) - number(5)), 0, 0
local shares = redis.call('HGETALL', shares_key(job))
for i = 1, #shares, 2 do
  local pages, number_of = string.match(shares[i + 1], '^(%-?%d+) (%d+)$')
  left = left - tonumber(pages)
  if shares[i] == slot then limit, version = tonumber(pages), tonumber(number_of) end
end
-- A little in advance: who needs it later asks for it.
local grant = want > 0 and min(max(left, 0), max(want, floor(left / 32))) or 0
redis.call('HSET', shares_key(job), slot, string.format('%d %d', limit + grant, version + 1))
return { limit + grant, version + 1, left - grant <= 0 and 1 or 0 }
