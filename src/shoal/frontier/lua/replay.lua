-- replay.lua: dead requests are tried once more.
-- ARGV[1] job   ARGV[2] token: the same one twice changes nothing
-- ARGV[3..] triples: host, reason it died of, level (0, or 3 for the browser) .. entry
-- returns {state or '', requests put back}
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'ended', 'host_pages', 'rebuild', 'queue')
if not j[1] or (j[4] and is_recalling(j[4])) then return { '', 0 } end
if j[2] or j[1] == 'cancelled' or j[1] == 'sealed' then return { j[1], 0 } end
if redis.call('HSETNX', job_key(job), 'replay:' .. ARGV[2], 1) == 0 then return { j[1], 0 } end
local n = 0
for i = 3, #ARGV, 3 do
  local level = in_half(string.sub(ARGV[i + 2], 1, 1)) and render_level(j[5], 0) or 0
  enqueue(job, ARGV[i], level, { string.sub(ARGV[i + 2], 2) }, false)
  add_place(job, level, 'queued', 1)
  local reason = 'dead:' .. ARGV[i + 1]
  local left = ARGV[i + 1] ~= '' and redis.call('HINCRBY', reasons_key(job), reason, -1)
  -- Of a slot, it may have been counted elsewhere.
  if left and (left == 0 or (left < 0 and not IN_SLOT)) then redis.call('HDEL', reasons_key(job), reason) end
  if (tonumber(j[3]) or 0) > 0 then redis.call('HINCRBY', spend_key(job), 'p ' .. ARGV[i], 1) end
  n = n + 1
end
add(job, 'dead', -n)
write_sums()
refresh_due(job)
return { j[1], n }
