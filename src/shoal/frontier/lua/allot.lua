-- allot.lua: pages of a job's budget for one of its slots, as far as there are any.
-- ARGV[1] job   ARGV[2] its life   ARGV[3] slot   ARGV[4] pages that it wants to take in, 0 for a new version only
-- ARGV[5] pages that it has used: these it has in any case   ARGV[6] pages that come back to it, which need no budget
-- ARGV[7] all that it may have, as the slot says   ARGV[8] version of this: what has died there is of the budget again,
--   unless it has got more meanwhile
-- returns {all that the slot may have, version of this, 1 when there are no more}; {-1, 0, 0} when this server was started
--   anew, may have forgotten what it has given out, and has not asked the slots
local job, slot, want, used = ARGV[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local j = redis.call('HMGET', job_key(job), 'pages', 'admitted', 'dead', 'dropped', 'redirects', 'life', 'agreed')
if j[6] ~= ARGV[2] then return { 0, 0, 1 } end
if want > 0 and not is_run(j[7] or '-') then return { -1, 0, 0 } end
local function number(i) return tonumber(j[i]) or 0 end
-- What a restored job has used before stands in its own sums.
local left, limit, version = number(1) - (number(2) - number(3) - number(4) - number(5)), 0, 0
local shares = redis.call('HGETALL', shares_key(job))
for i = 1, #shares, 2 do
  local pages, number_of = string.match(shares[i + 1], '^(%-?%d+) (%d+)$')
  if shares[i] == slot then
    limit, version = tonumber(pages), tonumber(number_of)
  else
    left = left - tonumber(pages)
  end
end
if version == tonumber(ARGV[8]) then limit = tonumber(ARGV[7]) end
limit = max(limit, used) + tonumber(ARGV[6])
left = left - limit
-- A little in advance: who needs it later asks for it.
local need = used + want - limit
local grant = want > 0 and need > 0 and min(max(left, 0), max(need, floor(left / 32))) or 0
redis.call('HSET', shares_key(job), slot, string.format('%d %d', limit + grant, version + 1))
-- If more is used than there is, nobody goes on with what he has in advance; it stays his until he has heard of it.
local told = left < 0 and max(used + tonumber(ARGV[6]), limit + left) or limit + grant
return { told, version + 1, left - grant <= 0 and 1 or 0 }
