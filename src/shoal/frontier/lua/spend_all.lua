-- spend_all.lua: a job has used up its bytes, over all its slots: what waits here is dropped, and nothing more comes.
-- ARGV[1] job   ARGV[2] reason
-- returns how many requests were dropped
local job = ARGV[1]
local j = redis.call('HMGET', job_key(job), 'state', 'spent', 'ended')
if not j[1] or j[2] or j[3] then return 0 end
local dropped = drop_waiting(job)
if dropped > 0 then redis.call('HINCRBY', reasons_key(job), 'filtered:' .. ARGV[2], dropped) end
redis.call('HSET', job_key(job), 'spent', ARGV[2])
refresh_due(job)
return dropped
