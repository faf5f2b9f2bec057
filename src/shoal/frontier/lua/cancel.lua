-- cancel.lua: drop all that waits; what is leased may still settle, and the last settle ends the job.
-- ARGV[1] job
-- returns {state or '', 1 when this call ended the job}
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'ended')
if not j[1] then return { '', 0 } end
if j[2] or j[1] == 'cancelled' then return { j[1], 0 } end
drop_waiting(job)
redis.call('HSET', job_key(job), 'state', 'cancelled')
tell(job, 'state', 'cancelled')
refresh_due(job)
return { 'cancelled', ends_now(job) and 1 or 0 }
