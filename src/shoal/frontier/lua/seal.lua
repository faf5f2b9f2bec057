-- seal.lua: nothing of a job is left in this slot, and it takes nothing from now on.
-- ARGV[1] job with its life   ARGV[2] token of who is about to end the job   ARGV[3] its state in the list of jobs
-- Who began later takes over what others have sealed, and keeps it.
-- returns {sums, reasons, slowest hosts}, each as pairs; {} when something is left, or may be missing: the job is not
--   known here, the server has not made good what it lost, or links of its pages are owed to a slot that was away; and
--   when somebody has sealed it who began later
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'queued', 'delayed', 'leased', 'owing', 'was', 'seal')
if not j[1] or not is_run(redis.call('GET', WHOLE) or '-') then return {} end
local cancelled = (j[1] == 'sealed' and j[6] or j[1]) == 'cancelled'
if cancelled ~= (ARGV[3] == 'cancelled') then return {} end
local function number(token) return tonumber(string.match(token, '^%d+')) end
if j[1] == 'sealed' and j[7] ~= ARGV[2] and number(j[7]) >= number(ARGV[2]) then return {} end
local left = (tonumber(j[2]) or 0) + (tonumber(j[3]) or 0) + (tonumber(j[4]) or 0)
if left > 0 or (not cancelled and (tonumber(j[5]) or 0) > 0) then return {} end
if j[1] ~= 'sealed' then redis.call('HSET', job_key(job), 'was', j[1]) end
redis.call('HSET', job_key(job), 'state', 'sealed', 'seal', ARGV[2])
refresh_due(job)
return { redis.call('HGETALL', job_key(job)), redis.call('HGETALL', reasons_key(job)),
  redis.call('ZREVRANGE', slow_key(job), 0, 31, 'WITHSCORES') }
