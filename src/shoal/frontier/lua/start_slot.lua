-- start_slot.lua: a job's time runs in this slot as it does in the list of jobs.
-- ARGV[1] job   ARGV[2] ms since its first lease, without pauses   ARGV[3] its first lease and its pauses, as the list has
--   them: the same ones twice change nothing
-- returns 1, or 0 when the job is unknown or nothing has changed
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'seconds', 'time')
if not j[1] or j[3] == ARGV[3] then return 0 end
local started, seconds = now - tonumber(ARGV[2]), tonumber(j[2]) or 0
redis.call('HSET', job_key(job), 'started', string.format('%d', started), 'rested', 0, 'time', ARGV[3])
if j[1] == 'paused' then redis.call('HSET', job_key(job), 'paused', now) end
if seconds > 0 then
  redis.call('HSET', job_key(job), 'deadline', string.format('%d', started + seconds * 1000))
else
  redis.call('HDEL', job_key(job), 'deadline')
end
refresh_due(job)
return 1
