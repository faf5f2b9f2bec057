-- cancel.lua: drop all that waits; what is leased may still settle, and the last settle ends the job.
-- ARGV[1] job
-- returns {state or '', 1 when this call ended the job}
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'ended', 'queued', 'delayed', 'queue')
if not j[1] then return { '', 0 } end
if j[2] or j[1] == 'cancelled' then return { j[1], 0 } end
for _, host in ipairs(redis.call('ZRANGE', ready_key(job), 0, -1)) do
  redis.call('UNLINK', queue_key(job, host, 0), queue_key(job, host, 1), queue_key(job, host, 2))
  redis.call('SREM', waiters_key(host), job)
end
redis.call('UNLINK', ready_key(job), delayed_key(job))
add(job, 'queued', -(tonumber(j[3]) or 0))
add(job, 'delayed', -(tonumber(j[4]) or 0))
add(job, 'dropped', (tonumber(j[3]) or 0) + (tonumber(j[4]) or 0))
write_sums()
redis.call('HSET', job_key(job), 'state', 'cancelled')
tell(job, 'state', 'cancelled')
refresh_due(job)
return { 'cancelled', ends_now(job) and 1 or 0 }
