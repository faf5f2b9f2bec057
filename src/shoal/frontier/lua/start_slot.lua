-- start_slot.lua: the job was begun elsewhere, so long ago: its time runs here, too.
-- ARGV[1] job   ARGV[2] ms since its first lease, without pauses
-- returns 1, or 0 when the job is unknown or has begun here
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'started', 'seconds')
if not j[1] or j[2] then return 0 end
local started, seconds = now - tonumber(ARGV[2]), tonumber(j[3]) or 0
redis.call('HSET', job_key(job), 'started', string.format('%d', started))
if seconds > 0 then redis.call('HSET', job_key(job), 'deadline', string.format('%d', started + seconds * 1000)) end
refresh_due(job)
return 1
